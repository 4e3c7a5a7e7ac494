package replica

import (
	"errors"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kv"
)

// maxExpiries is how many keys, about, the store ends in one group by transactions
// of its own; what else is due waits for the next group. Only a lease with more
// keys, which end together, goes beyond it.
const maxExpiries = 4096

// committer is the one goroutine that changes anything. It takes what is queued,
// evaluates it against the index, has it written in one go, makes it visible,
// tells the followers and completes the callers, in this order.
type committer struct {
	// set at open
	store *Store
	group group
	timer clock.Timer
	ended chan struct{} // closed when the goroutine has ended

	trouble atomic.Pointer[health.Trouble] // why writing has ended; nil as long as it has not

	// committer only
	hold     time.Time // no expiry before: the disk did not take one
	outcomes outcomes
	doing    []queued // of the group under way, those whose callers wait
}

// count is what Stats tells of the committer's work.
type count struct {
	commits, groups, failed, busy, refused, replayed, expired, viewsCut, panics atomic.Uint64
}

// expiryRetry is how long the store waits when the disk takes not even deletions.
const expiryRetry = time.Second

func (c *committer) run() {
	defer close(c.ended)
	defer c.timer.Stop()
	why := errClosed()
	if !c.work() {
		c.refuse()
		why = c.trouble.Load().Err
	}
	for _, f := range c.store.forgets.end(why) {
		c.store.forgotten(f, why)
	}
}

// work commits what is queued until the queue has ended. It is false if writing has failed
// for good before.
func (c *committer) work() (ended bool) {
	defer func() {
		if what := recover(); what != nil {
			c.panicked(what)
			ended = false
		}
	}()
	s := c.store
	for {
		s.running()
		group, ended := s.queue.take(s.cfg.GroupSize, s.cfg.GroupBytes)
		if !c.commit(group) {
			return false
		}
		c.tend()
		more := c.forget()
		switch {
		case len(group) > 0 || more:
		case ended:
			return true
		case s.index.thinSome():
		default:
			c.wait()
		}
	}
}

// wait returns when there may be something to do.
func (c *committer) wait() {
	nap, limited := c.nap()
	if limited && nap <= 0 {
		return
	}
	c.timer.Stop()
	if limited {
		c.timer.Reset(nap)
		// The time may have come before the timer was set.
		if left, _ := c.nap(); left <= 0 {
			return
		}
	}
	select {
	case <-c.store.queue.wake:
	case <-c.store.log.Arrived():
	case <-c.timer.C():
	}
}

// nap is how long it takes until the committer has to look by itself; false: it
// has not.
func (c *committer) nap() (time.Duration, bool) {
	// The machine's time of day may be set while the committer sleeps, so it
	// never sleeps for long before a moment of the day.
	const longest = time.Second
	now := c.store.cfg.Clock.Now()
	nap, limited := c.store.leases.next()
	earlier := func(d time.Duration) {
		if !limited || d < nap {
			nap, limited = d, true
		}
	}
	keys := &c.group.books.expiry
	if first, ok := keys.moments.first(); ok {
		earlier(min(longest, time.UnixMilli(first.at).Sub(now)))
	}
	if first, ok := keys.lives.first(); ok {
		earlier(time.UnixMilli(first.at).Sub(c.store.cfg.Clock.Steady()))
	}
	if limited {
		nap = max(nap, c.hold.Sub(now))
	}
	if c.store.index.views.keeping.Load() {
		earlier(longest)
	}
	return nap, limited
}

// commit does all that a group takes. It is false if writing has failed for good.
func (c *committer) commit(list []queued) bool {
	c.doing = list
	if !c.catchUp(list) {
		return false
	}
	defer clear(c.store.leases.asked)
	for {
		answered, ok := c.turn(list)
		if !ok || answered == len(list) {
			c.doing = nil
			return ok
		}
		list = list[answered:]
		c.doing = list
	}
}

