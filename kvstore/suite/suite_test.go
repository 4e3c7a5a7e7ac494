package suite

import (
	"strings"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"

	"github.com/stretchr/testify/require"
)

// options are a check's requirements for its engine. The zero value stands for the engine's
// defaults.
type options struct {
	// LogBytes above 0 requires a change log that keeps about so many bytes of entries: the
	// suite writes many times as much and expects earlier changes to be gone.
	LogBytes int64
	// HistoryVersions above 0 requires that at most so many versions of each key are kept, and
	// at least so many.
	HistoryVersions int
}

// instance is an engine on data of its own, with the controls that the suite needs. The suite
// closes the engine it used last.
type instance struct {
	Engine kvstore.Engine
	// Clock is the engine's only source of time. While leases are open the suite advances it in
	// steps of a tenth of a second and commits something after each: a longer step may look
	// like a pause of the process, after which leases get their full time again.
	Clock *clocktest.Fake
	// Foreign is how many revisions of other stores come before each group of transactions of this one.
	Foreign int
	// Restart closes the engine and returns a new one on the same data.
	Restart func() kvstore.Engine
	// Kill ends the engine like a crash, with transactions still queued, and returns a new one
	// on the same data: everything acknowledged must be there. done need not be called for the
	// other transactions, but must not report a success that did not last.
	Kill func() kvstore.Engine
	// SetFull makes the engine believe that its disk is full, or not; nil: not possible, so
	// that this is not tested.
	SetFull func(full bool)
}

// engines are those that pass the suite.
var engines = map[string]opener{"memory": openMemory, "pebble": openPebble, "shared": openShared}

// patience is how long the suite waits for something that must happen.
const patience = time.Minute

// check is one named part of the suite.
type check struct {
	name string
	opts options
	run  func(s *subject)
}

// opener makes a new instance on empty data, which it cleans up with t.Cleanup.
type opener func(t testing.TB, opts options) instance

func (c *check) on(t testing.TB, open opener, patience time.Duration) {
	s := &subject{TB: t, open: open, patience: patience}
	s.begin(c.opts)
	defer s.end()
	c.run(s)
}

// checks is the suite, in the order in which it runs.
var checks = concat(
	valueChecks, writeChecks, txnChecks, readChecks, historyChecks, tokenChecks, timeChecks, leaseChecks,
	feedChecks, watchChecks, reservedChecks, forgetChecks, archiveChecks, durableChecks, modelChecks,
)

func concat(lists ...[]check) []check {
	var all []check
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// subject is the engine under test with helpers for the checks.
type subject struct {
	testing.TB
	instance
	open     opener
	patience time.Duration
	hooks    []func() // to be called before the engine ends
}

func (s *subject) begin(opts options) { s.instance = s.open(s.TB, opts) }

func (s *subject) end() {
	s.unhook()
	require.NoError(s, s.Engine.Close())
}

func (s *subject) restart() {
	s.unhook()
	s.Engine = s.Restart()
}

func (s *subject) kill() {
	s.unhook()
	s.Engine = s.Kill()
}

func (s *subject) unhook() {
	for _, hook := range s.hooks {
		hook()
	}
	s.hooks = nil
}

// outcome is the answer of Commit or its done.
type outcome struct {
	result *kv.Result
	err    error
}

// start hands a transaction over; its outcome comes through the channel.
func (s *subject) start(txn *kv.Txn) <-chan outcome {
	answer := make(chan outcome, 1)
	if err := s.Engine.Commit(txn, func(r *kv.Result, err error) { answer <- outcome{r, err} }); err != nil {
		answer <- outcome{nil, err}
	}
	return answer
}

// soon returns what comes through the channel, or fails.
func soon[T any](s *subject, c <-chan T, what string) T {
	s.Helper()
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		require.FailNow(s, "nothing came", "waited %s for %s", s.patience, what)
		panic("unreachable")
	}
}

func (s *subject) commit(txn *kv.Txn) (*kv.Result, error) {
	s.Helper()
	o := soon(s, s.start(txn), "the outcome of a transaction")
	return o.result, o.err
}

func (s *subject) must(txn *kv.Txn) *kv.Result {
	s.Helper()
	r, err := s.commit(txn)
	require.NoError(s, err)
	return r
}

func (s *subject) then(ops ...kv.Op) *kv.Result {
	s.Helper()
	return s.must(&kv.Txn{Then: ops})
}

func (s *subject) put(ns, key, text string) *kv.Entry {
	s.Helper()
	return s.then(putOp(ns, key, text)).Ops[0].Entry
}

func (s *subject) get(ns, key string) *kv.Entry {
	e, _ := s.Engine.Get([]byte(ns), []byte(key))
	return e
}

// text is the key's value, "-" if it is absent.
func (s *subject) text(ns, key string) string { return read(s.get(ns, key)) }

// read is the value of an entry, "-" if there is none.
func read(e *kv.Entry) string {
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

// texts is the values of several keys of one namespace, in one string.
func (s *subject) texts(ns string, keys ...string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = s.text(ns, key)
	}
	return strings.Join(parts, " ")
}

// barrier returns when everything that is due now is done: engines expire keys and leases before
// they apply a transaction.
func (s *subject) barrier() {
	s.Helper()
	s.then(kv.Op{Kind: kv.OpGet, NS: "kvtest", Key: "barrier"})
}

// pass lets time pass, and the engine notice.
func (s *subject) pass(d time.Duration) {
	s.Helper()
	const step = 100 * time.Millisecond
	for ; d > step; d -= step {
		s.Clock.Advance(step)
		s.barrier()
	}
	s.Clock.Advance(d)
	s.barrier()
}

func (s *subject) now() int64 { return s.Clock.Now().UnixMilli() }

// refused checks that the transaction fails with that code and changes nothing.
func (s *subject) refused(txn *kv.Txn, code codes.Code) {
	s.Helper()
	before := s.Engine.Revision()
	r, err := s.commit(txn)
	require.Nil(s, r)
	require.Equal(s, code, codes.Of(err), "%v", err)
	s.barrier()
	require.Equal(s, before, s.Engine.Revision(), "nothing was changed")
}

// eventually waits until ok. It advances the clock a little now and then, in case the engine set a
// timer while the clock was being advanced.
func (s *subject) eventually(what string, ok func() bool) {
	s.Helper()
	s.until(what, ok, func() {
		s.Clock.Advance(time.Millisecond)
		s.barrier()
	})
}

// until waits until ok, calling between before each new attempt.
func (s *subject) until(what string, ok func() bool, between func()) {
	s.Helper()
	deadline := time.NewTimer(s.patience)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			require.FailNow(s, "did not happen", "waited %s until %s", s.patience, what)
		case <-poll.C:
			between()
		}
	}
}

func putOp(ns, key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue(text)}
}

func getOp(ns, key string) kv.Op { return kv.Op{Kind: kv.OpGet, NS: ns, Key: key} }

func deleteOp(ns, key string) kv.Op { return kv.Op{Kind: kv.OpDelete, NS: ns, Key: key} }

func dropOp(ns string) kv.Op { return kv.Op{Kind: kv.OpDeletePrefix, NS: ns, Confirm: ns} }

func incrOp(ns, key string, delta int64) kv.Op {
	return kv.Op{Kind: kv.OpIncr, NS: ns, Key: key, Delta: delta}
}
