package confstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// setOps is the order in which nothing can be lost: the file is complete and
// durable before the intent, the intent before the rename, the rename before
// anybody hears of it.
var setOps = []string{
	"create conf/.tmp", "chmod conf/.tmp", "write conf/.tmp", "chtimes conf/.tmp", "fsync conf/.tmp",
	"write data/config.journal", "fsync data/config.journal",
	"rename conf/a.json", "fsync conf/",
	"write data/config.journal", // the mark, which nobody waits for
	"published", "answered",
}

var deleteOps = []string{
	"write data/config.journal", "fsync data/config.journal",
	"remove conf/a.json", "fsync conf/",
	"write data/config.journal",
	"published", "answered",
}

// rig is a store on a file system that can stop or fail at any operation.
type rig struct {
	t     *testing.T
	mem   *atomicfile.Mem
	trace *atomicfile.Trace
	cfg   Config
	store *Store
}

const (
	oldText = `{"v":"old"}`
	newText = `{"v":"new"}`
)

func newRig(t *testing.T) *rig {
	mem, cfg := disk(t)
	require.NoError(t, mem.Put("/srv/conf/a.json", []byte(oldText), time.Unix(1000, 0)))
	r := &rig{t: t, mem: mem, trace: &atomicfile.Trace{FS: mem}, cfg: cfg}
	r.cfg.FS = r.trace
	r.cfg.DiskPatience, r.cfg.RetryPeriod = time.Hour, time.Hour // the order of the steps is what counts
	var err error
	r.store, err = Open(r.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { r.store.Close() })
	r.trace.Reset()
	return r
}

// run does one Set of a.json and returns what happened in order.
func (r *rig) run(req SetRequest) (log []string, err error) {
	r.store.Subscribe(func(*Batch) { log = append(r.ops(), "published") })
	type outcome struct {
		log []string
		err error
	}
	answered := make(chan outcome, 1)
	require.NoError(r.t, r.store.Set(req, func(_ SetResult, err error) {
		if log == nil {
			log = r.ops()
		}
		answered <- outcome{append(log, "answered"), err}
	}))
	out := <-answered
	return out.log, out.err
}

func (r *rig) ops() []string {
	var out []string
	for _, op := range r.trace.Ops() {
		out = append(out, op.String())
	}
	return out
}

// served is what a store says after it was opened on what is left of the disk,
// and whether the file there is the same.
func (r *rig) reopened(mem *atomicfile.Mem) (text string, deleted bool, mtime int32) {
	cfg := r.cfg
	cfg.FS = mem
	s, err := Open(cfg)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, s.Close()) }()
	n := s.Snapshot().Node("a.json")
	require.NotNil(r.t, n)
	require.Empty(r.t, s.Problems())
	file, err := mem.Get("/srv/conf/a.json")
	require.Equal(r.t, n.Deleted(), err != nil)
	if !n.Deleted() {
		require.Equal(r.t, textOf(n, false), strings.Join(strings.Fields(string(file)), ""))
	}
	root, err := mem.OpenRoot("/srv/conf")
	require.NoError(r.t, err)
	entries, err := root.ReadDir(".")
	require.NoError(r.t, err)
	for _, e := range entries {
		require.False(r.t, atomicfile.IsTemp(e.Name()), "a temporary file was left")
	}
	return textOf(n, false), n.Deleted(), n.Mtime(false)
}

var setA = SetRequest{Name: "a.json", Contents: []byte(newText), Mtime: 2000, HasMtime: true}

// exactA is written byte for byte, also when it is a start that finishes it.
var exactA = SetRequest{Name: "a.json", Contents: []byte("{\n\t\"v\" : \"new\"}\r\n"), Exact: true}

func TestSetWritesFsyncsRenamesFsyncsPublishesReplies(t *testing.T) {
	r := newRig(t)
	log, err := r.run(setA)
	require.NoError(t, err)
	require.Equal(t, setOps, log)
}

func TestDeleteRecordsRemovesFsyncsPublishesReplies(t *testing.T) {
	r := newRig(t)
	log, err := r.run(SetRequest{Name: "a.json"})
	require.NoError(t, err)
	require.Equal(t, deleteOps, log)
}

