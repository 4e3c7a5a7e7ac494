package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Limits of a role.
const (
	MaxRules = 20_000 // in one role
	MaxWho   = 1_000  // of one rule
	MaxWhat  = 1_000  // of one rule
	MaxText  = 1_000  // bytes of the name of a rule
	MaxAbout = 10_000 // bytes of what a role says about itself
	MaxMarks = 1_000  // of what needs approval

	// MaxEntries is how many entries one role has in all its lists of who and what, "*" in what
	// being one for each class; MaxAllEntries how many all roles have that are written over
	// connections. What roles cost in memory grows with them, and not with their text: some
	// hundred bytes for each, and as much again for each set of rules that an identity has.
	MaxEntries    = 50_000
	MaxAllEntries = 100_000
)

// RolePrefix begins the names of the documents that are roles: "_access/games.json" is the role
// games. What may be done with them is said of the class of roles, not of documents.
const RolePrefix = "_access/"

// IsRole reports whether a document is a role. On some file systems another spelling is the same file.
func IsRole[T string | []byte](name T) bool {
	return len(name) >= len(RolePrefix) && name[0] == RolePrefix[0] && strings.EqualFold(string(name[:len(RolePrefix)]), RolePrefix)
}

// Role is what one document says. It never changes.
type Role struct {
	name  string
	rules []rule
	// marks are what the role says needs approval; markTexts[i] is marks[i] as the role has it
	marks     []pattern
	markTexts []string
	quotas    []quota
	entries   int
}

// Entries are how many entries all lists of who and what have, as [MaxEntries] counts them.
func (r *Role) Entries() int {
	if r == nil {
		return 0
	}
	return r.entries
}

// count adds n entries. codes.TooLarge: there are more than one role has.
func (r *Role) count(n int) error {
	if r.entries += n; r.entries > MaxEntries {
		return codes.Errorf(codes.TooLarge, "who and what have more than %d entries in all, where %q counts for each class; name beginnings (%q) or groups, or make several roles", MaxEntries, "*", "config:game/*")
	}
	return nil
}

// rule is one rule of a role.
type rule struct {
	name string // of the role and the rule, as people are told
	who  []who
	what []pattern
	// texts[i] is what[i] as the role has it
	texts       []string
	allow, deny Verb
}

// ParseRole reads a role, which is called name. It fails with the place and the remedy if
// anything in text is not what a role can say: a rule that is misunderstood is worse than none.
func ParseRole(name string, text []byte) (*Role, error) {
	if _, err := jsontext.CheckUTF8(text); err != nil {
		return nil, codes.Errorf(codes.BadJSON, "the role %s is not valid JSON: %v", name, err)
	}
	r := &Role{name: name}
	err := members(text, map[string]func(jsontext.Iter) error{
		"about":  func(it jsontext.Iter) error { _, err := prose(it, MaxAbout); return err },
		"rules":  func(it jsontext.Iter) error { return r.parseRules(it) },
		"quotas": func(it jsontext.Iter) error { return r.parseQuotas(it) },
		"approval": func(it jsontext.Iter) error {
			seen := map[string]bool{}
			return texts(it, MaxMarks, func(text string) error {
				if seen[text] {
					return nil
				}
				seen[text] = true
				return r.parseMark(text)
			})
		},
	})
	if err != nil {
		return nil, codes.Errorf(codes.Of(err), "the role %s: %v", name, err)
	}
	return r, nil
}

// parseMark reads one pattern of what needs approval.
func (r *Role) parseMark(text string) error {
	list, err := parseWhat(text)
	if err != nil {
		return err
	}
	for _, p := range list {
		switch {
		case p.class.Verbs()&Approve != 0:
			r.marks, r.markTexts = append(r.marks, p), append(r.markTexts, text)
			r.entries++ // there are few
		case text != "*":
			return codes.Errorf(codes.BadRequest, "%q: changes in %s cannot wait for approval; those of documents, keys and roles can", text, p.class)
		}
	}
	return nil
}

func (r *Role) parseRules(it jsontext.Iter) error {
	return elements(it, MaxRules, func(i int, it jsontext.Iter) error {
		rule, err := parseRule(it.Raw())
		if err != nil {
			return within(fmt.Sprintf("rule %d", i+1), err)
		}
		rule.name = fmt.Sprintf("%s, rule %d%s", r.name, i+1, rule.name)
		r.rules = append(r.rules, rule)
		return r.count(len(rule.who) + len(rule.what))
	})
}

