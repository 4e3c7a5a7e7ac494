// Package health is what a store says of the disk below it, and of what people should look at.
package health

import "time"

// Kind is the trouble in one word, for metrics and scripts. They never change.
type Kind string

// Kinds of trouble.
const (
	Full     Kind = "full"      // too little space is free
	Quota    Kind = "quota"     // the store has reached the size it may have
	ReadOnly Kind = "read_only" // the file system takes no writes
	Failed   Kind = "failed"    // a write or a sync has failed
	Hanging  Kind = "hanging"   // a write or a sync does not return
	Missing  Kind = "missing"   // files are gone that must be there
	Stopped  Kind = "stopped"   // the store has stopped writing because of a fault of its own
	Damaged  Kind = "damaged"   // files cannot be read, and what needs them fails; writes go on
)

// Trouble is why a store takes no writes, or not all of them; reads go on. nil is good
// health. Who is given one must not change it.
type Trouble struct {
	Kind  Kind
	Dir   string // the directory concerned
	Since time.Time
	// Err is what writers are answered. Its text names the directory, what is wrong, and
	// the remedy.
	Err error
	// Restart says that writes do not resume by themselves.
	Restart bool
}

// Reminder says when to log trouble again that stays: once a minute. That it has begun is
// logged where it is found. The zero value is ready; one goroutine uses it.
type Reminder struct{ next time.Time }

// Due is called at least every few seconds with the trouble there is.
func (r *Reminder) Due(now time.Time, trouble *Trouble) bool {
	const period = time.Minute
	begins := r.next.IsZero()
	switch {
	case trouble == nil:
		r.next = time.Time{}
		return false
	case !begins && now.Before(r.next):
		return false
	}
	r.next = now.Add(period)
	return !begins
}