// TestFailureAtEachStepOfSet: the writer is told, nothing is published, the old
// contents are on the disk and stay there across a restart.
func TestFailureAtEachStepOfSet(t *testing.T) {
	for step, op := range setOps[:8] {
		t.Run(op, func(t *testing.T) {
			r := newRig(t)
			seen := 0
			r.trace.Hook = func(atomicfile.Op) error {
				if seen++; seen == step+1 {
					return syscall.ENOSPC
				}
				return nil
			}
			log, err := r.run(setA)
			require.ErrorIs(t, err, codes.Storage)
			require.Equal(t, codes.Storage, codes.Of(err))
			require.NotContains(t, codes.Message(err), "/srv", "no paths for peers")
			require.NotContains(t, log, "published")
			require.Equal(t, oldText, textOf(r.store.Snapshot().Node("a.json"), false))
			require.EqualValues(t, 1000, r.store.Snapshot().Node("a.json").Mtime(false))
			file, err := r.mem.Get("/srv/conf/a.json")
			require.NoError(t, err)
			require.Equal(t, oldText, string(file))

			text, _, mtime := r.reopened(r.mem.Crash(func() bool { return true }))
			require.Equal(t, oldText, text, "what failed does not come back")
			require.EqualValues(t, 1000, mtime)

			r.trace.Hook = nil
			_, err = setNow(t, r.store, setA)
			if strings.HasPrefix(op, "fsync data") {
				require.ErrorIs(t, err, codes.Storage, "after a failed fsync of the journal no write is taken")
				require.NotEmpty(t, r.store.Problems())
				return
			}
			require.NoError(t, err, "the next write works")
			text, _, _ = r.reopened(r.mem.Crash(func() bool { return false }))
			require.Equal(t, newText, text)
		})
	}
}

// TestFailedFsyncOfTheDirectory: the change is durable in the journal, so it
// stands; but nothing more is written.
func TestFailedFsyncOfTheDirectory(t *testing.T) {
	r := newRig(t)
	r.trace.Hook = func(op atomicfile.Op) error {
		if op.String() == "fsync conf/" {
			return syscall.EIO
		}
		return nil
	}
	log, err := r.run(setA)
	require.NoError(t, err)
	require.Contains(t, log, "published")
	_, err = setNow(t, r.store, SetRequest{Name: "b.json", Contents: []byte("1")})
	require.ErrorIs(t, err, codes.Storage)
	require.NotEmpty(t, r.store.Problems())

	require.NoError(t, r.mem.Put("/srv/conf/a.json", []byte(`{"v":"edited"}`), time.Now()))
	r.store.Reload()
	require.Equal(t, `{"v":"edited"}`, textOf(r.store.Snapshot().Node("a.json"), false), "edits go on being served")
	require.NoError(t, r.mem.Drop("/srv/conf/a.json"))
	require.NoError(t, r.mem.Put("/srv/conf/a.json", []byte(oldText), time.Unix(1000, 0)))
	text, _, mtime := r.reopened(r.mem.Crash(func() bool { return false }))
	require.Equal(t, newText, text, "the rename was lost and is done again")
	require.EqualValues(t, 2000, mtime)
}

var errStopped = errors.New("the machine has stopped")

// TestStopAtEachStep stops the machine before each operation of a Set and of a
// delete, keeps or loses what was not fsynced, and opens what is left: the whole
// old document or the whole new one, the new one if it was acknowledged, with its
// version, and never anything in between.
func TestStopAtEachStep(t *testing.T) {
	for name, kind := range map[string]struct {
		req SetRequest
		ops []string
	}{"set": {setA, setOps[:10]}, "exact": {exactA, setOps[:10]}, "delete": {SetRequest{Name: "a.json"}, deleteOps[:5]}} {
		for step := 0; step <= len(kind.ops); step++ {
			for seed := range uint64(12) {
				t.Run(fmt.Sprintf("%s/%d/%d", name, step, seed), func(t *testing.T) { stopAt(t, kind.req, step, seed) })
			}
		}
	}
}

// losses by seed: 0 nothing is lost (the process was killed), 1 everything that
// was not fsynced, else anything.
func losses(seed uint64) func() bool {
	random := rand.New(rand.NewPCG(seed, seed))
	return func() bool { return seed == 0 || seed > 1 && random.IntN(2) == 0 }
}