// turn evaluates transactions, has the log take them and applies what it brings. It
// says how many it has answered: with a log that others write to, not always all.
func (c *committer) turn(list []queued) (answered int, ok bool) {
	g := &c.group
	ready, ok := c.ask(list)
	if !ok {
		return 0, false
	}
	waiting, all, list := len(list), list, list[:ready]
	c.evaluate(list)
	if len(g.answers) == 0 && len(g.commits) == 0 {
		return len(list), true
	}
	if len(g.commits) > 0 {
		came, taken, refused, late, err := c.propose(all)
		if late {
			all, list, g.answers = nil, nil, emptied(g.answers)
		}
		if err != nil {
			c.fail(err, all)
			return 0, false
		}
		if came.anew != nil || !g.asGuessed(taken) {
			n := c.mend(list, came, taken, refused)
			if late {
				n = waiting
			}
			return n, true
		}
		if late {
			c.publish(nil, nil)
			return waiting, true
		}
	}
	c.publish(list, g.answers)
	return len(list), true
}

// propose has the log take the group, for which the callers of all wait. late: answerLate has
// answered them meanwhile.
func (c *committer) propose(all []queued) (came arrival, taken int, refused error, late bool, err error) {
	s, g := c.store, &c.group
	s.queue.depart(all, s.cfg.Clock.Now())
	taken, err = s.log.Propose(s.life, g.commits, g.proofs)
	refused = err
	switch {
	case errors.Is(err, ErrUnknown) && !g.shared:
		s.cfg.Log.Error().Err(err).Msg("a write to the log has failed: writes are refused until it is known what became of it, reads go on")
		g.tokens.doubt(g.commits)
		came, err = arrival{through: g.base}, nil
	case err == nil || refusal(err):
		came, err = c.brought(taken, refused)
	}
	if late = s.queue.arrive(); late {
		c.doing = nil
		s.cfg.Log.Warn().Err(refused).Msg("the log answers again")
	}
	return came, taken, refused, late, err
}

// evaluate adds what is due and the transactions to the group.
func (c *committer) evaluate(list []queued) {
	s, g := c.store, &c.group
	now := s.cfg.Clock.Now()
	g.begin(now, len(list))
	s.tokens.forget(g.steady - s.cfg.TokenAge.Milliseconds())
	c.expireLeases(now)
	c.expireKeys(now)
	for i := range list {
		if g.books.expiry.due(g.millis, g.steady) != nil {
			c.expireKeys(now)
		}
		if i%eachSlots == 0 {
			g.look(list[i:min(i+eachSlots, len(list))])
		}
		g.found = &g.ahead[i%eachSlots]
		before := len(g.commits)
		result, err := g.apply(&list[i])
		g.answers = append(g.answers, answer{&list[i], result, err, len(g.commits), len(g.commits) > before})
	}
	c.expireKeys(now)
	g.seal(s.cfg.Trail, g.millis)
}

// publish makes the group visible, tells it to the followers and answers the
// transactions of list.
func (c *committer) publish(list []queued, answers []answer) {
	s, g := c.store, &c.group
	if len(g.commits) > 0 {
		s.count.groups.Add(1)
		s.count.commits.Add(uint64(len(g.commits)))
		s.count.expired.Add(uint64(g.expired))
	}
	s.index.publish(g.changes, g.books.spaces, g.rev)
	s.leases.publish(g.leases)
	g.books.tell()
	s.publishTrail(g.commits)
	if len(g.commits) > 0 {
		s.followers.tell(g.commits, g.missed)
	}
	c.doing = c.doing[len(list):]
	s.queue.release(list)
	for i := range answers {
		a := &answers[i]
		c.tally(a.result, a.err)
		c.outcomes.add(a.to, a.result, a.err, len(answers)-i)
	}
	c.outcomes.tell()
	g.books.settled()
	s.tokens.settled()
	g.reset()
	if through, others := s.tokens.crowdedOut(); through != 0 || len(others) > 0 {
		s.log.DropTokens(through, others)
	}
}