func parseRule(text []byte) (rule, error) {
	var r rule
	seen := map[string]bool{}
	verbs := func(into *Verb) func(jsontext.Iter) error {
		return func(it jsontext.Iter) error {
			return texts(it, len(verbNames)+1, func(text string) error {
				v, err := ParseVerb(text)
				*into |= v
				return err
			})
		}
	}
	err := members(text, map[string]func(jsontext.Iter) error{
		"name": func(it jsontext.Iter) error {
			name, err := prose(it, MaxText)
			r.name = fmt.Sprintf(" %q", name)
			return err
		},
		"who": func(it jsontext.Iter) error {
			return texts(it, MaxWho, func(text string) error {
				w, err := parseWho(text)
				r.who = append(r.who, w)
				return err
			})
		},
		"what": func(it jsontext.Iter) error {
			return texts(it, MaxWhat, func(text string) error {
				if seen[text] { // which says nothing more
					return nil
				}
				seen[text] = true
				list, err := parseWhat(text)
				for _, p := range list {
					r.what, r.texts = append(r.what, p), append(r.texts, text)
				}
				return err
			})
		},
		"allow": verbs(&r.allow),
		"deny":  verbs(&r.deny),
	})
	if err != nil {
		return r, err
	}
	return r, r.check()
}

// check refuses rules that say nothing.
func (r *rule) check() error {
	switch {
	case len(r.who) == 0:
		return codes.Errorf(codes.BadRequest, `who is missing; name who it is about, or ["*"] for everyone`)
	case len(r.what) == 0:
		return codes.Errorf(codes.BadRequest, `what is missing; name what it is about, or ["*"] for everything`)
	case r.allow == 0 && r.deny == 0:
		return codes.Errorf(codes.BadRequest, "neither allow nor deny has a verb; there are %s and *", All)
	}
	for i, p := range r.what {
		if r.texts[i] == "*" {
			continue
		}
		if v := r.allow | r.deny; v != All && v&p.class.Verbs() == 0 {
			return codes.Errorf(codes.BadRequest, "%q: nothing in %s can be done by %s; there are %s and *", r.texts[i], p.class, v, p.class.Verbs())
		}
	}
	return nil
}

// members calls for each member of an object the function of its name. A member that has none,
// or stands twice, is refused.
func members(text []byte, of map[string]func(jsontext.Iter) error) error {
	it := jsontext.Iterate(text)
	if it.Container() != jsontext.Object {
		return codes.Errorf(codes.BadRequest, "expected an object, not %s", jsontext.KindOf(firstOf(text)))
	}
	seen := map[string]bool{}
	for it.Next() {
		name := string(it.Key())
		read := of[name]
		switch {
		case read == nil:
			return codes.Errorf(codes.BadRequest, "%q means nothing here; there are %s", shown(name), strings.Join(slices.Sorted(maps.Keys(of)), ", "))
		case seen[name]:
			return codes.Errorf(codes.BadRequest, "%q stands twice", name)
		}
		seen[name] = true
		if err := read(it); err != nil {
			return within(name, err)
		}
	}
	return nil
}

// elements calls read for each element of the array at it.
func elements(it jsontext.Iter, most int, read func(i int, it jsontext.Iter) error) error {
	if it.Kind() != jsontext.Array {
		return codes.Errorf(codes.BadRequest, "expected an array, not %s", it.Kind())
	}
	in := it.Enter()
	for i := 0; in.Next(); i++ {
		if i == most {
			return codes.Errorf(codes.TooLarge, "more than %d entries", most)
		}
		if err := read(i, in); err != nil {
			return err
		}
	}
	return nil
}

// texts calls read for each of the strings in the array at it.
func texts(it jsontext.Iter, most int, read func(text string) error) error {
	return elements(it, most, func(_ int, it jsontext.Iter) error {
		text, err := textOf(it)
		if err != nil {
			return err
		}
		return read(text)
	})
}

func textOf(it jsontext.Iter) (string, error) {
	if it.Kind() != jsontext.String {
		return "", codes.Errorf(codes.BadRequest, "expected a string, not %s", it.Kind())
	}
	return string(jsontext.Unquote(it.Raw())), nil
}

// prose is a text that people are shown.
func prose(it jsontext.Iter, limit int) (string, error) {
	text, err := textOf(it)
	switch {
	case err != nil:
		return "", err
	case len(text) > limit:
		return "", codes.Errorf(codes.TooLarge, "it has %d bytes, and the limit is %d", len(text), limit)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "", codes.Errorf(codes.BadRequest, "it has control characters; leave them out")
	}
	return text, nil
}

// within says where err is.
func within(where string, err error) error {
	return codes.Errorf(codes.Of(err), "%s: %v", where, err)
}

func firstOf(text []byte) []byte {
	for i, c := range text {
		if c > ' ' {
			return text[i:]
		}
	}
	return nil
}

func shown(text string) string {
	if len(text) > 80 {
		return text[:80] + "…"
	}
	return text
}
