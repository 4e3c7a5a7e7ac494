package confstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

const (
	oldText = `{"v":"old"}`
	newText = `{"v":"new"}`
)

// rig is a store on a file system that can stop or fail at any operation, and on a log that
// tells of each transaction.
type rig struct {
	t     *testing.T
	mem   *atomicfiletest.Mem
	trace *atomicfiletest.Trace
	log   *watched
	cfg   Config
	store *Store
}

// watched is a state store that calls hook when a transaction is handed over, and when it is
// durable.
type watched struct {
	*memory.Store
	hook func(what string) error // set before it is used; an error is that of the transaction
	ill  atomic.Pointer[health.Trouble]
	// doubt, unless it is nil, is what those are told whose transactions have taken effect; set
	// while none is under way.
	doubt error
}

func (w *watched) Trouble() *health.Trouble {
	if ill := w.ill.Load(); ill != nil {
		return ill
	}
	return w.Store.Trouble()
}

func (w *watched) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if w.hook == nil {
		return w.Store.Commit(txn, done)
	}
	if err := w.hook("commit"); err != nil {
		return err
	}
	return w.Store.Commit(txn, func(res *kv.Result, err error) {
		_ = w.hook("committed")
		done(res, err)
	})
}

// CommitEach calls hook once for all.
func (w *watched) CommitEach(caller kv.Caller, writes []*kv.Write) (int, error) {
	if w.doubt != nil {
		return w.Store.CommitEach(doubted{caller, w.doubt}, writes)
	}
	if w.hook == nil {
		return w.Store.CommitEach(caller, writes)
	}
	if err := w.hook("commit"); err != nil {
		return 0, err
	}
	return w.Store.CommitEach(hooked{caller, w}, writes)
}

type hooked struct {
	kv.Caller
	w *watched
}

type doubted struct {
	kv.Caller
	err error
}

func (d doubted) Committed(list []*kv.Write) {
	for _, w := range list {
		w.Err = d.err
	}
	d.Caller.Committed(list)
}

func (h hooked) Committed(list []*kv.Write) {
	_ = h.w.hook("committed")
	h.Caller.Committed(list)
}

func newRig(t *testing.T) *rig {
	mem, cfg := memDisk(t)
	require.NoError(t, mem.Put("/srv/conf/a.json", []byte(oldText), time.Unix(1000, 0)))
	r := &rig{t: t, mem: mem, trace: &atomicfiletest.Trace{FS: mem}, cfg: cfg, log: &watched{Store: memory.ForTest(t)}}
	r.cfg.FS, r.cfg.State = r.trace, r.log
	r.cfg.Machine = place.Machine{Boot: "boot", Since: time.Unix(1, 0)}
	r.cfg.DiskPatience, r.cfg.RetryPeriod, r.cfg.SetTimeout = time.Hour, time.Hour, time.Hour // the order of the steps is what counts, and a test may copy the disk at each
	var err error
	r.store, err = Open(r.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { r.store.Close() })
	r.synced()
	r.trace.Reset()
	return r
}

// synced waits until all files are marked as durable.
func (r *rig) synced() {
	r.t.Helper()
	var newest kv.Revision
	for _, name := range r.store.Snapshot().Names() {
		d, err := r.store.writer.log.Document(name)
		require.NoError(r.t, err)
		newest = max(newest, d.Revision)
	}
	require.Eventually(r.t, func() bool {
		root, err := r.mem.OpenRoot("/srv/data")
		require.NoError(r.t, err)
		defer root.Close()
		m, err := place.Open(root, "boot")
		return err == nil && m.Synced() >= newest
	}, patience, time.Millisecond)
}

// background reports whether op is an operation that no one waits for.
func background(op string) bool {
	return strings.Contains(op, place.MarksName) || strings.HasPrefix(op, "fsync conf/") || strings.HasSuffix(op, "data/") || strings.HasSuffix(op, "data/.tmp")
}

// run does one Set of a.json and returns what happened in order.
func (r *rig) run(req SetRequest) (steps []string, err error) {
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if !background(what) {
			steps = append(steps, what)
		}
	}
	hook := r.trace.Rehook(nil)
	r.trace.Rehook(func(op atomicfiletest.Op) error {
		note(op.String())
		if hook != nil {
			return hook(op)
		}
		return nil
	})
	r.log.hook = func(what string) error {
		note(what)
		return nil
	}
	cancel := r.store.Subscribe(func(*snapshot.Batch) { note("published") })
	defer cancel()
	answered := make(chan error, 1)
	require.NoError(r.t, r.store.Set(req, func(_ SetResult, err error) {
		note("answered")
		answered <- err
	}))
	err = <-answered
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(steps), err
}

var setA = SetRequest{Name: "a.json", Contents: []byte(newText), Mtime: 2000, HasMtime: true}

// exactA is written byte for byte, also when it is a start that puts it in place.
var exactA = SetRequest{Name: "a.json", Contents: []byte("{\n\t\"v\" : \"new\"}\r\n"), Exact: true}

