package audit_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is an audit on a real disk.
type kit struct {
	*audit.Audit
	t      *testing.T
	dir    string
	clock  *clocktest.Fake
	cfg    audit.Config
	store  *kvstore.Store
	cancel context.CancelFunc
	ended  chan struct{}
}

func start(t *testing.T, change func(*audit.Config)) *kit {
	k := &kit{t: t, dir: t.TempDir(), clock: clocktest.NewFake(time.UnixMilli(1_700_000_000_000))}
	if change != nil {
		change(&k.cfg)
	}
	k.open()
	t.Cleanup(func() { k.close() })
	return k
}

func (k *kit) open() {
	lines := audit.New(1 << 20)
	var err error
	k.store, err = disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(k.dir, "state"), ReserveBytes: 1, TableBytes: 32 << 10}, Engine: kvstore.Config{
		Trail: lines, Clock: k.clock,
		WriteTimeout: 1e5 * time.Hour, // the clock leaps while the disk is at work
	}})
	require.NoError(k.t, err)
	k.cfg.Trail, k.cfg.Clock = lines, k.clock
	k.Audit = audit.Open(k.store, k.cfg)
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.ended = cancel, make(chan struct{})
	go func() { defer close(k.ended); _ = k.Run(ctx) }()
}

func (k *kit) close() {
	k.cancel()
	<-k.ended
	require.NoError(k.t, k.store.Close())
}

func (k *kit) reopen() {
	k.close()
	k.open()
}

// until has time go on until something is so.
func (k *kit) until(step time.Duration, what string, ok func() bool) {
	deadline := time.After(20 * time.Second)
	for !ok() {
		k.clock.Advance(step)
		select {
		case <-time.After(2 * time.Millisecond):
		case <-deadline:
			require.FailNow(k.t, "waited in vain for "+what)
		}
	}
}

var game = &access.Actor{Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: &access.Identity{Name: "token:game"}}

func (k *kit) put(key string) {
	txn := kv.PutTxn("ns", key, kv.StringValue("value"))
	txn.Actor = game
	_, err := kv.Commit(context.Background(), k.store, txn)
	require.NoError(k.t, err)
}

func (k *kit) lines(q audit.LinesAsk) []audit.Line {
	var all []audit.Line
	for {
		answer, err := k.Lines(context.Background(), nil, &q)
		require.NoError(k.t, err)
		all = append(all, answer.Lines...)
		if answer.Next == 0 {
			return all
		}
		q.After, q.Last = answer.Next, 0
	}
}

func (k *kit) verify(q audit.VerifyAsk) *audit.VerifyAnswer {
	answer, err := k.Verify(context.Background(), nil, &q)
	require.NoError(k.t, err)
	return answer
}

// Sessions and keys are noted by the code that keeps them.
func TestTheServersOwnKeysHaveNoLine(t *testing.T) {
	k := start(t, nil)
	_, err := kv.Commit(context.Background(), k.store, &kv.Txn{Actor: game, System: true, Then: []kv.Op{{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: "session/1", Value: kv.JSONValue([]byte("{}"))}}})
	require.NoError(t, err)
	k.put("k")
	lines := k.lines(audit.LinesAsk{})
	require.Len(t, lines, 1)
	require.Equal(t, []string{"kv:ns/k"}, lines[0].What)
}

func denied(address, what string) access.Event {
	return access.Event{Kind: access.EventDenied, Do: "read", What: []string{what}, Outcome: codes.Forbidden, By: &access.Actor{Origin: access.OverHTTP, Address: address}}
}

