package policy

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/access"
)

// Policy is what all roles say together. It never changes; a changed role makes a new one.
type Policy struct {
	rules []rule
	// by the text of who: the rules, by their place in the list
	exact, groups map[string][]int
	many          []manyRules
	marks         *Marks
	quotas        []quota

	permits sync.Map // string, the places of rules → *Permits
	known   sync.Map // string, an identity → *Permits, to find the rules about it once
	knows   atomic.Int32
}

// What is known of identities has a limit, beyond which all is forgotten, and may be found out again.
const (
	mostKnown = 4096
	maxKnown  = 1 << 10 // bytes of a name with its groups; of longer ones nothing is known
)

// manyRules are the rules about names that begin with something.
type manyRules struct {
	text  string
	rules []int
}

// New makes the policy of roles. Their order means nothing.
func New(roles ...*Role) *Policy {
	p := &Policy{exact: map[string][]int{}, groups: map[string][]int{}, marks: marksOf(roles)}
	many := map[string][]int{}
	for _, role := range roles {
		p.quotas = append(p.quotas, role.quotas...)
		for _, r := range role.rules {
			place := len(p.rules)
			p.rules = append(p.rules, r)
			for _, w := range r.who {
				into := p.exact
				switch {
				case w.group:
					into = p.groups
				case w.many:
					into = many
				}
				into[w.text] = append(into[w.text], place)
			}
		}
	}
	for text, rules := range many {
		p.many = append(p.many, manyRules{text, rules})
	}
	return p
}

// Of returns what id may do. It is the same Permits for all identities that the same rules are
// about, so that what depends on them can be kept once for all of these.
func (p *Policy) Of(id *access.Identity) *Permits {
	if id.Administrator() {
		return everything
	}
	who := strings.Join(append([]string{id.Name}, id.Groups...), sep)
	if found, ok := p.known.Load(who); ok {
		return found.(*Permits)
	}
	found := p.find(id)
	if len(who) <= maxKnown {
		if _, there := p.known.LoadOrStore(who, found); !there && p.knows.Add(1) > mostKnown {
			p.known.Clear()
			p.knows.Store(0)
		}
	}
	return found
}

// find makes what id may do, unless it is there.
func (p *Policy) find(id *access.Identity) *Permits {
	places := p.about(id)
	var key strings.Builder
	for _, place := range places {
		key.Write([]byte{byte(place), byte(place >> 8), byte(place >> 16), byte(place >> 24)})
	}
	if found, ok := p.permits.Load(key.String()); ok {
		return found.(*Permits)
	}
	var list []says
	for _, place := range places {
		r := &p.rules[place]
		for _, what := range r.what {
			list = append(list, says{what, r.allow, r.deny})
		}
	}
	found, _ := p.permits.LoadOrStore(key.String(), newPermits(list))
	return found.(*Permits)
}

// about returns the places of the rules that are about id, each once.
func (p *Policy) about(id *access.Identity) []int {
	places := slices.Clone(p.exact[id.Name])
	for _, group := range id.Groups {
		places = append(places, p.groups[group]...)
	}
	for _, m := range p.many {
		if strings.HasPrefix(id.Name, m.text) {
			places = append(places, m.rules...)
		}
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// Reason is a rule that had a say in a decision.
type Reason struct {
	Rule string // the role, and which of its rules
	What string // the pattern, as the role has it
	Deny bool
}

// Decision is a decision with its reasons.
type Decision struct {
	Allowed bool
	// By are the rules that decided: those that deny; if none does, those that allow.
	By []Reason
	// Trouble is why it may be another one soon, which a policy knows nothing of; empty: nothing is known.
	Trouble string
}

// Explain decides as [Permits.May] does, and says by which rules. It is slow: it looks at every
// rule.
func (p *Policy) Explain(id *access.Identity, v Verb, c Class, name string) Decision {
	if id.Administrator() {
		return Decision{Allowed: true, By: []Reason{{Rule: "built in", What: "the group " + Administrators + " may do everything"}}}
	}
	var allow, deny []Reason
	for i := range p.rules {
		r := &p.rules[i]
		if !slices.ContainsFunc(r.who, func(w who) bool { return w.is(id) }) {
			continue
		}
		for j := range r.what {
			if what := &r.what[j]; what.class != c || !what.matches(name) {
				continue
			}
			if r.allow&v&c.Verbs() != 0 {
				allow = append(allow, Reason{Rule: r.name, What: r.texts[j]})
			}
			if r.deny&v != 0 {
				deny = append(deny, Reason{Rule: r.name, What: r.texts[j], Deny: true})
			}
		}
	}
	if len(deny) > 0 {
		return Decision{By: deny}
	}
	return Decision{Allowed: len(allow) > 0, By: allow}
}

// Exceeds returns the first pattern, and a verb, that the role allows to someone and p does not
// allow, so that the holder of p may not make such a role: no one grants what they lack.
// ok is false if there is none.
func (r *Role) Exceeds(p *Permits) (what string, v Verb, ok bool) {
	a := ask(p)
	for i := range r.rules {
		if what, v, ok = r.rules[i].beyond(a, r.rules[i].allow); ok {
			return what, v, true
		}
	}
	return "", 0, false
}

// Lifts is like Exceeds, about what r denies and next, which takes its place, no longer does:
// who takes a prohibition back grants. What r marks and next does not counts as well: who takes a
// mark back approves of all changes to come. A nil r denies nothing, and so does a nil next.
func (r *Role) Lifts(next *Role, p *Permits) (what string, v Verb, ok bool) {
	if r == nil {
		return "", 0, false
	}
	var denied lists
	if next != nil {
		for i := range next.rules {
			denied.add(next.rules[i].denies())
		}
	}
	a := ask(p)
	for i := range r.rules {
		old := &r.rules[i]
		if what, v, ok = old.beyond(a, old.deny); ok && !denied.have(old.denies(), func(int) bool { return true }) {
			return what, v, true
		}
	}
	return next.unmarked(r).beyond(a, Approve)
}

// denies is what a rule has to have at least to deny as much.
func (r *rule) denies() []thing { return thingsOf(r.who, r.what, r.deny) }

// Marks is like Exceeds, about what r, which may be nil, marks and old, whose place it takes, did
// not: everyone has to wait for someone who may approve, so only those who may approve may mark.
func (r *Role) Marks(old *Role, p *Permits) (what string, ok bool) {
	if r != nil {
		what, _, ok = old.unmarked(r).beyond(ask(p), Approve)
	}
	return what, ok
}

// unmarked is what other marks and r, which may be nil, does not.
func (r *Role) unmarked(other *Role) *rule {
	marked, more := map[pattern]bool{}, new(rule)
	if r != nil {
		for _, mark := range r.marks {
			marked[mark] = true
		}
	}
	for i, mark := range other.marks {
		if !marked[mark] {
			more.what, more.texts = append(more.what, mark), append(more.texts, other.markTexts[i])
		}
	}
	return more
}

// beyond returns the first pattern, and one of verbs, that is not allowed.
func (r *rule) beyond(a *asker, verbs Verb) (what string, v Verb, ok bool) {
	for i, pat := range r.what {
		for v := Verb(1); v < none; v <<= 1 {
			if verbs&v&pat.class.Verbs() != 0 && !a.allows(v, pat) {
				return r.texts[i], v, true
			}
		}
	}
	return "", 0, false
}