func TestSetWritesCommitsRenamesPublishesReplies(t *testing.T) {
	r := newRig(t)
	steps, err := r.run(setA)
	require.NoError(t, err)
	require.Equal(t, []string{
		"create conf/.tmp", "chmod conf/.tmp", "write conf/.tmp", "chtimes conf/.tmp",
		"commit", "committed", "rename conf/a.json", "published", "answered",
	}, steps)
}

func TestDeleteCommitsRemovesPublishesReplies(t *testing.T) {
	r := newRig(t)
	steps, err := r.run(SetRequest{Name: "a.json"})
	require.NoError(t, err)
	require.Equal(t, []string{"commit", "committed", "remove conf/a.json", "published", "answered"}, steps)
}

// The writer is told, nothing is published, the old contents are on the disk and stay there
// across a restart.
func TestFailureBeforeTheCommitOfASet(t *testing.T) {
	for _, op := range []string{"create conf/.tmp", "chmod conf/.tmp", "write conf/.tmp", "chtimes conf/.tmp", "commit"} {
		t.Run(op, func(t *testing.T) {
			r := newRig(t)
			fail := true
			r.trace.Rehook(func(is atomicfiletest.Op) error {
				if is.String() == op && fail {
					return syscall.ENOSPC
				}
				return nil
			})
			if op == "commit" {
				r.log.SetFull(true)
			}
			steps, err := r.run(setA)
			require.Equal(t, codes.Storage, codes.Of(err))
			require.NotContains(t, codes.Message(err), "/srv", "no paths for peers")
			require.NotContains(t, steps, "published")
			require.Equal(t, oldText, textOf(r.store.Snapshot().Node("a.json"), false))
			require.EqualValues(t, 1000, r.store.Snapshot().Node("a.json").Mtime(false))
			file, err := r.mem.Get("/srv/conf/a.json")
			require.NoError(t, err)
			require.Equal(t, oldText, string(file))
			left := r.left("", 0, oldText)
			require.Equal(t, oldText, left.reopened(t), "what failed does not come back")

			fail = false
			r.log.SetFull(false)
			_, err = r.run(setA)
			require.NoError(t, err, "the next write works")
			left = r.left("", 1, newText)
			require.Equal(t, newText, left.reopened(t))
		})
	}
}

// The version stands, is served, and gets into place as soon as that is possible; what is there
// until then is no edit, but what is written there is.
func TestARenameThatFailsIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		req  SetRequest
		op   string
		want string
	}{
		"set":    {setA, "rename conf/a.json", newText},
		"exact":  {exactA, "rename conf/a.json", newText},
		"delete": {SetRequest{Name: "a.json"}, "remove conf/a.json", ""},
	} {
		for _, then := range []string{"", ", edited", ", edited and seen before"} {
			t.Run(name+then, func(t *testing.T) {
				r := newRig(t)
				sick := true
				r.trace.Rehook(func(op atomicfiletest.Op) error {
					if op.String() == c.op && sick {
						return syscall.EIO
					}
					return nil
				})
				_, err := r.run(c.req)
				require.NoError(t, err)
				n := r.store.Snapshot().Node("a.json")
				r.store.Reload()
				require.Same(t, n, r.store.Snapshot().Node("a.json"), "the old file is no edit")
				require.Len(t, r.store.Problems(), 1)
				require.Equal(t, "a.json", r.store.Problems()[0].Name)
				require.Contains(t, r.store.Problems()[0].Text, "its new version is served")
				left := r.left("", 0, c.want)
				require.Equal(t, c.want, left.reopened(t))

				want := c.want
				if then != "" {
					want = `{"v":"edited"}`
					require.NoError(t, r.mem.Put("/srv/conf/a.json", []byte(want), time.Unix(3000, 0)))
				}
				if then == ", edited and seen before" {
					r.store.Reload()
				}
				sick = false
				k := &kit{t: t, Store: r.store}
				k.inside(func() { r.store.intake.retryPlacing() })
				r.store.Reload()
				require.Empty(t, r.store.Problems())
				require.Equal(t, want == "", r.store.Snapshot().Node("a.json").Deleted())
				left = r.left("", 0, want)
				require.Equal(t, want, left.reopened(t))
			})
		}
	}
}

// moment is what is left of a run that ends at that moment.
type moment struct {
	cfg   Config
	mem   *atomicfiletest.Mem
	label string
	may   []string // what may be there: texts, "" for a deleted document
}

// left is a moment. seed 0: the process is killed; 1: power is lost with everything that was not
// made durable; others: with any of it.
func (r *rig) left(label string, seed uint64, may ...string) *moment {
	m := &moment{cfg: r.cfg, label: fmt.Sprint(label, " ", seed), may: may}
	m.mem = r.mem.Crash(losses(seed))
	engine := r.log.Clone()
	r.t.Cleanup(func() { engine.Close() })
	m.cfg.FS, m.cfg.State = m.mem, engine
	if seed > 0 {
		m.cfg.Machine = place.Machine{Boot: "another", Since: time.Now().Add(time.Hour)}
	}
	return m
}

