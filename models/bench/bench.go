package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Limits that cannot be configured.
const (
	maxName     = 128      // bytes of an id or a name
	maxLabels   = 64       // of a node
	maxText     = 255      // bytes of an address or name that a node tells of itself
	maxReason   = 64       // bytes that the record of a job keeps of why a task has ended
	maxNodeJobs = 8        // that one heartbeat tells of
	maxInfo     = 8 << 10  // bytes of what a node says of itself
	maxBeat     = 64 << 10 // bytes of a heartbeat
	maxPage     = 1000     // entries of an answer
	maxJobNodes = 64       // of one job: all are assigned by one transaction
	maxTries    = 64       // of a transaction that loses to others
)

// Config says how a Bench works. The zero value of a field is its default.
type Config struct {
	Clock clock.Clock // the machine's

	NodeTTL  time.Duration // a node that is silent for longer is lost: 10 s
	HoldTTL  time.Duration // a job that is held for longer without a word is free again: 30 s
	TokenTTL time.Duration // how long a request token is remembered: 1 h

	MaxNodes    int64 // 10,000
	MaxRemoved  int64 // removed nodes whose history is kept: 1,000; the oldest go
	MaxJobs     int64 // those that have ended included: 100,000
	MaxHistory  int64 // entries that are kept of each node and job, at most kv.MaxDeletePrefix: 10,000; the oldest go
	MaxQueue    int64 // jobs that wait: 10,000
	MaxWaiting  int64 // requests that wait for others who change the same: 32
	MaxSpec     int   // bytes of a specification: 64 KiB
	MaxTasks    int   // of a job, each counted on each of its nodes: 2,048
	MaxLogChunk int   // bytes that are added to a task's log at a time: 64 KiB
	MaxLog      int64 // chunks that are kept of a task's log: 256; the oldest go
}

func (c *Config) setDefaults() {
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.NodeTTL = cmp.Or(c.NodeTTL, 10*time.Second)
	c.HoldTTL = cmp.Or(c.HoldTTL, 30*time.Second)
	c.TokenTTL = cmp.Or(c.TokenTTL, time.Hour)
	c.MaxNodes = cmp.Or(c.MaxNodes, 10_000)
	c.MaxRemoved = cmp.Or(c.MaxRemoved, 1000)
	c.MaxJobs = cmp.Or(c.MaxJobs, 100_000)
	c.MaxHistory = min(cmp.Or(c.MaxHistory, 10_000), kv.MaxDeletePrefix)
	c.MaxQueue = cmp.Or(c.MaxQueue, 10_000)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 32)
	c.MaxSpec = cmp.Or(c.MaxSpec, 64<<10)
	c.MaxTasks = cmp.Or(c.MaxTasks, 2048)
	c.MaxLogChunk = cmp.Or(c.MaxLogChunk, 64<<10)
	c.MaxLog = cmp.Or(c.MaxLog, 256)
}

// Bench is the meta store. Its methods may be called from any goroutine.
type Bench struct {
	book
	turns   [256]chan struct{} // set at open; of capacity 1, full while the turn is taken
	waiting atomic.Int64       // for a turn
}

// book is what all operations read with.
type book struct {
	store embedded.Store
	cfg   Config
}

// Open returns the Bench in a store, which must outlive it.
func Open(store embedded.Store, cfg Config) *Bench {
	cfg.setDefaults()
	b := &Bench{book: book{store, cfg}}
	for i := range b.turns {
		b.turns[i] = make(chan struct{}, 1)
	}
	return b
}

