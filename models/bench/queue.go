package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// SubmitAsk submits a job.
type SubmitAsk struct {
	Spec  string `json:"spec" arg:"1" doc:"the specification in YAML"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat: the same specification with the same token is one job"`
}

// SubmitAnswer names the new job.
type SubmitAnswer struct {
	ID   string `json:"id" doc:"of the job"`
	Hash string `json:"hash" doc:"SHA-256 of the specification"`
}

// SubmitJob puts a job at the end of the queue. codes.InvalidConfig lists all that is wrong.
func (b *Bench) SubmitJob(ctx context.Context, by *access.Actor, q *SubmitAsk) (*SubmitAnswer, error) {
	spec, err := b.parse(q.Spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(q.Spec))
	hash := hex.EncodeToString(sum[:])
	return apply(ctx, b, by, "submit/"+hash+q.Token, q.Token, q, func(c *change) (*SubmitAnswer, error) {
		if err := c.countUp("waiting", b.cfg.MaxQueue, "%d jobs wait, which is the limit: abort some, or wait"); err != nil {
			return nil, err
		}
		if err := c.countUp("kept", b.cfg.MaxJobs, "%d jobs are kept, which is the limit: remove some that have ended"); err != nil {
			return nil, err
		}
		drawn, err := b.next(ctx, "jobs", "tickets")
		if err != nil {
			return nil, err
		}
		j := &job{JobHead: JobHead{
			ID: fmt.Sprintf("%010d", drawn[0]), Name: spec.Name, Owner: spec.Owner, Status: JobQueued, CreateTime: c.now.UnixNano(),
			Foreground: []int64{}, Background: []int64{}, Finished: []int64{}, Ticket: middle + drawn[1], Hash: hash,
		}}
		spec.ID = j.ID
		c.putValue("raw/"+j.ID, kv.StringValue(q.Spec), 0)
		c.put("spec/"+j.ID, spec)
		c.queue(j)
		c.save(j, "submitted", "")
		return &SubmitAnswer{ID: j.ID, Hash: j.Hash}, nil
	})
}

// parse reads a specification that is not too large.
func (b *book) parse(raw string) (*JobSpec, error) {
	if len(raw) > b.cfg.MaxSpec {
		return nil, codes.Errorf(codes.TooLarge, "the specification has %d bytes, the limit is %d", len(raw), b.cfg.MaxSpec)
	}
	spec, err := ParseSpec(raw)
	if err != nil {
		return nil, err
	}
	tasks := 0
	for i := range spec.Stages {
		tasks += len(spec.Stages[i].Tasks)
	}
	if n := tasks * len(spec.NodeAssignments); n > b.cfg.MaxTasks {
		return nil, codes.Errorf(codes.Limit, "%d tasks on %d nodes are %d, the limit is %d: split the job", tasks, len(spec.NodeAssignments), n, b.cfg.MaxTasks)
	}
	return spec, nil
}

// CheckAsk is a specification.
type CheckAsk struct {
	Spec string `json:"spec" arg:"1" doc:"the specification in YAML"`
}

// CheckSpec answers what a specification is read as, or refuses it, as SubmitJob does.
func (b *Bench) CheckSpec(_ context.Context, _ *access.Actor, q *CheckAsk) (*JobSpec, error) {
	return b.parse(q.Spec)
}

// Tickets count up from the middle, and those at the head of the queue down.
const middle = 5_000_000_000_000_000

// queue lets a job wait, in the place of its ticket.
func (c *change) queue(j *job) {
	c.unchanged(queueKey(j.Ticket), nil)
	c.putValue(queueKey(j.Ticket), kv.StringValue(j.ID), 0)
}

// unqueue takes a job out of the queue.
func (c *change) unqueue(j *job) {
	c.count("waiting", -1)
	c.leavePlace(j)
	if j.heldEntry != nil {
		c.revoke(j.heldEntry.Lease)
	}
	j.Ticket = 0
}

// leavePlace frees the place of a job in the queue.
func (c *change) leavePlace(j *job) {
	c.delete(queueKey(j.Ticket))
	c.delete(queueKey(j.Ticket) + "/taken")
}