// losses by seed: 0 nothing is lost, 1 everything that was not fsynced, else anything.
func losses(seed uint64) func() bool {
	random := rand.New(rand.NewPCG(seed, seed))
	return func() bool { return seed == 0 || seed > 1 && random.IntN(2) == 0 }
}

// reopened is what a store serves that is opened on what is left. The file on the disk is the
// same, nothing lies about, and another start finds nothing to do.
func (m *moment) reopened(t *testing.T) (text string) {
	t.Helper()
	versions := int64(0)
	for i := range 2 {
		s, err := Open(m.cfg)
		require.NoError(t, err, m.label)
		require.Empty(t, s.Problems(), m.label)
		n := s.Snapshot().Node("a.json")
		require.NotNil(t, n, m.label)
		if text = textOf(n, false); n.Deleted() {
			text = ""
		}
		d, err := s.writer.log.Document("a.json")
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, versions, d.N, m.label)
		}
		versions = d.N
		file, err := m.mem.Get("/srv/conf/a.json")
		require.Equal(t, n.Deleted(), err != nil, m.label)
		if !n.Deleted() {
			require.Equal(t, text, strings.Join(strings.Fields(string(file)), ""), m.label)
			require.Equal(t, d.Hash, log.DigestOf(file), m.label)
		}
		root, err := m.mem.OpenRoot("/srv/conf")
		require.NoError(t, err)
		entries, err := root.ReadDir(".")
		require.NoError(t, err)
		for _, e := range entries {
			require.False(t, atomicfile.IsTemp(e.Name()), "%s: a temporary file was left", m.label)
		}
		require.NoError(t, s.Close())
	}
	return text
}

// interleaved notes what is left at each operation of the disk and of the log.
type interleaved struct {
	*rig
	mu      sync.Mutex
	may     []string
	moments []*moment
}

func (i *interleaved) note(label string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for seed := range uint64(5) {
		i.moments = append(i.moments, i.left(label, seed, slices.Clone(i.may)...))
	}
}

// step does something that leads to text.
func (i *interleaved) step(text string, do func()) {
	set := func(may ...string) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.may = may
	}
	set(i.may[len(i.may)-1], text)
	do()
	set(text)
	i.note("afterwards")
}

func (i *interleaved) set(req SetRequest, text string) {
	i.step(text, func() {
		_, err := setNow(i.t, i.store, req)
		require.NoError(i.t, err)
	})
}

// edit changes the file, and has that found.
func (i *interleaved) edit(text string, mtime int64) {
	i.step(text, func() {
		if text == "" {
			require.NoError(i.t, i.mem.Drop("/srv/conf/a.json"))
		} else {
			require.NoError(i.t, i.mem.Put("/srv/conf/a.json", []byte(text), time.Unix(mtime, 0)))
		}
		i.store.Reload()
	})
}

func TestEditBackToTheOldContentsIsNotUndone(t *testing.T) {
	r := newRig(t)
	_, err := r.run(setA)
	require.NoError(t, err)
	r.synced()
	for seed := range uint64(2) {
		m := r.left("", seed, oldText)
		require.NoError(t, m.mem.Put("/srv/conf/a.json", []byte(oldText), time.Unix(1000, 0)))
		require.Equal(t, oldText, m.reopened(t))
	}
}

// They are served, and remembered as soon as there is room.
func TestDiskFullWhileEditsAreFound(t *testing.T) {
	r := newRig(t)
	r.log.SetFull(true)
	for _, text := range []string{`{"v":"once"}`, `{"v":"edited"}`} {
		require.NoError(t, r.mem.Put("/srv/conf/a.json", []byte(text), time.Unix(900, 0)))
		r.store.Reload()
	}
	n := r.store.Snapshot().Node("a.json")
	require.Equal(t, `{"v":"edited"}`, textOf(n, false))
	require.EqualValues(t, 1002, n.Mtime(false))
	require.NotEmpty(t, r.store.Problems())
	require.ErrorIs(t, r.store.Remembered("a.json"), codes.Busy)
	require.NoError(t, r.store.Remembered("none.json"))
	_, err := changeNow(t, r.store, change.Request{Documents: []change.Document{write("b.json", "1")}, Behind: r.store.writer.known + 1})
	require.ErrorIs(t, err, codes.Conflict, "whoever has looked at all documents in the log has missed one")

	r.log.SetFull(false)
	_, err = setNow(t, r.store, SetRequest{Name: "b.json", Contents: []byte("1")})
	require.NoError(t, err)
	require.Empty(t, r.store.Problems())
	require.NoError(t, r.store.Remembered("a.json"))
	d, err := r.store.writer.log.Document("a.json")
	require.NoError(t, err)
	require.EqualValues(t, 1002, d.Served, "the files alone would give 1001")
	require.Equal(t, `{"v":"edited"}`, r.left("", 1).reopened(t))
}