func (c *committer) tally(result *kv.Result, err error) {
	switch {
	case err != nil:
		c.store.count.failed.Add(1)
		if code := codes.Of(err); code == codes.Storage || code == codes.Quota {
			c.store.count.refused.Add(1)
		}
	case result.Replayed:
		c.store.count.replayed.Add(1)
	}
}

// expireKeys ends the keys whose time is over.
func (c *committer) expireKeys(now time.Time) {
	if now.Before(c.hold) {
		return
	}
	g := &c.group
	for g.expired < maxExpiries {
		p := g.books.expiry.due(g.millis, g.steady)
		if p == nil {
			return
		}
		if g.expireKey(p) != nil {
			c.hold = now.Add(expiryRetry)
			return
		}
	}
}

// expireLeases does the same for leases.
func (c *committer) expireLeases(now time.Time) {
	if now.Before(c.hold) {
		return
	}
	// One that has no keys counts as well.
	for n := 0; n+c.group.expired < maxExpiries; n++ {
		l := c.store.leases.due()
		if l == nil {
			return
		}
		if c.group.expireLease(l) != nil {
			c.store.leases.putBack(l, expiryRetry)
			c.hold = now.Add(expiryRetry)
			return
		}
	}
}

// tend drops what only Views needed, and ends Views that cost too much.
func (c *committer) tend() {
	s := c.store
	x := s.index
	if len(x.kept) == 0 {
		return
	}
	x.trim()
	now := s.cfg.Clock.Now()
	for len(x.kept) > 0 {
		opened, any := x.views.oldestView()
		tooMuch, tooLong := x.keptBytes > s.cfg.Queues.Limit()/queueShares, any && now.Sub(opened) >= s.cfg.ViewAge
		if !any || !(tooMuch || tooLong) || !x.cutOldest(opened) {
			return
		}
		s.count.viewsCut.Add(1)
		x.trim()
	}
}

// newCommitter makes the committer of a store that is loaded up to newest.
func newCommitter(s *Store, b *books, newest kv.Revision) *committer {
	timer := s.cfg.Clock.NewTimer(time.Hour)
	timer.Stop()
	c := &committer{
		store: s,
		group: group{cfg: &s.cfg, books: b, tokens: s.tokens, terms: terms{writable: s.log.Writable, shared: s.log.Shared()}, rev: newest},
		timer: timer,
		ended: make(chan struct{}),
	}
	c.outcomes.contain = c.contain
	return c
}

// fail ends all writing because the log has failed.
func (c *committer) fail(cause error, list []queued) {
	c.store.cfg.Log.Error().Err(cause).Msg("writing to the disk has failed; the store only reads from now on")
	c.stop(health.Failed, codes.Errorf(codes.Storage, "the store accepts no writes because writing to its disk has failed; restart the server"), list)
}

// stop ends all writing. Whether the group became durable is not known, so nobody is told
// that it did or that it did not.
func (c *committer) stop(kind health.Kind, err error, list []queued) {
	s := c.store
	c.trouble.Store(&health.Trouble{Kind: kind, Since: s.cfg.Clock.Now(), Err: err, Restart: true})
	s.queue.close(err)
	s.queue.release(list)
	unknown := codes.Errorf(codes.Timeout, "it is not known whether the write has taken effect, so read after the restart, or ask again with its token: %w", err)
	c.doing = nil
	for i := range list {
		result, why := verdict(c.group.answers, i, err, unknown)
		c.outcomes.add(&list[i], result, why, len(list)-i)
	}
	c.outcomes.tell()
}

// refuse answers those who are still queued after writing has failed.
func (c *committer) refuse() {
	q := c.store.queue
	for {
		list, ended := q.take(c.store.cfg.GroupSize, c.store.cfg.GroupBytes)
		if ended {
			return
		}
		q.release(list)
		for i := range list {
			c.outcomes.add(&list[i], nil, c.trouble.Load().Err, len(list)-i)
		}
		c.outcomes.tell()
	}
}
