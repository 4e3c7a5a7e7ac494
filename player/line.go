package player

import (
	"sync"
	"sync/atomic"

	"confcenter/codes"
)

// lines keep the order of the writes to owners. Most writes are one transaction that holds
// whatever the fields are: they are handed to the store at once, which keeps their order. One
// that depends on what is there may need several attempts, or wait for the database. While it
// is under way its owner has a line, and later writes to that owner stand in it. So no write
// overtakes it, and from the second attempt on none interferes.
type lines struct {
	open atomic.Int64 // len(byOwner), so that most writes need no lock

	mu      sync.Mutex
	byOwner map[string]*line // by namespace and key of the owner, guarded by mu
	waiting int              // writes in all lines; guarded by mu
	bytes   int              // of them; guarded by mu

	met, metBytes uint64 // how often one of the limits was in the way; guarded by mu
}

type line struct{ jobs []*job }

// What may stand in lines: writes, and bytes of their names and values. Beyond it they fail
// with codes.Busy.
const (
	maxWaiting      = 16_384
	maxWaitingBytes = 64 << 20
)

func newLines() *lines { return &lines{byOwner: map[string]*line{}} }

// join is true if the job may go on. Otherwise it stands in line, and runs when it is its turn.
// With alone it makes a line if there is none; then leave must follow.
func (all *lines) join(j *job, alone bool) (goOn bool, err error) {
	if !alone && all.open.Load() == 0 {
		return true, nil
	}
	j.kept = true
	all.mu.Lock()
	defer all.mu.Unlock()
	l := all.byOwner[j.id()]
	switch {
	case l != nil && all.waiting >= maxWaiting:
		all.met++
		return false, codes.Errorf(codes.Busy, "%d writes wait for earlier ones to the same owners, which is the limit; try again", all.waiting)
	case l != nil && all.bytes+j.size > maxWaitingBytes:
		all.metBytes++
		return false, codes.Errorf(codes.Busy, "writes with %d bytes wait for earlier ones to the same owners, and the limit is %d; try again", all.bytes, maxWaitingBytes)
	case l != nil:
		l.jobs = append(l.jobs, j)
		all.waiting++
		all.bytes += j.size
		return false, nil
	case alone:
		all.byOwner[j.id()] = &line{}
		all.open.Add(1)
	}
	return true, nil
}

// leave lets those go on who stand behind a job that was alone, up to the next one that has to
// be.
func (all *lines) leave(j *job) {
	for {
		all.mu.Lock()
		l := all.byOwner[j.id()]
		if len(l.jobs) == 0 {
			delete(all.byOwner, j.id())
			all.open.Add(-1)
			all.mu.Unlock()
			return
		}
		next := l.jobs[0]
		l.jobs = l.jobs[1:]
		all.waiting--
		all.bytes -= next.size
		all.mu.Unlock()
		if next.run(true) {
			return // it has the line now
		}
	}
}