func TestLinesAreFound(t *testing.T) {
	k := start(t, nil)
	for i := range 30 {
		k.put(fmt.Sprint("k", i))
		k.clock.Advance(time.Minute)
	}
	k.Note(access.Event{Kind: access.EventLogin, By: game})
	k.until(0, "the login", func() bool { return len(k.lines(audit.LinesAsk{})) == 31 })
	all := k.lines(audit.LinesAsk{})
	for what, c := range map[string]struct {
		ask  audit.LinesAsk
		want int
	}{
		"all":           {audit.LinesAsk{}, 31},
		"after":         {audit.LinesAsk{After: 25}, 6},
		"last":          {audit.LinesAsk{Last: 4}, 4},
		"a kind":        {audit.LinesAsk{Filter: audit.Filter{Kind: "login"}}, 1},
		"somebody":      {audit.LinesAsk{Filter: audit.Filter{Who: "token:game"}}, 31},
		"somebody else": {audit.LinesAsk{Filter: audit.Filter{Who: "token:gam"}}, 0},
		"a prefix":      {audit.LinesAsk{Filter: audit.Filter{What: "kv:ns/k2"}}, 11},
		"an outcome":    {audit.LinesAsk{Filter: audit.Filter{Outcome: "forbidden"}}, 0},
		"from":          {audit.LinesAsk{Filter: audit.Filter{From: all[20].Time}}, 11},
		"to":            {audit.LinesAsk{Filter: audit.Filter{To: all[20].Time}}, 21},
		"pages":         {audit.LinesAsk{Limit: 7}, 31},
	} {
		require.Len(t, k.lines(c.ask), c.want, what)
	}
	for _, q := range []audit.LinesAsk{{Limit: -1}, {Limit: 1001}, {After: -1}, {Last: -1}, {Filter: audit.Filter{Kind: "x"}}} {
		_, err := k.Lines(context.Background(), nil, &q)
		require.Equal(t, codes.BadRequest, codes.Of(err), "%+v", q)
	}
	k.reopen()
	require.Equal(t, all, k.lines(audit.LinesAsk{})[:31], "from the disk")
	require.Equal(t, all[20:], k.lines(audit.LinesAsk{Filter: audit.Filter{From: all[20].Time}}))
}

// A peer that is refused again and again fills neither memory nor the disk, and hides no other peer.
func TestRefusalsAreAddedUp(t *testing.T) {
	k := start(t, func(cfg *audit.Config) { cfg.MaxSums = 200 })
	for i := range 1000 {
		k.Note(denied(fmt.Sprintf("10.0.0.1:%d", i+1), "kv:ns/a"))
	}
	k.Note(denied("10.0.0.2:5", "kv:ns/a"))
	count := func(q audit.Filter) (lines int, n int64) {
		for _, l := range k.lines(audit.LinesAsk{Filter: q}) {
			lines, n = lines+1, n+max(1, l.Count)
		}
		return lines, n
	}
	k.until(time.Second, "all of them", func() bool { _, n := count(audit.Filter{Kind: "denied"}); return n == 1001 })
	lines, _ := count(audit.Filter{Kind: "denied"})
	require.LessOrEqual(t, lines, 4, "some before, the others after a minute")

	for i := range 5000 {
		k.Note(denied("10.0.0.1:7", fmt.Sprint("kv:ns/", i)))
	}
	k.Note(denied("10.0.0.3:5", "kv:ns/b"))
	for i := range 5000 {
		k.Note(denied(fmt.Sprintf("10.1.%d.%d:5", i/256, i%256), "kv:ns/c"))
	}
	k.until(time.Second, "all of them", func() bool { _, n := count(audit.Filter{Kind: "denied"}); return n == 11002 })
	lines, _ = count(audit.Filter{Kind: "denied"})
	require.Less(t, lines, 600)
	lines, _ = count(audit.Filter{What: "kv:ns/b"})
	require.Equal(t, 1, lines)
	require.Zero(t, k.Figures().Lost)
	k.until(10*time.Second, "memory to be given back", func() bool { return k.Sums() == 0 })
	require.Empty(t, k.verify(audit.VerifyAsk{}).Fault)
}

// A peer that is beyond a quota asks again and again: to count that must cost next to nothing.
func TestAddingUpAllocatesNothing(t *testing.T) {
	k := start(t, nil)
	by := &access.Actor{Origin: access.OverTCP, Address: "[::ffff:10.0.0.1]:5", Identity: game.Identity}
	e := access.Event{Kind: access.EventRefused, By: by, Do: "quota of requests", What: []string{"kv:ns"}, Outcome: codes.Busy}
	k.Note(e)
	k.until(0, "the first", func() bool { return len(k.lines(audit.LinesAsk{})) == 1 })
	require.Zero(t, testing.AllocsPerRun(1000, func() { k.Note(e) }))
	e.By = &access.Actor{Origin: access.OverTCP, Address: "10.0.0.1:6", Identity: game.Identity}
	k.Note(e)
	k.until(time.Second, "the others", func() bool { return len(k.lines(audit.LinesAsk{Filter: audit.Filter{Kind: "refused"}})) == 2 })
	require.EqualValues(t, 1002, k.lines(audit.LinesAsk{})[1].Count, "it was the same peer, from another port")
	require.Equal(t, []string{"kv:ns"}, k.lines(audit.LinesAsk{})[1].What)
}