// turn waits until no other caller changes the same node, job or queue through this Bench, because
// all but one of those that try it at once would try in vain.
func (b *Bench) turn(ctx context.Context, by *access.Actor, of string) (done func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(of))
	turn := b.turns[h.Sum32()%uint32(len(b.turns))]
	done = func() { <-turn }
	select {
	case turn <- struct{}{}:
		return done, nil
	default:
	}
	defer b.waiting.Add(-1)
	if b.waiting.Add(1) > b.cfg.MaxWaiting && by != itself { // each keeps one of the server's few workers from others
		return nil, busy("%d others wait to change nodes and jobs that are being changed", b.cfg.MaxWaiting)
	}
	select {
	case turn <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// busy refuses what is worth trying again soon.
func busy(format string, args ...any) error {
	const soon = 50 * time.Millisecond
	err := codes.Errorf(codes.Busy, format+": nothing was done, try again", args...)
	err.After = soon
	return err
}

// The keys of the namespace. Ids have no slash, and numbers in keys have a fixed width.
//
//	node/ID/info|state|beat  what a node is, what it does and its last heartbeat
//	node/ID/job              the job that has the node; under the job's hold until it starts
//	alive/ID                 under the node's lease
//	job/ID                   jobHead
//	raw/ID, spec/ID          the specification as it came, and as it was read
//	nodes/ID, run/ID         the nodes assigned, and what becomes of the tasks on them
//	queue/TICKET             the id of a job that waits
//	queue/TICKET/held|taken  that it is held: under the hold's lease, and until the hold's end is noticed
//	ran/NODE/JOB             which jobs a node has had
//	history/node/ID/N, history/job/ID/N
//	log/JOB/STAGE/NODE/TASK/N
//	removed/TIME/NODE        that a node was removed; its history goes when many others were
//	count/NAME               numbers: nodes there are, jobs that are kept or wait, jobs and tickets there have been
//	gone/JOB                 a job is removed, and its history and logs are being deleted
//	token/TOKEN              what was answered to a request
func numbered(prefix string, n int64) string { return fmt.Sprintf("%s/%016d", prefix, n) }

// refuse makes an error of the reference's kinds, whose text begins with its name.
func refuse(code ErrorCode, format string, args ...any) error {
	c := map[ErrorCode]codes.Code{AlreadyExists: codes.AlreadyExists, NotFound: codes.NotFound, InvalidConfig: codes.InvalidConfig}[code]
	return codes.Errorf(c, "%s: %w", code, fmt.Errorf(format, args...))
}

func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return codes.Errorf(codes.BadRequest, "%s %.40q has %d bytes: give 1 to %d", what, name, len(name), maxName)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7F || c == '/' {
			return codes.Errorf(codes.BadRequest, "%s %q has %q: use letters, digits and signs of ASCII except the slash", what, name, c)
		}
	}
	return nil
}

// change is a transaction that is being built, to be tried again from the beginning when
// something it was built upon has changed meanwhile.
type change struct {
	b     *book
	ctx   context.Context
	by    *access.Actor
	now   time.Time
	lease kv.LeaseID // granted for it, and not in use yet; 0: none
	floor int64      // ns since 1970; now is no less
	past  []string   // the entries that those of the change follow, in their histories
	conds []kv.Compare
	ops   []kv.Op
}

// apply carries out a request that changes what is named by of: attempt reads, refuses or fills the
// change, and answers. A request with a token that is known is answered as it was then. One that
// changes nothing is not remembered: it costs no write, and may be carried out again.
func apply[A any](ctx context.Context, b *Bench, by *access.Actor, of, token string, asked any, attempt func(c *change) (*A, error)) (*A, error) {
	digest := ""
	if token != "" {
		if err := kv.CheckToken(token); err != nil {
			return nil, err
		}
		text, err := json.Marshal(asked)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(fmt.Appendf(text, "%T", asked))
		digest = hex.EncodeToString(sum[:])
	}
	done, err := b.turn(ctx, by, of)
	if err != nil {
		return nil, err
	}
	defer done()
	c := &change{b: &b.book, ctx: ctx, by: by}
	defer c.end()
	for range maxTries {
		c.now, c.past, c.conds, c.ops = time.Unix(0, max(b.cfg.Clock.Now().UnixNano(), c.floor)), nil, nil, nil
		if token != "" {
			if answer, err := replay[A](c, token, digest); answer != nil || err != nil {
				return answer, err
			}
		}
		answer, err := attempt(c)
		if err != nil {
			return nil, err
		}
		if late, err := c.late(); err != nil {
			return nil, err
		} else if late {
			continue
		}
		if token != "" && len(c.ops) > 0 {
			if err := c.remember(token, digest, answer); err != nil {
				return nil, err
			}
		}
		if done, err := c.commit(); done || err != nil {
			return answer, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return nil, busy("others changed the same %d times meanwhile", maxTries)
}

type remembered struct {
	Asked  string          `json:"asked"`
	Answer json.RawMessage `json:"answer"` // decoded once it is known that it is for the same question
}

func replay[A any](c *change, token, digest string) (*A, error) {
	var known remembered
	e, err := c.read("token/"+token, &known)
	if e == nil || err != nil {
		return nil, err
	}
	if known.Asked != digest {
		return nil, codes.Errorf(codes.TokenReused, "token %.40q was used for another request: use a new one", token)
	}
	answer := new(A)
	return answer, json.Unmarshal(known.Answer, answer)
}

func (c *change) remember(token, digest string, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	c.unchanged("token/"+token, nil)
	c.put("token/"+token, remembered{digest, text}).TTL = c.b.cfg.TokenTTL
	return nil
}

// commit reports whether the change was made; if not, something has changed meanwhile.
func (c *change) commit() (bool, error) {
	if len(c.ops) == 0 {
		return true, nil
	}
	res, err := c.b.store.Txn(c.ctx, &kv.Txn{If: c.conds, Then: c.ops, Actor: c.by})
	if err != nil || res.Held && slices.ContainsFunc(c.ops, func(op kv.Op) bool { return op.Lease == c.lease }) {
		c.lease = 0 // it is in use, or may be
	}
	switch codes.Of(err) {
	case codes.LeaseGone, codes.OutOfBounds: // since it was read, a lease has ended or a number has reached its limit
		return false, nil
	}
	return err == nil && res.Held, err
}

// end gives back a lease that is not needed.
func (c *change) end() {
	if c.lease != 0 { // if it fails, the lease ends by itself
		_, _ = c.b.store.Txn(c.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: c.lease}}})
	}
}

