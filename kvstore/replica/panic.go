package replica

import (
	"fmt"
	"runtime/debug"

	"confcenter/codes"
	"confcenter/internal/health"
)

// A panic must not take the reads of everybody with it. In the code of a caller it is
// contained: what the store has done stands. In the committer it ends writing, because
// what is in memory may no longer agree with the log.

// contain is deferred around code of others.
func (c *committer) contain(where string) {
	if what := recover(); what != nil {
		c.caught(where, what)
	}
}

func (c *committer) caught(where string, what any) {
	c.store.count.panics.Add(1)
	c.store.cfg.Log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg(where + " has panicked")
}

// panicked ends writing after a panic of the committer.
func (c *committer) panicked(what any) {
	c.caught("the committer of the state store", what)
	list := c.doing
	if c.store.queue.arrive() {
		list = nil
	}
	err := codes.Errorf(codes.Storage, "the store takes no writes because of a fault of its own, which the server's log describes; restart the server")
	c.stop(health.Stopped, err, list)
}
