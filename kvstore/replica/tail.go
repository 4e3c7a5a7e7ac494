package replica

import (
	"errors"

	"confcenter/codes"
	"confcenter/kv"
)

// This file is for logs that others write to. In a log of its own a replica's guesses
// are right: Tail returns the group that was proposed, and nothing else. Only if that failed
// midway Tail says later what became of it.

// refusal reports whether the log goes on although it did not take the whole group.
func refusal(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) }

// arrival is news from the log: the transactions after a revision or, if those are no
// longer available, the whole state.
type arrival struct {
	tail    []Commit
	through kv.Revision
	anew    *loadedAgain
}

// arrived asks the log for the transactions after a revision. It does not wait, unless
// the log has to be reloaded.
func (c *committer) arrived(after kv.Revision) (came arrival, err error) {
	s := c.store
	came.tail, came.through, err = s.log.Tail(after)
	if errors.Is(err, ErrReset) {
		if came.anew, err = loadAgain(s.life, s.log); err != nil {
			return came, err
		}
		if came.through = came.anew.newest; came.through < after {
			return came, codes.Errorf(codes.Storage, "the log ends at revision %d, but %d has been served", came.through, after)
		}
		s.cfg.Log.Warn().Int64("after", int64(after)).Int64("revision", int64(came.through)).Msg("the store has missed changes of others and has reloaded everything")
	}
	return came, err
}

// catchUp applies what others have written. No group is under way.
func (c *committer) catchUp(list []queued) bool {
	g := &c.group
	came, err := c.arrived(g.rev)
	switch {
	case errors.Is(err, ErrUnknown):
		return true
	case err != nil:
		c.fail(err, list)
		return false
	}
	if g.tokens.doubtful != nil {
		g.tokens.doubtful = nil
		c.store.cfg.Log.Info().Int("transactions", len(came.tail)).Msg("it is known what became of the write that failed, and writes are taken again; so many of its transactions had taken effect")
	}
	if came.through > g.rev {
		c.adopt(came)
		c.publish(nil, nil)
	}
	return true
}

func (c *committer) adopt(came arrival) {
	g := &c.group
	g.begin(c.store.cfg.Clock.Now(), len(came.tail))
	if came.anew != nil {
		g.missed = true
		came.tail = []Commit{came.anew.difference(g.books, g.millis)}
		g.tokens.replace(came.anew.tokens)
	}
	for i := range came.tail {
		g.adopt(&came.tail[i])
	}
	g.rev = came.through
}

// brought waits for the part of the group that the log took to arrive, and for what the
// rest was in conflict with.
func (c *committer) brought(taken int, refused error) (came arrival, err error) {
	g := &c.group
	upTo := g.base
	if taken > 0 {
		upTo = g.commits[taken-1].Revision
	}
	if errors.Is(refused, ErrConflict) {
		barrier, err := c.store.log.Barrier(c.store.life)
		if err != nil {
			return arrival{}, err
		}
		upTo = max(upTo, barrier)
	}
	return c.arrivedThrough(g.base, upTo)
}

// arrivedThrough waits until everything up to a revision has arrived.
func (c *committer) arrivedThrough(after, upTo kv.Revision) (came arrival, err error) {
	for {
		came, err = c.arrived(after)
		if err != nil || came.through >= upTo {
			return came, err
		}
		select {
		case <-c.store.log.Arrived():
		case <-c.store.life.Done():
			return arrival{}, c.store.life.Err()
		}
	}
}

// unknown answers the transactions from n on of which the log does not know whether they
// took effect. A log that others write to takes them one by one, so there is one at most; in
// one of its own they share a record.
func (g *group) unknown(answers []answer, n, taken int, refused error) int {
	if !errors.Is(refused, ErrUnknown) {
		return n
	}
	unknown := codes.Errorf(codes.Timeout, "it is not known whether the write takes effect, so ask again with its token, or read: %w", refused)
	if g.shared {
		if n < len(answers) && answers[n].wrote && answers[n].needs == taken+1 {
			answers[n].result, answers[n].err = nil, unknown
			n++
		}
		return n
	}
	none := codes.Errorf(codes.Storage, "nothing was changed: %w", refused)
	for ; n < len(answers); n++ {
		answers[n].result, answers[n].err = verdict(answers, n, none, unknown)
	}
	return n
}

// mend applies what has arrived in place of what was guessed, and answers the
// transactions that were taken, with their real revisions. It returns how many.
func (c *committer) mend(list []queued, came arrival, taken int, refused error) int {
	g := &c.group
	answers := append([]answer(nil), g.answers...)
	n := 0
	for n < len(answers) && answers[n].needs <= taken {
		if r := answers[n].result; r != nil {
			g.renumber(r)
		}
		n++
	}
	n = g.unknown(answers, n, taken, refused)
	g.abandon()
	c.adopt(came)
	c.publish(list[:n], answers[:n])
	return n
}