// decode reads an entry's value, if there is an entry.
func decode(e *kv.Entry, into any) error {
	if e == nil {
		return nil
	}
	return json.Unmarshal(e.Value.Data, into)
}

// read reads one key into a record.
func (c *change) read(key string, into any) (*kv.Entry, error) {
	e := c.b.store.Get(kv.BenchNamespace, key)
	return e, decode(e, into)
}

// unchanged makes it a condition that key is as it was read.
func (c *change) unchanged(key string, e *kv.Entry) {
	cond := kv.Absent(kv.BenchNamespace, key)
	if e != nil {
		cond.Target, cond.Number = kv.CompareMod, int64(e.Mod)
	}
	c.conds = append(c.conds, cond)
}

// exists makes it a condition that there is such a key.
func (c *change) exists(key string) {
	c.conds = append(c.conds, kv.Compare{NS: kv.BenchNamespace, Key: key, Target: kv.CompareVersion, Relation: kv.Greater})
}

// do adds an operation, in the namespace of all.
func (c *change) do(op kv.Op) *kv.Op {
	op.NS = kv.BenchNamespace
	c.ops = append(c.ops, op)
	return &c.ops[len(c.ops)-1]
}

func (c *change) putValue(key string, v kv.Value, lease kv.LeaseID) *kv.Op {
	return c.do(kv.Op{Kind: kv.OpPut, Key: key, Value: v, Lease: lease})
}

// put writes a record, which json can always encode.
func (c *change) put(key string, record any) *kv.Op {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // which makes six bytes of one
	if err := e.Encode(record); err != nil {
		panic(err)
	}
	return c.putValue(key, kv.JSONValue(bytes.TrimSpace(text.Bytes())), 0)
}

func (c *change) delete(key string) { c.do(kv.Op{Kind: kv.OpDelete, Key: key}) }

// revoke ends a lease, with all keys under it.
func (c *change) revoke(lease kv.LeaseID) {
	c.ops = append(c.ops, kv.Op{Kind: kv.OpRevoke, Lease: lease})
}

// count adds to one of the numbers.
func (c *change) count(name string, delta int64) *kv.Op {
	return c.do(kv.Op{Kind: kv.OpIncr, Key: "count/" + name, Delta: delta})
}

// countUp counts one more of what there is a limit of; text says which, and what to do.
func (c *change) countUp(name string, limit int64, text string) error {
	var n int64
	if _, err := c.read("count/"+name, &n); err != nil {
		return err
	}
	if n >= limit {
		return codes.Errorf(codes.Limit, text, n)
	}
	c.count(name, 1).Max = &limit
	return nil
}

// next draws numbers that no other caller gets. They are gone even if nothing comes of it.
func (b *book) next(ctx context.Context, names ...string) ([]int64, error) {
	c := &change{b: b, ctx: ctx}
	for _, name := range names {
		c.count(name, 1)
	}
	res, err := b.store.Txn(ctx, &kv.Txn{Then: c.ops})
	if err != nil {
		return nil, err
	}
	drawn := make([]int64, len(names))
	for i := range drawn {
		if drawn[i], err = res.Ops[i].Entry.Value.Int(); err != nil {
			return nil, err
		}
	}
	return drawn, nil
}

// grant makes a lease for the change, which is given back unless the change is made.
func (c *change) grant(ttl time.Duration) (kv.LeaseID, error) {
	if c.lease == 0 {
		res, err := c.b.store.Txn(c.ctx, &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: ttl}}})
		if err != nil {
			return 0, err
		}
		c.lease = res.Ops[0].Lease.ID
	}
	return c.lease, nil
}

// each reads all keys with a prefix.
func (b *book) each(prefix string) iter.Seq2[*kv.Entry, error] {
	return embedded.Each(b.store.List, kv.List{NS: kv.BenchNamespace, Prefix: prefix})
}

// behind is list from a name on that was given: what is behind PREFIX NAME REST.
func (b *book) behind(prefix, name, rest string, limit int) (kv.Page, error) {
	if name == "" {
		return b.list(prefix, "", limit)
	}
	if err := checkName("after", name); err != nil {
		return kv.Page{}, err
	}
	return b.list(prefix, prefix+name+rest, limit)
}

// list reads one page, all of it at one revision.
func (b *book) list(prefix, after string, limit int) (kv.Page, error) {
	return b.store.List(kv.List{NS: kv.BenchNamespace, Prefix: prefix, After: after, Limit: limit})
}
