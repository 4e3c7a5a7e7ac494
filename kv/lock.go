package kv

import (
	"fmt"

	"confcenter/codes"
)

// Lock reports whether the entry is a lock that is held, as OpPut with Lock has made it: it has the
// lease of its holder, and Create is the holder's fence.
func (e *Entry) Lock() bool { return e.Value.lock }

// SetLock sets what Lock reports, of an entry that is being made. It is for engines.
func (e *Entry) SetLock(held bool) { e.Value.lock = held }

// Taken is the error, of codes.Locked, of a write to a lock that is held by another client.
type Taken struct {
	NS, Key  string
	Holder   *Entry   // the lock, which says who holds it; nil for those who may not read it
	Revision Revision // at which this was so
}

func (t *Taken) Error() string {
	holder := "another client"
	if e := t.Holder; e != nil {
		const shown = 64
		if e.Value.Type != Bytes && len(e.Value.Data) > 0 {
			holder = fmt.Sprintf("%.*q", shown, e.Value.Data)
		}
		holder = fmt.Sprintf("%s since revision %d", holder, e.Create)
	}
	return fmt.Sprintf("key %.64q of namespace %.64q is a lock that is held by %s: nothing was written; take the lock, and write with its fence or its lease", t.Key, t.NS, holder)
}

// Unwrap is the error as one with a code.
func (t *Taken) Unwrap() error { return codes.Errorf(codes.Locked, "%s", t.Error()) }