// What is allowed and happens often has a line when it begins, and then one each hour; it takes no
// place of a refusal.
func TestWhatHappensOftenIsAddedUp(t *testing.T) {
	k := start(t, func(cfg *audit.Config) { cfg.MaxSums = 50 })
	login := func(host int) access.Event {
		return access.Event{Kind: access.EventLogin, Do: "request", Often: true, By: &access.Actor{Origin: access.OverHTTP, Address: fmt.Sprintf("10.0.0.%d:5", host), Identity: game.Identity}}
	}
	lines := func() []audit.Line { return k.lines(audit.LinesAsk{Filter: audit.Filter{Kind: "login"}}) }
	k.Note(login(1))
	k.until(0, "the first", func() bool { return len(lines()) == 1 })
	for range 500 {
		k.Note(login(1))
		k.clock.Advance(time.Second)
	}
	require.Len(t, lines(), 1)
	k.until(10*time.Second, "the others", func() bool { return len(lines()) == 2 })
	require.EqualValues(t, 500, lines()[1].Count)
	require.GreaterOrEqual(t, lines()[1].Time-lines()[0].Time, time.Hour.Milliseconds())
	k.until(10*time.Minute, "memory to be given back", func() bool { return k.Sums() == 0 })

	for host := range 200 {
		k.Note(login(host))
	}
	k.Note(denied("10.0.0.9:5", "kv:ns/a"))
	k.until(0, "all of them", func() bool { return len(k.lines(audit.LinesAsk{Filter: audit.Filter{What: "kv:ns/a"}})) == 1 })
	require.LessOrEqual(t, len(lines()), 2+51)
}

func TestWhatIsLostIsCounted(t *testing.T) {
	k := start(t, func(cfg *audit.Config) { cfg.MaxEvents = 10 })
	k.cancel()
	<-k.ended // nothing is written
	for range 25 {
		k.Note(access.Event{Kind: access.EventLogin, By: game})
	}
	require.EqualValues(t, 15, k.Figures().Lost)
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.ended = cancel, make(chan struct{})
	go func() { defer close(k.ended); _ = k.Run(ctx) }()
	k.until(time.Second, "the lines", func() bool { return len(k.lines(audit.LinesAsk{})) == 11 })
	lost := k.lines(audit.LinesAsk{Filter: audit.Filter{Kind: "lost"}})
	require.Len(t, lost, 1)
	require.EqualValues(t, 15, lost[0].Count)
}

func TestWhatIsNotedIsWrittenWhenTheServerEnds(t *testing.T) {
	k := start(t, nil)
	k.Note(denied("10.0.0.1:5", "kv:ns/a"))
	k.until(0, "the first", func() bool { return len(k.lines(audit.LinesAsk{})) == 1 })
	k.Note(denied("10.0.0.1:5", "kv:ns/a"))
	k.Note(denied("10.0.0.1:5", "kv:ns/a"))
	k.reopen()
	list := k.lines(audit.LinesAsk{})
	require.Len(t, list, 2)
	require.EqualValues(t, 2, list[1].Count)
}

// Who can write to the store and not make lines cannot pass what they take away for what was too old.
func TestABeginningThatNoLineExplainsIsFound(t *testing.T) {
	k := start(t, nil)
	for i := range 5 {
		k.put(fmt.Sprint("k", i))
	}
	all := k.lines(audit.LinesAsk{})
	sum := sha256.Sum256(all[2].Append(nil))
	gone := audit.Head{Seq: all[2].Seq, Hash: sum}
	txn := &kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpPut, NS: kv.AuditNamespace, Key: "books", Value: kv.JSONValue(fmt.Appendf(nil, `{"pruned":{"head":%q},"segments":[]}`, gone))}}}
	for i := range gone.Seq {
		txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: kv.AuditLines, Key: audit.KeyOf(i)})
	}
	_, err := kv.Commit(t.Context(), k.store, txn)
	require.NoError(t, err)
	k.reopen()
	v := k.verify(audit.VerifyAsk{})
	require.Contains(t, v.Fault, "lines 1 to 3 are gone, and no line says that they were removed")
	require.EqualValues(t, 1, v.Line)
	require.Equal(t, gone.Seq+1, v.First)
}

