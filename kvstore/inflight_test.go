package kvstore

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/kv"
)

func withToken(name string, ops ...kv.Op) *kv.Txn {
	return &kv.Txn{TokenNS: "a", Token: name, Then: ops}
}

// patience lets time pass until those who wait are answered. The log is busy.
func (b *bench) patience(c <-chan outcome) outcome {
	b.Helper()
	b.clock.Advance(b.cfg.WriteTimeout)
	return <-c
}

func TestWritersAreToldInTimeThatTheLogHangs(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(withToken("old", put("k", "1")))
	b.allow()
	require.NoError(t, (<-first).err)
	told := make(chan *kv.Batch, 1)
	defer b.Follow(func(batch *kv.Batch) { told <- batch })()

	flying := b.begin(withToken("new", put("k", "2")))
	<-b.disk.entered
	behind := b.begin(withToken("behind", put("other", "x")))
	began := b.clock.Now()
	require.Nil(t, b.Trouble())
	require.ErrorIs(t, b.patience(flying).err, codes.Timeout)
	require.ErrorIs(t, (<-behind).err, codes.Storage, "it was not tried")

	require.Equal(t, "1", b.text("a", "k"), "reads go on")
	require.Equal(t, health.Hanging, b.Trouble().Kind)
	require.Equal(t, began, b.Trouble().Since)
	require.ErrorIs(t, b.Writable(), codes.Storage)
	refused := func(txn *kv.Txn) error { return b.Commit(txn, nil) }
	require.ErrorIs(t, refused(withToken("another", put("k", "3"))), codes.Storage)
	require.ErrorIs(t, refused(&kv.Txn{Then: []kv.Op{put("k", "3")}}), codes.Storage)
	require.ErrorIs(t, refused(withToken("new", put("k", "2"))), codes.Timeout, "nobody knows yet")
	require.ErrorIs(t, refused(withToken("old", put("k", "1"))), codes.Timeout, "it must not seem undone")
	require.Zero(t, b.Stats().Queue)

	b.disk.gate <- struct{}{}
	require.Equal(t, "2", string((<-told).Changes[0].Events[0].Entry.Value.Data), "it became durable after all")
	require.Eventually(t, func() bool { return b.Trouble() == nil }, 10*time.Second, time.Millisecond)
	require.Equal(t, "2", b.text("a", "k"))
	again, err := b.do(withToken("new", put("k", "2")))
	require.NoError(t, err)
	require.True(t, again.Replayed)
	go b.allow()
	b.must(put("other", "y"))
	require.Zero(t, b.Stats().Queue)
}

// What the log says when it returns decides, also if that is an error.
func TestALogThatHangsMayFailInTheEnd(t *testing.T) {
	b := gated(t, Config{})
	flying := b.begin(kv.PutTxn("a", "k", kv.IntValue(1)))
	<-b.disk.entered
	require.ErrorIs(t, b.patience(flying).err, codes.Timeout)
	b.disk.set(codes.Internal, nil, nil)
	b.disk.gate <- struct{}{}
	require.Eventually(t, func() bool {
		now := b.Trouble() // for a moment the log neither hangs any more nor is known to have failed
		return now != nil && now.Kind == health.Failed
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "-", b.text("a", "k"))
	require.Zero(t, b.Stats().Queue)
}

// Of a group whose fate is unknown, what rests only on what is durable stands.
func TestRefusalsThatRestOnDurableStateStandWhileTheLogHangs(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(&kv.Txn{Then: []kv.Op{put("text", "x")}})
	<-b.disk.entered
	wrong := b.begin(&kv.Txn{Then: []kv.Op{incr("text", 1)}})
	read := b.begin(&kv.Txn{Then: []kv.Op{get("text")}})
	write := b.begin(&kv.Txn{Then: []kv.Op{put("text", "y")}})
	after := b.begin(&kv.Txn{Then: []kv.Op{get("text")}})
	b.disk.gate <- struct{}{}
	require.NoError(t, (<-first).err)
	<-b.disk.entered
	require.ErrorIs(t, b.patience(wrong).err, codes.WrongType)
	o := <-read
	require.NoError(t, o.err)
	require.Equal(t, "x", string(o.result.Ops[0].Entry.Value.Data))
	require.ErrorIs(t, (<-write).err, codes.Timeout)
	require.ErrorIs(t, (<-after).err, codes.Storage, "what it has read may never be")
	b.disk.gate <- struct{}{}
}

func TestCloseGivesALogThatHangsUp(t *testing.T) {
	now := clocktest.NewFake(noon)
	f := &fakeLog{entered: make(chan struct{}, 1), gate: make(chan struct{})}
	s, err := Open(t.Context(), Config{Clock: now}, f)
	require.NoError(t, err)
	b := &bench{TB: t, Store: s, disk: f, clock: now}
	flying := b.begin(kv.PutTxn("a", "k", kv.IntValue(1)))
	<-f.entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for err = nil; err == nil; now.Advance(time.Second) {
		select {
		case err = <-closed:
		default:
		}
	}
	require.ErrorIs(t, err, codes.Timeout)
	require.ErrorIs(t, (<-flying).err, codes.Timeout)
	f.gate <- struct{}{}
	<-s.committer.ended
	s.beating.Wait()
}

// Reads of past state wait for the disk, but neither for ever nor in any number.
func TestReadsOfThePastDoNotWaitForEver(t *testing.T) {
	b := onFake(t, Config{MaxSlowReads: 1})
	b.must(put("k", "1"))
	b.must(put("k", "2"))
	b.disk.mu.Lock() // the disk hangs
	got := make(chan error, 1)
	waiters := b.clock.Waiters()
	go func() {
		_, err := b.GetAt(t.Context(), "a", "k", 1)
		got <- err
	}()
	b.clock.BlockUntil(waiters + 1)
	b.clock.Advance(b.cfg.ReadTimeout)
	require.ErrorIs(t, <-got, codes.Timeout)
	_, err := b.History(t.Context(), "a", "k", 0, 0)
	require.ErrorIs(t, err, codes.Busy)
	e, err := b.GetAt(t.Context(), "a", "k", 2)
	require.NoError(t, err, "it is in memory")
	require.Equal(t, "2", string(e.Value.Data))
	b.disk.mu.Unlock()
	require.Eventually(t, func() bool {
		e, err = b.GetAt(t.Context(), "a", "k", 1)
		return err == nil
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "1", string(e.Value.Data))
}

// tidyLog takes its time to close.
type tidyLog struct {
	fakeLog
	entered, tidy chan struct{}
}

func (l *tidyLog) Close() error {
	close(l.entered)
	<-l.tidy
	return l.fakeLog.Close()
}

// A log may have more to write when it closes than a transaction waits for.
func TestCloseWaitsLongerForALogThatIsClosing(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		write time.Duration
		code  error
	}{
		"long":             {2 * closeGrace, 0, nil},
		"for ever":         {tidyWrites * 5 * time.Second, 0, codes.Timeout},
		"of a patient one": {tidyWrites * 5 * time.Second, math.MaxInt64 / 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			now := clocktest.NewFake(noon)
			log := &tidyLog{entered: make(chan struct{}), tidy: make(chan struct{})}
			s, err := Open(t.Context(), Config{Clock: now, WriteTimeout: c.write}, log)
			require.NoError(t, err)
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			<-log.entered
			now.BlockUntil(1)
			now.Advance(c.takes)
			if c.code == nil {
				close(log.tidy)
			} else {
				defer close(log.tidy)
			}
			require.ErrorIs(t, <-closed, c.code)
		})
	}
}
