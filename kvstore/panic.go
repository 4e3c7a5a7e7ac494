package kvstore

import (
	"fmt"
	"runtime/debug"

	"confcenter/codes"
	"confcenter/internal/health"
)

// caught notes a panic.
func (s *Store) caught(where string, what any) {
	s.count.panics.Add(1)
	s.cfg.Log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg(where + " has panicked")
}

// panicked ends writing after a panic of the committer, because what is in memory may no
// longer agree with the log. Reads go on.
func (c *committer) panicked(what any) {
	c.store.caught("the committer of the state store", what)
	list := c.doing
	if c.store.queue.arrive() {
		list, c.group.answers = stillWaiting(list, c.group.answers)
	}
	err := codes.Errorf(codes.Storage, "the store takes no writes because of a fault of its own, which the server's log describes; restart the server")
	c.stop(health.Trouble{Kind: health.Stopped, Since: c.store.cfg.Clock.Now(), Err: err}, list)
}