func stopAt(t *testing.T, req SetRequest, step int, seed uint64) {
	r := newRig(t)
	seen := 0
	r.trace.Hook = func(atomicfile.Op) error {
		if seen++; seen > step {
			return errStopped
		}
		return nil
	}
	log, err := r.run(req)
	acknowledged := err == nil
	left := r.mem.Crash(losses(seed))
	text, deleted, mtime := r.reopened(left)
	isNew := text == newText || deleted
	if acknowledged {
		require.True(t, isNew, "an acknowledged write was lost")
	}
	if slices.Contains(log, "published") {
		require.True(t, isNew)
	}
	if !isNew {
		require.Equal(t, oldText, text)
		require.EqualValues(t, 1000, mtime)
	} else {
		require.Greater(t, mtime, int32(1000))
	}
	if isNew && req.Exact {
		file, err := left.Get("/srv/conf/a.json")
		require.NoError(t, err)
		require.Equal(t, string(req.Contents), string(file))
	}
	textAgain, deletedAgain, mtimeAgain := r.reopened(left)
	require.Equal(t, text, textAgain)
	require.Equal(t, deleted, deletedAgain)
	require.Equal(t, mtime, mtimeAgain)
}

// TestEditBackToTheOldContentsIsNotUndone: the mark in the journal tells it from
// an unfinished write.
func TestEditBackToTheOldContentsIsNotUndone(t *testing.T) {
	r := newRig(t)
	_, err := r.run(setA)
	require.NoError(t, err)
	killed := r.mem.Crash(func() bool { return true })
	require.NoError(t, killed.Put("/srv/conf/a.json", []byte(oldText), time.Unix(1000, 0)))
	text, _, mtime := r.reopened(killed)
	require.Equal(t, oldText, text)
	require.Greater(t, mtime, int32(2000), "it is a new version all the same")
}

// TestDiskFullWhileEditsAreFound: they are served, and remembered as soon as there
// is room.
func TestDiskFullWhileEditsAreFound(t *testing.T) {
	r := newRig(t)
	full := true
	r.trace.Hook = func(op atomicfile.Op) error {
		if full && op.Kind == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	for _, text := range []string{`{"v":"once"}`, `{"v":"edited"}`} {
		require.NoError(t, r.mem.Put("/srv/conf/a.json", []byte(text), time.Unix(900, 0)))
		r.store.Reload()
	}
	n := r.store.Snapshot().Node("a.json")
	require.Equal(t, `{"v":"edited"}`, textOf(n, false))
	require.EqualValues(t, 1002, n.Mtime(false))
	require.NotEmpty(t, r.store.Problems())

	full = false
	_, err := setNow(t, r.store, SetRequest{Name: "b.json", Contents: []byte("1")})
	require.NoError(t, err)
	require.Empty(t, r.store.Problems())
	text, _, mtime := r.reopened(r.mem.Crash(func() bool { return false }))
	require.Equal(t, `{"v":"edited"}`, text)
	require.EqualValues(t, 1002, mtime, "the files alone would give 1001")
}

// TestFailedFsyncOfTheDirectoryKeepsTheIntent: what would make the rename good again at
// the next start must not be tidied away before.
func TestFailedFsyncOfTheDirectoryKeepsTheIntent(t *testing.T) {
	r := newRig(t)
	text := func(i, size int) []byte { return fmt.Appendf(nil, `"%d-%s"`, i, strings.Repeat("x", size)) }
	for i := range 40 {
		_, err := setNow(t, r.store, SetRequest{Name: "a.json", Contents: text(i, 20_000)})
		require.NoError(t, err)
	}
	r.trace.Hook = func(op atomicfile.Op) error {
		if op.String() == "fsync conf/" {
			return syscall.EIO
		}
		return nil
	}
	_, err := setNow(t, r.store, SetRequest{Name: "a.json", Contents: text(40, 300_000)})
	require.NoError(t, err)
	r.trace.Hook = nil
	r.store.Reload() // by then the journal is mostly garbage
	got, _, _ := r.reopened(r.mem.Crash(func() bool { return false }))
	require.True(t, got == string(text(40, 300_000)), "%.20s", got)
}
