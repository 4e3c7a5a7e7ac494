package flow

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/kv"
)

// Kind is what a member is, by the abbreviation that its keys begin with.
type Kind string

// The kinds of members.
const (
	App       Kind = "cfapp"
	Service   Kind = "srvs"
	Session   Kind = "sess"
	FlowKind  Kind = "flow"
	Node      Kind = "node"
	Worker    Kind = "wokr"
	Scheduler Kind = "sche"
)

// kinds says in which list the members of each kind are: a list of the whole scope, or one
// that each member of another kind has.
var kinds = map[Kind]struct {
	list   string
	parent Kind
}{
	App: {list: "cfapplist"}, Worker: {list: "cfworkers"}, Scheduler: {list: "cfschedus"},
	Service: {parent: App}, Session: {parent: App}, FlowKind: {parent: Session}, Node: {parent: FlowKind},
}

// children are the kinds that have a list in a member of a kind, in the order of their names.
var children = map[Kind][]Kind{App: {Session, Service}, Session: {FlowKind}, FlowKind: {Node}}

// Limits of names.
const (
	MaxScope = 64 // bytes of a scope
	MaxID    = 64 // bytes of a member's id
	MaxField = 64 // bytes of a field's name
)

// Member names a member: "node.N".
type Member struct {
	Kind Kind
	ID   string
}

func (m Member) String() string { return string(m.Kind) + "." + m.ID }

// field is the key of a field, or of what is below it.
func (m Member) field(name string) string { return m.String() + "." + name }

// list is the list that members of that kind have in m.
func (m Member) list(of Kind) string { return m.field(string(of)) }

// ParseMember reads a member's name.
func ParseMember(text string) (Member, error) {
	kind, id, _ := strings.Cut(text, ".")
	m := Member{Kind(kind), id}
	if _, known := kinds[m.Kind]; !known || !plainPart(id, MaxID) {
		return Member{}, codes.Errorf(codes.BadKey, "%.80q names no member: write KIND.ID, where KIND is cfapp, srvs, sess, flow, node, wokr or sche, and ID has at most %d bytes and no dot", text, MaxID)
	}
	return m, nil
}

// Form is the form of a key.
type Form uint8

// The forms of keys.
const (
	Free       Form = iota + 1 // anything that begins with none of the layout's words
	ListTime                   // cfapplist.ctime: when the list was made
	ListMember                 // cfapplist.cfapp.A, flow.F.node.node.N: the member's status
	Field                      // node.N.cstat
	Assignment                 // wokr.W.task.node.N: what the worker has claimed
	LogLine                    // node.N.oplog.0000000001
	LockField                  // KEY.lock.owner, .ctime, .ltime
)

// Key is a key of a scope, taken apart. Which fields it has depends on its form.
type Key struct {
	Form   Form
	List   string // ListTime, ListMember: "cfapplist", "flow.F.node"
	Member Member // whose it is; of a ListMember the one that is listed
	Field  string // Field and LockField: its name; LogLine: its number
	Task   Member // Assignment
	Text   string // Free: the key; LockField: what is locked
}

// String is the key as the store has it. It is ParseKey's inverse.
func (k Key) String() string {
	switch k.Form {
	case ListTime:
		return k.List + ".ctime"
	case ListMember:
		return k.List + "." + k.Member.String()
	case Field:
		return k.Member.field(k.Field)
	case Assignment:
		return assignment(k.Member, k.Task)
	case LogLine:
		return k.Member.field("oplog.") + k.Field
	case LockField:
		return k.Text + ".lock." + k.Field
	}
	return k.Text
}

func assignment(worker, task Member) string { return worker.field("task.") + task.String() }

