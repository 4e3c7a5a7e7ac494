package replica

import (
	"errors"

	"confcenter/codes"
	"confcenter/kv"
)

// What follows is for logs that others write to. In one of its own a replica's
// guesses are always right: Tail brings the group that was proposed, and nothing else.

// refusal says whether the log goes on although it did not take all.
func refusal(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown) }

// catchUp applies what others have written. Nothing is under way.
func (c *committer) catchUp(list []queued) bool {
	if !c.group.shared {
		return true
	}
	tail, through, err := c.store.log.Tail(c.group.rev)
	if err != nil {
		c.fail(err, list)
		return false
	}
	if through > c.group.rev {
		c.adopt(tail, through)
		c.publish(nil, nil)
	}
	return true
}

func (c *committer) adopt(tail []Commit, through kv.Revision) {
	g := &c.group
	g.begin(c.store.cfg.Clock.Now(), len(tail))
	for i := range tail {
		g.adopt(&tail[i])
	}
	g.rev = through
}

// brought waits until the log has brought what it took of the group, and what that
// was in conflict with.
func (c *committer) brought(taken int, refused error) (tail []Commit, through kv.Revision, err error) {
	log, g := c.store.log, &c.group
	upTo := g.base
	if taken > 0 {
		upTo = g.commits[taken-1].Revision
	}
	if errors.Is(refused, ErrConflict) {
		barrier, err := log.Barrier(c.store.life)
		if err != nil {
			return nil, 0, err
		}
		upTo = max(upTo, barrier)
	}
	for {
		tail, through, err = log.Tail(g.base)
		if err != nil || through >= upTo {
			return tail, through, err
		}
		select {
		case <-log.Arrived():
		case <-c.store.life.Done():
			return nil, 0, c.store.life.Err()
		}
	}
}

// mend applies what the log has brought in place of what was guessed, and answers
// those that were taken, with the revisions that they have got. It says how many.
func (c *committer) mend(list []queued, tail []Commit, through kv.Revision, taken int, refused error) int {
	g := &c.group
	answers := append([]answer(nil), g.answers...)
	n := 0
	for n < len(answers) && answers[n].needs <= taken {
		if r := answers[n].result; r != nil {
			g.renumber(r)
		}
		n++
	}
	if n < len(answers) && errors.Is(refused, ErrUnknown) && answers[n].wrote && answers[n].needs == taken+1 {
		answers[n].result, answers[n].err = nil, codes.Errorf(codes.Timeout, "it is not known whether the transaction took effect: the log did not answer in time")
		n++
	}
	g.abandon()
	c.adopt(tail, through)
	c.publish(list[:n], answers[:n])
	return n
}
