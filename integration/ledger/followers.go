package ledger

import (
	"maps"
	"slices"
)

// What client.Watch and client.Bind promise of one document's newest state, as long as the server has
// the same data, besides Unique: that no state is shown twice in a row.
const (
	Forward    = "forward"    // no state is shown that is older than one before it, or never was
	Converging = "converging" // in the end the newest is
)

// Shown is a state that a follower was shown. With Resumed it is none: the follower begins anew,
// with what it knew.
type Shown struct {
	Version  int32  // 0: not known
	Contents string // "": there are none
	Resumed  bool
}

// Follower is what was shown to a follower of the newest state of one document, from before the
// first change that a History has, or from a state after it.
type Follower struct {
	Name string
	// Part is what it follows of the contents; nil: all.
	Part func(contents string) string
	// Good reports whether a part is shown at all; nil: all are. If the newest is not, the last
	// one before that was is the one to end with.
	Good  func(part string) bool
	Shown []Shown
}

// states are those of the document, in the order in which they were told: first there was nothing.
func (f *Follower) states(union map[int64]Told) []string {
	list := []string{""}
	for _, rev := range slices.Sorted(maps.Keys(union)) {
		if contents, changed := union[rev].Changes[f.Name]; changed {
			list = append(list, contents)
		}
	}
	if f.Part != nil {
		for i := range list {
			list[i] = f.Part(list[i])
		}
	}
	if f.Good != nil {
		list = slices.DeleteFunc(list, func(part string) bool { return !f.Good(part) })
	}
	return list
}

// judge compares what a follower was shown with what was told. Contents that came several times are
// taken for the earliest that they can be.
func (f *Follower) judge(union map[int64]Told, complain func(promise, format string, args ...any)) {
	states := f.states(union)
	at, last := 0, Shown{Resumed: true}
	version := int32(0)
	for _, s := range f.Shown {
		if s.Resumed {
			last = s
			continue
		}
		if !last.Resumed && s.Contents == last.Contents {
			complain(Unique, "%s: %s is shown twice", f.Name, s.Contents)
		}
		if s.Version < version {
			complain(Forward, "%s: version %d after %d", f.Name, s.Version, version)
		}
		further := slices.Index(states[at:], s.Contents)
		if further < 0 {
			complain(Forward, "%s: %s at version %d was not there any more, or never", f.Name, s.Contents, s.Version)
			return
		}
		at, last, version = at+further, s, max(version, s.Version)
	}
	if newest := states[len(states)-1]; last.Resumed || last.Contents != newest {
		complain(Converging, "%s: %s was shown last, %s is the newest", f.Name, last.Contents, newest)
	}
}