// ParseKey takes a key apart. It refuses "|", empty parts and what begins with a word of the
// layout but does not follow it.
func ParseKey(text string) (Key, error) {
	parts := strings.Split(text, ".")
	for _, part := range parts {
		if !plainPart(part, kv.MaxKey) {
			return Key{}, codes.Errorf(codes.BadKey, "key %.80q is not allowed: its parts, between dots, must not be empty, and have neither %q nor control characters", text, "|")
		}
	}
	if len(text) > kv.MaxKey {
		return Key{}, codes.Errorf(codes.NameTooLong, "key %.32q… has %d bytes, the limit is %d", text, len(text), kv.MaxKey)
	}
	n := len(parts)
	if n >= 3 && parts[n-2] == "lock" && lockField(parts[n-1]) {
		locked := strings.Join(parts[:n-2], ".")
		if _, err := ParseMember(locked); err == nil || !ofLayout(parts[0]) {
			return Key{Form: LockField, Text: locked, Field: parts[n-1]}, nil
		}
	}
	if !ofLayout(parts[0]) {
		return Key{Form: Free, Text: text}, nil
	}
	if k, ok := layoutKey(parts); ok {
		return k, nil
	}
	return Key{}, codes.Errorf(codes.BadKey, "key %.80q does not follow the layout: a member of a list is LIST.KIND.ID, a field is KIND.ID.FIELD", text)
}

// layoutKey reads a key that begins with a word of the layout.
func layoutKey(parts []string) (Key, bool) {
	first, n := parts[0], len(parts)
	if kind, isList := rootList(first); isList {
		switch {
		case n == 2 && parts[1] == "ctime":
			return Key{Form: ListTime, List: first}, true
		case n == 3 && Kind(parts[1]) == kind && len(parts[2]) <= MaxID:
			return Key{Form: ListMember, List: first, Member: Member{kind, parts[2]}}, true
		}
		return Key{}, false
	}
	if n < 3 || len(parts[1]) > MaxID || len(parts[2]) > MaxField {
		return Key{}, false
	}
	m, word := Member{Kind(first), parts[1]}, parts[2]
	switch {
	case n == 3:
		return Key{Form: Field, Member: m, Field: word}, true
	case n == 4 && word == "oplog":
		return Key{Form: LogLine, Member: m, Field: parts[3]}, true
	case n != 5 || len(parts[4]) > MaxID:
		return Key{}, false
	}
	other := Member{Kind(parts[3]), parts[4]}
	of := kinds[other.Kind]
	switch {
	case word == "task" && m.Kind == Worker && claimable(other.Kind):
		return Key{Form: Assignment, Member: m, Task: other}, true
	case word == parts[3] && of.parent == m.Kind:
		return Key{Form: ListMember, List: m.list(other.Kind), Member: other}, true
	}
	return Key{}, false
}

// claimable says of which kinds a worker takes members.
func claimable(k Kind) bool { return k == Node || k == Service || k == FlowKind || k == App }

func lockField(name string) bool { return name == "owner" || name == "ctime" || name == "ltime" }

// rootList is whose list of the whole scope that is.
func rootList(name string) (Kind, bool) {
	for _, kind := range [...]Kind{App, Worker, Scheduler} {
		if kinds[kind].list == name {
			return kind, true
		}
	}
	return "", false
}

func ofLayout(word string) bool {
	_, isKind := kinds[Kind(word)]
	_, isList := rootList(word)
	return isKind || isList
}

// parseList reads the name of a list: whose members it has, and whose list it is unless it is
// that of the whole scope.
func parseList(list string) (of Kind, parent Member, err error) {
	if kind, isList := rootList(list); isList {
		return kind, Member{}, nil
	}
	if at := strings.LastIndexByte(list, '.'); at > 0 {
		parent, err = ParseMember(list[:at])
		if of = Kind(list[at+1:]); err == nil && kinds[of].parent == parent.Kind {
			return of, parent, nil
		}
	}
	return "", Member{}, codes.Errorf(codes.BadKey, "%.80q is no list: there are cfapplist, cfworkers, cfschedus, cfapp.ID.srvs, cfapp.ID.sess, sess.ID.flow and flow.ID.node", list)
}

// plainPart reports whether text may stand between the dots of a key.
func plainPart(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r == '.' || r == '|' || unicode.IsControl(r)
	})
}

func checkScope(scope string) error {
	if !plainPart(scope, MaxScope) {
		return codes.Errorf(codes.BadName, "scope %.80q is not allowed: it has at most %d bytes, and neither dots nor %q", scope, MaxScope, "|")
	}
	return nil
}
