package kvstore

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
	news  <-chan struct{} // of the log; nil: it is not shared
	ended chan struct{}   // closed when the goroutine has ended

	trouble atomic.Pointer[health.Trouble] // why writing has ended; nil as long as it has not

	// committer only
	hold     time.Time // no expiry before: the disk did not take one
	outcomes outcomes
	doing    []queued // of the group under way, those whose callers wait
	told     int      // of these
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
		if closed(s.log.Failed()) {
			c.fail(s.log.Trouble().Err, nil)
			return false
		}
		if s.shared != nil && !c.catchUp(nil) {
			return false
		}
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
		default:
			c.wait()
		}
	}
}

// closed reports whether a channel is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
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
	case <-c.store.log.Failed():
	case <-c.news:
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
	keys := &c.group.counters.expiry
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
	s, g := c.store, &c.group
	c.doing, c.told = list, 0
	c.evaluate(list)
	var since time.Time
	for len(g.commits) > 0 {
		if since.IsZero() {
			since = s.cfg.Clock.Now()
		}
		s.queue.depart(list, since)
		err := s.log.Append(g.commits)
		if late := s.queue.arrive(); late {
			s.cfg.Log.Warn().Err(err).Msg("the log answers again")
			list, g.answers = stillWaiting(list, g.answers)
			c.doing, since = list, time.Time{}
		}
		if err == nil {
			break
		}
		if s.shared == nil || !errors.Is(err, ErrOvertaken) {
			c.fail(err, list)
			return false
		}
		g.abandon()
		if !c.catchUp(list) {
			return false
		}
		c.evaluate(list)
	}
	if len(g.answers) > 0 || len(g.commits) > 0 {
		c.publish(list, g.answers)
	}
	c.doing = nil
	return true
}

// evaluate adds what is due and the transactions to the group.
func (c *committer) evaluate(list []queued) {
	s, g := c.store, &c.group
	now := s.cfg.Clock.Now()
	g.begin(now, len(list))
	c.expireLeases(now)
	c.expireKeys(now)
	for i := range list {
		if g.counters.expiry.due(g.millis, g.steady) != nil {
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
	s.index.publish(g.changes, g.counters.spaces, g.rev)
	s.leases.publish(g.leases)
	s.tokens.forget(g.oldest)
	for i := range g.commits {
		if token := g.commits[i].Token; token != nil {
			s.tokens.keep(token)
		}
	}
	g.counters.tell()
	s.publishTrail(g.commits)
	if len(g.commits) > 0 {
		s.followers.tell(g.commits)
	}
	s.queue.release(list)
	for i := range answers {
		a := &answers[i]
		c.note(a.result, a.err)
		c.told++
		c.outcomes.add(a.to, a.result, a.err, len(answers)-i)
	}
	c.outcomes.tell()
	g.counters.settled()
	s.tokens.settled()
	g.reset()
	if through, others := s.tokens.crowdedOut(); through != 0 || len(others) > 0 {
		s.log.DropTokens(through, others)
	}
}

func (c *committer) note(result *kv.Result, err error) {
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
		p := g.counters.expiry.due(g.millis, g.steady)
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
func newCommitter(s *Store, b *counters, newest kv.Revision) *committer {
	timer := s.cfg.Clock.NewTimer(time.Hour)
	timer.Stop()
	c := &committer{
		store: s,
		group: group{cfg: &s.cfg, counters: b, tokens: s.tokens, terms: terms{writable: s.log.Writable}, rev: newest},
		timer: timer,
		ended: make(chan struct{}),
	}
	if s.shared != nil {
		c.news = s.shared.Arrived()
	}
	return c
}

// fail ends all writing because the log has failed.
func (c *committer) fail(cause error, list []queued) {
	c.store.cfg.Log.Error().Err(cause).Msg("the store takes no writes until the server is restarted, because its log has failed; reads go on")
	t := health.Trouble{Kind: health.Failed, Since: c.store.cfg.Clock.Now(), Err: cause}
	if known := c.store.log.Trouble(); known != nil {
		t = *known
	}
	if t.Kind != health.Missing { // a restart would not help
		t.Err = codes.Errorf(codes.Storage, "%w; writes resume when the server is restarted", t.Err)
	}
	c.stop(t, list)
}

// stop ends all writing. Whether the group became durable is not known, so no caller is told
// that it did or that it did not, now or when a token is used again.
func (c *committer) stop(t health.Trouble, list []queued) {
	s, err := c.store, t.Err
	t.Restart = true
	c.trouble.Store(&t)
	s.leases.freeze()
	s.queue.close(err)
	if c.told == 0 {
		s.queue.release(list)
	}
	unknown := codes.Errorf(codes.Timeout, "it is not known whether the write has taken effect, so read after the restart, or ask again with its token: %w", err)
	c.doing = nil
	for i := c.told; i < len(list); i++ {
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
			c.outcomes.add(&list[i], nil, q.unlessKnown(&list[i], c.trouble.Load().Err), len(list)-i)
		}
		c.outcomes.tell()
	}
}
