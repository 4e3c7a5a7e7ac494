package kvstore

import (
	"time"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
)

// A disk that hangs holds the committer up inside the log. Those who wait must not hang
// with it: after WriteTimeout they are answered in the committer's place, but for those who
// are patient. What the log was given may become durable yet, so its writers are told that
// no one knows; it is applied and shown to readers and followers when the log returns. What was
// not given to the log is refused, and so is everything that comes until then.

// inFlight is a group that the log is making durable.
type inFlight struct {
	list  []queued // whose callers wait for it
	since time.Time
	late  error // what writes are refused with because the log is late; nil if it is not
}

// depart notes that the committer gives a group to the log. Until arrive the group, its
// answers and the tokens are read only, by the holder of the queue's mu.
func (q *queue) depart(list []queued, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight = inFlight{list: list, since: now}
}

// arrive reports whether answerLate has answered the group meanwhile.
func (q *queue) arrive() (late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	late = q.inFlight.late != nil
	q.inFlight = inFlight{}
	return late
}

// unlessKnown is why a transaction is refused while the log is late, or since it has failed:
// tokens are only read then. One that repeats another must not be told that nothing was changed.
func (q *queue) unlessKnown(one *queued, why error) error {
	if txn := one.txn; txn.Token != "" && codes.Of(why) != codes.Closed && q.tokens.find(txn.TokenNS, txn.Token) != nil {
		return codes.Errorf(codes.Timeout, "what became of the request with this token cannot be said yet: %w", why)
	}
	return why
}

// flying reports whether the log has had a group for longer than limit, and no caller has been
// answered.
func (q *queue) flying(now time.Time, limit time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.inFlight.since.IsZero() && q.inFlight.late == nil && now.Sub(q.inFlight.since) >= limit
}

// told is what a caller is answered.
type told struct {
	queued
	result *kv.Result
	err    error
}

// overdue takes all who wait if the log has had a group for longer than limit: the callers of
// that group, with what verdict says of each, and those behind them. The patient stay.
func (q *queue) overdue(now time.Time, limit time.Duration, refused error, verdict func(i int) (*kv.Result, error)) (all []told) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := &q.inFlight
	if f.since.IsZero() || f.late != nil || now.Sub(f.since) < limit {
		return nil
	}
	f.late = refused
	all = make([]told, 0, q.count)
	for i := range f.list {
		if !f.list[i].txn.Patient {
			result, err := verdict(i)
			all = append(all, told{f.list[i], result, err})
		}
	}
	var stay []queued
	for _, behind := range [2][]queued{q.taken[q.pos:], q.list} {
		for i := range behind {
			if behind[i].txn.Patient {
				stay = append(stay, behind[i])
			} else {
				all = append(all, told{behind[i], nil, refused})
			}
		}
	}
	q.pos, q.list, f.list = len(q.taken), stay, nil
	q.count -= len(all)
	bytes := 0
	for i := range all {
		bytes += all[i].size
	}
	q.bytes -= bytes
	q.pool.Give(int64(bytes))
	return all
}

// stillWaiting are those of a late group who still wait for their answers.
func stillWaiting(list []queued, answers []answer) (waiting []queued, theirs []answer) {
	for i := range list {
		if list[i].txn.Patient {
			waiting, theirs = append(waiting, list[i]), append(theirs, answers[i])
		}
	}
	return waiting, theirs
}

// lateSince returns since when the log has had the group for which it is late; zero if it
// is not.
func (q *queue) lateSince() (since time.Time, refused error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.inFlight.late == nil {
		return time.Time{}, nil
	}
	return q.inFlight.since, q.inFlight.late
}

// answerLate answers all callers that wait if the log has been busy for longer than limit. Any
// goroutine may call it.
func (c *committer) answerLate(limit time.Duration) {
	s := c.store
	if !s.queue.flying(s.cfg.Clock.Now(), limit) {
		return
	}
	why := s.hanging()
	refused := codes.Errorf(codes.Storage, "the write was not tried: %w", why)
	unknown := codes.Errorf(codes.Timeout, "it is not known whether the write takes effect, so ask again with its token, or read: %w", why)
	all := s.queue.overdue(s.cfg.Clock.Now(), limit, refused, func(i int) (*kv.Result, error) {
		return verdict(c.group.answers, i, refused, unknown)
	})
	s.cfg.Log.Error().Err(why).Int("waiting", len(all)).Msg("the log does not answer: writes are refused, reads go on")
	var o outcomes
	for i := range all {
		c.note(all[i].result, all[i].err)
		o.add(&all[i].queued, all[i].result, all[i].err, len(all)-i)
	}
	o.tell()
}

// hanging says that the log does not answer, in the words of the log if it knows of it.
func (s *Store) hanging() error {
	if t := s.log.Trouble(); t != nil {
		return t.Err
	}
	return codes.Errorf(codes.Storage, "the store's log has not answered for %s", s.cfg.WriteTimeout)
}

// late is the trouble of a log that does not answer; nil if it does.
func (s *Store) late() *health.Trouble {
	since, refused := s.queue.lateSince()
	if refused == nil {
		return nil
	}
	if t := s.log.Trouble(); t != nil {
		return t
	}
	return &health.Trouble{Kind: health.Hanging, Since: since, Err: refused}
}

// verdict is what the caller of a transaction of the group is told if it is not known what
// becomes of the group. What rests on nothing but durable state stands. What was not
// evaluated, and what found something that may not take effect, is refused.
func verdict(answers []answer, i int, refused, unknown error) (*kv.Result, error) {
	if i >= len(answers) {
		return nil, refused
	}
	switch a := &answers[i]; {
	case a.wrote:
		return nil, unknown
	case a.needs > 0:
		return nil, refused
	default:
		return a.result, a.err
	}
}