// TakeAsk asks for the next job.
type TakeAsk struct {
	TTL   int64  `json:"ttl,omitempty" doc:"ms after which the job is free again, unless it is kept: 30,000"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// TakeAnswer is a job that was taken.
type TakeAnswer struct {
	Empty    bool     `json:"empty" doc:"there is none"`
	ID       string   `json:"id,omitempty" doc:"of the job"`
	Hold     int64    `json:"hold,omitempty" doc:"proves that it was taken, to all that follows"`
	TTL      int64    `json:"ttl,omitempty" doc:"ms after which the job is free again, unless it is kept"`
	Attempts int64    `json:"attempts" doc:"how often it was taken before"`
	Spec     *JobSpec `json:"spec,omitempty" doc:"what the job does"`
}

// TakeJob hands out the first job that waits, to no other caller until it is pushed back or not
// kept. What is then done with it names the hold.
func (b *Bench) TakeJob(ctx context.Context, by *access.Actor, q *TakeAsk) (*TakeAnswer, error) {
	ttl, err := lifetime(q.TTL, b.cfg.HoldTTL)
	if err != nil {
		return nil, err
	}
	answer, err := apply(ctx, b, by, "queue", q.Token, q, func(c *change) (*TakeAnswer, error) {
		free, err := b.first()
		if err != nil || free == nil {
			return &TakeAnswer{Empty: true}, err
		}
		id, key := string(free.Value.Data), free.Key
		j, err := b.job(id)
		if err == nil {
			err = c.holdEnded(j)
		}
		if err != nil {
			return nil, err
		}
		lease, err := c.grant(ttl)
		if err != nil {
			return nil, err
		}
		c.unchanged(key, free)
		c.unchanged(key+"/held", nil)
		c.put(key+"/held", hold{By: by.String()}).Lease = lease
		c.putValue(key+"/taken", kv.StringValue(""), 0)
		j.Taken++
		c.save(j, "taken", "")
		return &TakeAnswer{ID: id, Hold: int64(lease), TTL: ttl.Milliseconds(), Attempts: j.Taken - 1}, nil
	})
	if err != nil || answer.Empty {
		return answer, err
	}
	answer.Spec = new(JobSpec) // it is not remembered with the token
	return answer, decode(b.store.Get(kv.BenchNamespace, "spec/"+answer.ID), answer.Spec)
}

// first is the place of the first job that waits and is not held; nil: there is none.
func (b *book) first() (free *kv.Entry, err error) {
	const pageEntries = 256
	for e, err := range embedded.Each(b.store.List, kv.List{NS: kv.BenchNamespace, Prefix: "queue/", Limit: pageEntries}) {
		if err != nil || free != nil && e.Key != free.Key+"/held" {
			return free, err
		}
		if free = nil; strings.Count(e.Key, "/") == 1 {
			free = e
		}
	}
	return free, nil
}

// HoldAsk is about a job that was taken.
type HoldAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Hold  int64  `json:"hold" arg:"2" doc:"as it was answered when the job was taken"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// KeepAsk is about a job that was taken.
type KeepAsk struct {
	ID   string `json:"id" arg:"1" doc:"of the job"`
	Hold int64  `json:"hold" arg:"2" doc:"as it was answered when the job was taken"`
}

// KeepAnswer says how long a job is kept.
type KeepAnswer struct {
	TTL int64 `json:"ttl" doc:"ms after which the job is free again"`
}

// KeepJob begins the time anew after which a job that was taken is free again.
func (b *Bench) KeepJob(ctx context.Context, _ *access.Actor, q *KeepAsk) (*KeepAnswer, error) {
	if _, err := b.heldJob(q.ID, q.Hold); err != nil {
		return nil, err
	}
	lease, err := b.store.KeepLease(ctx, kv.LeaseID(q.Hold))
	if err != nil {
		return nil, err
	}
	return &KeepAnswer{TTL: lease.TTL.Milliseconds()}, nil
}

// heldJob reads a job that is held by hold.
func (b *book) heldJob(id string, hold int64) (*job, error) {
	j, err := b.open(id, 0)
	if err == nil && (j.heldEntry == nil || int64(j.heldEntry.Lease) != hold) {
		err = codes.Errorf(codes.LeaseGone, "job %s is not held by hold %d, or no longer: take a job again", id, hold)
	}
	return j, err
}

// stillHeld makes it a condition that the job is held as it was read.
func (c *change) stillHeld(j *job) { c.unchanged(queueKey(j.Ticket)+"/held", j.heldEntry) }

// PushBackAsk gives back a job that was taken.
type PushBackAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Hold  int64  `json:"hold" arg:"2" doc:"as it was answered when the job was taken"`
	Head  bool   `json:"head,omitempty" doc:"it is the next one again, and not the last"`
	Why   string `json:"why,omitempty" doc:"for its history"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// PushBackJob lets a job wait again that was taken, and its nodes go.
func (b *Bench) PushBackJob(ctx context.Context, by *access.Actor, q *PushBackAsk) (*UpdateAnswer, error) {
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	return apply(ctx, b, by, "job/"+q.ID, q.Token, q, func(c *change) (*UpdateAnswer, error) {
		j, err := b.heldJob(q.ID, q.Hold)
		if err != nil {
			return nil, err
		}
		name := map[bool]string{false: "tickets", true: "heads"}[q.Head]
		drawn, err := b.next(ctx, name)
		if err != nil {
			return nil, err
		}
		c.stillHeld(j)
		if err := c.letGo(j, "was pushed back"); err != nil {
			return nil, err
		}
		c.leavePlace(j)
		c.revoke(kv.LeaseID(q.Hold)) // with the nodes reserved under it
		if j.Ticket = middle + drawn[0]; q.Head {
			j.Ticket = middle - drawn[0]
		}
		c.queue(j)
		return c.save(j, "pushed back", q.Why), nil
	})
}
