package kvstore

import (
	"slices"
	"sync"

	"confcenter/kv"
)

// followers are the functions passed to Follow. The mutex is held while they run, so
// that stop waits for them.
type followers struct {
	mu   sync.Mutex
	list []*follower // guarded by mu
}

type follower struct{ fn func(*kv.Batch) }

func (f *followers) add(fn func(*kv.Batch)) (stop func()) {
	one := &follower{fn}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.list = slices.DeleteFunc(f.list, func(other *follower) bool { return other == one })
	}
}

// tell passes a group, which is visible by now, to all followers.
func (f *followers) tell(commits []Commit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) == 0 {
		return
	}
	batch := &kv.Batch{Changes: make([]kv.Change, len(commits))}
	for i := range commits {
		batch.Changes[i] = commits[i].Change
	}
	for _, one := range f.list {
		one.fn(batch)
	}
}