// A client that writes a lot at once has old lines removed, but never the newest ones, and it shows.
func TestTheNewestLinesStayHoweverManyComeAtOnce(t *testing.T) {
	const most = 64 << 10
	var logged lockedBuffer
	k := start(t, func(cfg *audit.Config) { cfg.Bytes, cfg.Log = most, zerolog.New(&logged) })
	k.put("before")
	before := k.head()
	for i := range 1000 {
		k.put(fmt.Sprint("k", i))
	}
	var lines []audit.Line
	var v *audit.VerifyAnswer
	k.until(time.Second, "lines to be removed", func() bool {
		lines, v = k.lines(audit.LinesAsk{}), k.verify(audit.VerifyAsk{})
		return v.First > 1 && v.First == lines[0].Seq // else they are being removed
	})
	size := 0
	for i := range lines {
		size += len(lines[i].Append(nil)) + 1
	}
	require.Greater(t, size, most/2)
	require.Less(t, size, most+most/4)
	require.Contains(t, fmt.Sprint(lines), "kv:ns/k999")
	require.Empty(t, v.Fault)
	require.Empty(t, k.verify(audit.VerifyAsk{Head: before}).Fault)
	require.Equal(t, k.Figures().Pruned, k.Figures().Early)
	require.Equal(t, 1, strings.Count(logged.String(), "removed before they are 90 days old"))
	k.reopen()
	require.Empty(t, k.verify(audit.VerifyAsk{}).Fault)
}

// lockedBuffer is for a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (k *kit) head() string {
	h, err := k.Head(context.Background(), nil, &audit.HeadAsk{})
	require.NoError(k.t, err)
	return h.Head
}

// Whatever is done to the lines on disk shows, by the heads that are kept besides them.
func TestVerifyFindsWhatWasChangedInTheStore(t *testing.T) {
	k := start(t, nil)
	for i := range 10 {
		k.put(fmt.Sprint("k", i))
	}
	kept := k.head()
	k.until(11*time.Second, "a head to be kept", func() bool { return k.verify(audit.VerifyAsk{}).Lines >= 10 && k.kept() })
	text := func(seq int64) []byte {
		page, err := k.store.ListArchive(context.Background(), kv.List{NS: kv.AuditLines, After: audit.KeyOf(seq - 1), Limit: 1})
		require.NoError(t, err)
		return page.Entries[0].Value.Data
	}
	write := func(op kv.Op) {
		op.NS = kv.AuditLines
		_, err := kv.Commit(context.Background(), k.store, &kv.Txn{System: true, Then: []kv.Op{op}})
		require.NoError(t, err)
		k.reopen()
	}
	original := text(4)
	forged := []byte(strings.Replace(string(original), "kv:ns/k3", "kv:ns/kX", 1))
	write(kv.Op{Kind: kv.OpPut, Key: audit.KeyOf(4), Value: kv.BytesValue(forged)})
	require.EqualValues(t, 4, k.verify(audit.VerifyAsk{}).Line)
	write(kv.Op{Kind: kv.OpDelete, Key: audit.KeyOf(4)})
	require.EqualValues(t, 4, k.verify(audit.VerifyAsk{}).Line)
	write(kv.Op{Kind: kv.OpPut, Key: audit.KeyOf(4), Value: kv.BytesValue(original)})
	require.Empty(t, k.verify(audit.VerifyAsk{}).Fault)
	require.Empty(t, k.verify(audit.VerifyAsk{Head: kept}).Fault)
	write(kv.Op{Kind: kv.OpDelete, Key: audit.KeyOf(1)})
	require.EqualValues(t, 1, k.verify(audit.VerifyAsk{}).Line)
	_, err := k.Verify(context.Background(), nil, &audit.VerifyAsk{Head: "x"})
	require.Equal(t, codes.BadRequest, codes.Of(err))
}

// kept reports whether a head is in the books.
func (k *kit) kept() bool {
	e, _ := k.store.Get([]byte(kv.AuditNamespace), []byte("books"))
	return e != nil && strings.Contains(string(e.Value.Data), `"segments":[{`)
}

func TestWithoutAnAuditNothingCanBeAsked(t *testing.T) {
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: t.TempDir() + "/state", ReserveBytes: 1}})
	require.NoError(t, err)
	defer store.Close()
	a := audit.Open(store, audit.Config{})
	a.Note(access.Event{})
	_, err = a.Lines(context.Background(), nil, &audit.LinesAsk{})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
	_, err = a.Verify(context.Background(), nil, &audit.VerifyAsk{})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
	_, err = a.Head(context.Background(), nil, &audit.HeadAsk{})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
	_, _, err = a.Follow()
	require.Equal(t, codes.NotImplemented, codes.Of(err))
	require.Equal(t, audit.Figures{}, a.Figures())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, a.Run(ctx), context.Canceled)
}

// sick is a sink that can fail.
type sick struct {
	mu   sync.Mutex
	fail error
	got  []byte
}

