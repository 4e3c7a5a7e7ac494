package kvstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

// fakeLog is a log in memory that fails and waits on request. What it keeps
// outlives the store: open another one on it.
type fakeLog struct {
	entered chan struct{} // gets one for every Append that gate holds up
	gate    chan struct{} // if not nil, Append waits for one
	failed  chan struct{} // closed by broken

	mu         sync.Mutex
	commits    []Commit
	fail       error // of Append
	keeps      bool  // what it failed to append
	down       error // set by broken
	hangs      bool  // as Trouble says
	panics     any   // by Append
	full       error // of Writable, but for deletions
	dead       error // of Writable, for these too
	dropped    kv.Revision
	droppedToo []kv.Revision
	forgot     int // entries
	closed     int
}

func (f *fakeLog) Load(_ context.Context, load Loader) (kv.Revision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var newest kv.Revision
	for i := range f.commits {
		load.Commit(&f.commits[i])
		newest = f.commits[i].Revision
	}
	return newest, nil
}

func (f *fakeLog) Failed() <-chan struct{} { return f.failed }

// broken has the log take nothing more, as if the disk had failed in the background.
func (f *fakeLog) broken(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = why
	close(f.failed)
}

func (f *fakeLog) Append(group []Commit) error {
	if f.gate != nil {
		f.entered <- struct{}{}
		<-f.gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics != nil {
		panic(f.panics)
	}
	if f.fail == nil || f.keeps {
		f.commits = append(f.commits, group...)
	}
	return f.fail
}

func (f *fakeLog) Writable(uses Room) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.down != nil:
		return codes.Errorf(codes.Storage, "the disk has failed: %w", f.down)
	case uses == LastByte:
		return nil
	case f.dead != nil || uses == Reserve:
		return f.dead
	}
	return f.full
}

func (f *fakeLog) Trouble() *health.Trouble {
	f.mu.Lock()
	hangs := f.hangs
	f.mu.Unlock()
	if hangs {
		return &health.Trouble{Kind: health.Hanging, Dir: "data", Since: noon, Err: codes.Errorf(codes.Storage, "the disk hangs")}
	}
	if err := f.Writable(Ordinary); err != nil {
		return &health.Trouble{Kind: health.Full, Since: noon, Err: err}
	}
	return nil
}

func (f *fakeLog) set(fail, full, dead error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.full, f.dead = fail, full, dead
}

func (f *fakeLog) Changes(after kv.Revision, _ int) (list []kv.Change, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.commits {
		if f.commits[i].Revision > after {
			list = append(list, f.commits[i].Change)
		}
	}
	return list, nil
}

// versions is all versions of a key, oldest first.
func (f *fakeLog) versions(ns, key string) (list []*kv.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.commits {
		for _, event := range f.commits[i].Events {
			if event.Entry.NS == ns && event.Entry.Key == key {
				list = append(list, event.Entry)
			}
		}
	}
	return list
}

func (f *fakeLog) GetAt(ns, key string, rev kv.Revision) (found *kv.Entry, err error) {
	for _, e := range f.versions(ns, key) {
		if e.Mod <= rev {
			found = live(e)
		}
	}
	return found, nil
}

func (f *fakeLog) Versions(ns, key string, before kv.Revision, _ int) (h kv.Versions, err error) {
	for _, e := range f.versions(ns, key) {
		if e.Mod < before {
			h.Entries = append([]*kv.Entry{e}, h.Entries...)
		}
	}
	return h, nil
}

func (f *fakeLog) DropTokens(through kv.Revision, others []kv.Revision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped = max(f.dropped, through)
	f.droppedToo = append(f.droppedToo, others...)
}

func (f *fakeLog) Forget(entries []*kv.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot += len(entries)
}

func (f *fakeLog) Damage() *health.Trouble { return nil }

func (f *fakeLog) Copy() (kv.Copy, error) { panic("not asked of this log") }

func (f *fakeLog) Stats() LogStats { return LogStats{DiskBytes: 1, FreeBytes: 2} }

func (f *fakeLog) Identity() string { return "fake" }

func (f *fakeLog) Floors() (changes, versions kv.Revision) { return 3, 0 }

func (f *fakeLog) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

// bench is a store on a fakeLog.
type bench struct {
	testing.TB
	*Store
	disk  *fakeLog
	clock *clocktest.Fake
}

func onFake(t testing.TB, cfg Config) *bench {
	return reopened(t, cfg, &fakeLog{}, clocktest.NewFake(noon))
}

func reopened(t testing.TB, cfg Config, f *fakeLog, c *clocktest.Fake) *bench {
	cfg.Clock = c
	s, err := Open(t.Context(), cfg, f)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &bench{TB: t, Store: s, disk: f, clock: c}
}

type outcome struct {
	result *kv.Result
	err    error
}

func (b *bench) begin(txn *kv.Txn) <-chan outcome {
	b.Helper()
	c := make(chan outcome, 1)
	require.NoError(b, b.Commit(txn, func(r *kv.Result, err error) { c <- outcome{r, err} }))
	return c
}

func (b *bench) do(txn *kv.Txn) (*kv.Result, error) {
	b.Helper()
	o := <-b.begin(txn)
	return o.result, o.err
}

func (b *bench) must(ops ...kv.Op) *kv.Result {
	b.Helper()
	r, err := b.do(&kv.Txn{Then: ops})
	require.NoError(b, err)
	return r
}

func (b *bench) text(ns, key string) string {
	e, _ := b.Get([]byte(ns), []byte(key))
	if e == nil {
		return "-"
	}
	return string(e.Value.Data)
}

// settled returns when the committer has done what was due.
func (b *bench) settled() {
	b.Helper()
	b.must(get("settled"))
	b.must(get("settled")) // what follows a group comes before the next one
}

func put(key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: "a", Key: key, Value: kv.StringValue(text)}
}

func get(key string) kv.Op { return kv.Op{Kind: kv.OpGet, NS: "a", Key: key} }

func del(key string) kv.Op { return kv.Op{Kind: kv.OpDelete, NS: "a", Key: key} }

func incr(key string, by int64) kv.Op { return kv.Op{Kind: kv.OpIncr, NS: "a", Key: key, Delta: by} }

func leased(key string, id kv.LeaseID) kv.Op {
	op := put(key, "leased")
	op.Lease = id
	return op
}

func until(op kv.Op, ttl time.Duration) kv.Op {
	op.TTL = ttl
	return op
}

func grant(ttl time.Duration) kv.Op { return kv.Op{Kind: kv.OpGrant, TTL: ttl} }

func (f *fakeLog) ListArchive(kv.List) (kv.Page, error) {
	panic("not asked of this log")
}
