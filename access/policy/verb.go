package policy

import (
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
)

// Verb is a set of things that can be done with something.
type Verb uint32

// The verbs. What each means depends on the class.
const (
	Read    Verb = 1 << iota
	Watch        // to be told of changes
	Write        // to create and change
	Delete       //
	History      // what was, who changed it and why
	Inherit      // to make a document a base of others
	Reveal       // to see what is encrypted
	Approve      // changes of others
	Release      // to roll out a change by steps
	Lock         // to acquire, wait for and release locks
	Lease        // to grant, keep and revoke leases
	Send         // messages to programs
	Land         // to write fields to a database, as a lander does
	Grant        // to change roles, and to make and revoke tokens
	none         // the number of verbs
)

// All are all verbs, of which each class has some.
const All = none - 1

var verbNames = [...]string{"read", "watch", "write", "delete", "history", "inherit", "reveal", "approve", "release", "lock", "lease", "send", "land", "grant"}

// String is the names of the verbs, separated by commas.
func (v Verb) String() string {
	var names []string
	for i, name := range verbNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ParseVerb returns a verb by its name, "*" are all. codes.BadRequest: there is none of that
// name.
func ParseVerb(name string) (Verb, error) {
	if name == "*" {
		return All, nil
	}
	if i := slices.Index(verbNames[:], name); i >= 0 {
		return 1 << i, nil
	}
	return 0, codes.Errorf(codes.BadRequest, "there is no verb %q; there are %s and *", name, All)
}

// Class is a kind of things.
type Class uint8

// The classes, with the parts that names have in them.
const (
	Config   Class = iota // documents, by name
	KV                    // keys: namespace, key
	Storage               // players' fields: appId, regionId, logicType, ownerId
	Landing               // what is to be written to databases
	Flow                  // applications of cluster state, by scope
	Bench                 // nodes and jobs
	Clients               // connected programs, by the name that they gave
	Services              // the service registry
	Log                   // the operation log
	Backup                // everything there is, as one file
	Status                // metrics and figures of the server
	Audit                 // who did what
	Roles                 // roles and tokens
	classes               // the number of classes
)

// classRow is a class's row in the table.
type classRow struct {
	name  string
	parts int // of names; 0: there are no names
	verbs Verb
}

var classTable = [classes]classRow{
	Config:   {"config", 1, Read | Watch | Write | Delete | History | Inherit | Reveal | Approve | Release},
	KV:       {"kv", 2, Read | Watch | Write | Delete | History | Lock | Lease | Reveal | Approve},
	Storage:  {"storage", 4, Read | Watch | Write | Delete},
	Landing:  {"landing", 0, Read | Write | Land},
	Flow:     {"flow", 1, Read | Watch | Write | History},
	Bench:    {"bench", 0, Read | Watch | Write | History},
	Clients:  {"clients", 1, Read | Send | Delete},
	Services: {"services", 0, Read | Write},
	Log:      {"log", 0, Read},
	Backup:   {"backup", 0, Read},
	Status:   {"status", 0, Read},
	Audit:    {"audit", 0, Read | Watch},
	Roles:    {"roles", 0, Read | Watch | History | Grant | Approve},
}

func (c Class) String() string { return classTable[c].name }

// Verbs are the verbs that mean something in the class.
func (c Class) Verbs() Verb { return classTable[c].verbs }

// ParseClass returns a class by its name. codes.BadRequest: there is none of that name.
func ParseClass(name string) (Class, error) {
	for c := range classes {
		if classTable[c].name == name {
			return c, nil
		}
	}
	names := make([]string, classes)
	for c := range classes {
		names[c] = c.String()
	}
	return 0, codes.Errorf(codes.BadRequest, "there is no class %q; there are %s", name, strings.Join(names, ", "))
}

// Of is the class and the verb of a right that a row of the command or route table names. ok is
// false for rights that need no decision about a name of their own: access.Anyone,
// access.Nobody, access.KVEach, and those of reviews, which are about things of any class.
func Of(right access.Right) (c Class, v Verb, ok bool) {
	s := saidBy[right]
	return s.class, s.verb, s.verb != 0
}

// saidBy is by right what its name says: a class and a verb of it.
var saidBy = func() (all [1 << 8]struct {
	class Class
	verb  Verb
}) {
	for right := access.Anyone; right.Known(); right++ {
		class, verb, _ := strings.Cut(right.String(), ":")
		c, err := ParseClass(class)
		if err != nil {
			continue
		}
		if v, err := ParseVerb(verb); err == nil {
			all[right].class, all[right].verb = c, v
		}
	}
	// These two package guard lets only administrators do, who may do this as well.
	all[access.HistoryWrite].class, all[access.HistoryWrite].verb = Roles, Grant
	all[access.StatusProfile].class, all[access.StatusProfile].verb = Status, Read
	return all
}()