func (s *sick) Name() string              { return "sick" }
func (s *sick) Last() (audit.Head, error) { return audit.Head{}, nil }
func (s *sick) Settle() error             { return nil }
func (s *sick) Close() error              { return nil }

func (s *sick) Write(b audit.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.got = append(s.got, b.Lines...)
	}
	return s.fail
}

func (s *sick) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *sick) lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(string(s.got), "\n")
}

func TestASinkThatFailsGetsEverythingLater(t *testing.T) {
	s := &sick{fail: errors.New("down")}
	k := start(t, func(cfg *audit.Config) { cfg.Sinks = []audit.Sink{s} })
	for i := range 20 {
		k.put(fmt.Sprint("k", i))
	}
	k.until(time.Second, "it to be tried", func() bool { return k.Figures().Exports[0].Failed > 1 })
	require.EqualValues(t, 20, k.Figures().Exports[0].Lag)
	s.set(nil)
	k.until(time.Second, "it to catch up", func() bool { return s.lines() == 20 })
	k.until(0, "no lag", func() bool { return k.Figures().Exports[0].Lag == 0 })
	k.until(11*time.Second, "the position to be kept", func() bool {
		e, _ := k.store.Get([]byte(kv.AuditNamespace), []byte("books"))
		return e != nil && strings.Contains(string(e.Value.Data), `"sick":20`)
	})
	k.reopen()
	k.put("more")
	k.until(0, "the next", func() bool { return s.lines() == 21 })
}

func verifyFile(t *testing.T, paths ...string) audit.Checker {
	var c audit.Checker
	for _, path := range paths {
		file, err := os.Open(path)
		require.NoError(t, err)
		err = c.ReadAll(file)
		require.NoError(t, file.Close())
		require.NoError(t, err, path)
	}
	return c
}

func TestAFileHasEveryLineOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	k := start(t, func(cfg *audit.Config) { cfg.Sinks = []audit.Sink{audit.NewFile(path)} })
	n := int64(0)
	more := func(key string) {
		k.put(key)
		n++
		k.until(0, "the file", func() bool { return k.Figures().Exports[0].Lag == 0 })
	}
	more("a")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	more("b")
	k.close()
	text, err := os.ReadFile(path) // a crash in the middle of a line
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text[:len(text)-10], 0o600))
	k.open()
	more("c")
	require.EqualValues(t, n, verifyFile(t, path).Lines)

	moved := path + ".1"
	require.NoError(t, os.Rename(path, moved))
	more("d")
	require.EqualValues(t, n, verifyFile(t, moved, path).Lines)
	k.reopen()
	more("e")
	require.NoError(t, os.Rename(path, path+".2"))
	k.until(11*time.Second, "the position to be kept", func() bool {
		e, _ := k.store.Get([]byte(kv.AuditNamespace), []byte("books"))
		return e != nil && strings.Contains(string(e.Value.Data), fmt.Sprintf(`"file":%d`, n))
	})
	k.reopen()
	more("f")
	require.EqualValues(t, n, verifyFile(t, moved, path+".2", path).Lines)

	require.NoError(t, os.WriteFile(path, []byte("something else\n"), 0o600))
	k.reopen()
	k.put("g")
	k.until(time.Second, "it to be refused", func() bool { return k.Figures().Exports[0].Failed > 0 })
}

// A file of another store has numbers that this one has not reached.
// Behind the lines of another data directory ours would be no chain.
func TestAFileOfAnotherAuditIsLeftAlone(t *testing.T) {
	l := audit.LineOf(&access.Event{Kind: access.EventLogin}, 1, 0)
	for what, before := range map[string]audit.Head{"ahead": {Seq: 1000}, "alike": {}} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		text, _ := before.Next(nil, &l)
		require.NoError(t, os.WriteFile(path, text, 0o644))
		k := start(t, func(cfg *audit.Config) { cfg.Sinks = []audit.Sink{audit.NewFile(path)} })
		k.put("a")
		k.until(time.Second, "it to be refused", func() bool { return k.Figures().Exports[0].Failed > 0 })
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, got, what)
		require.NoError(t, os.Rename(path, path+".1"))
		k.until(time.Second, "the line", func() bool { return k.Figures().Exports[0].Lag == 0 })
		require.EqualValues(t, 1, verifyFile(t, path).Lines, what)
	}
}

func TestAFileThatOthersCouldReadIsForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	k := start(t, func(cfg *audit.Config) { cfg.Sinks = []audit.Sink{audit.NewFile(path)} })
	k.put("a")
	k.until(0, "the line", func() bool { return k.Figures().Exports[0].Lag == 0 })
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}
