package confstore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore/memory"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is an open store in a directory of its own, with everything a test does to
// it.
type kit struct {
	*Store
	t       testing.TB
	cfg     Config
	batches chan *snapshot.Batch
}

// newKit opens a store on a new directory with files already in it.
func newKit(t testing.TB, files map[string]string) *kit {
	base := t.TempDir()
	cfg := Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data")}
	require.NoError(t, os.Mkdir(cfg.Dir, 0o755))
	k := &kit{t: t, cfg: cfg}
	for name, text := range files {
		k.put(name, text)
	}
	k.open()
	return k
}

func (k *kit) open() {
	if k.cfg.State == nil {
		k.cfg.State = memory.ForTest(k.t)
	}
	s, err := Open(k.cfg)
	require.NoError(k.t, err)
	k.Store = s
	k.batches = make(chan *snapshot.Batch, 10_000)
	batches := k.batches
	s.Subscribe(func(b *snapshot.Batch) { batches <- b })
	k.t.Cleanup(func() { s.Close() })
}

func (k *kit) reopen() {
	require.NoError(k.t, k.Close())
	k.open()
}

func (k *kit) path(name string) string { return filepath.Join(k.cfg.Dir, name) }

// put writes a file in place, as a careless program does.
func (k *kit) put(name, text string) {
	require.NoError(k.t, os.MkdirAll(filepath.Dir(k.path(name)), 0o755))
	require.NoError(k.t, os.WriteFile(k.path(name), []byte(text), 0o644))
}

// touch sets a file's time to seconds since 1970.
func (k *kit) touch(name string, seconds int64) {
	t := time.Unix(seconds, 0)
	require.NoError(k.t, os.Chtimes(k.path(name), t, t))
}

// next waits for a batch.
func (k *kit) next() *snapshot.Batch {
	k.t.Helper()
	select {
	case b := <-k.batches:
		return b
	case <-time.After(patience):
		require.FailNow(k.t, "no batch came", "problems: %v\n%s", k.Problems(), k.waits())
		return nil
	}
}

// all takes batches until each of want has changed and nothing else has. For what
// happens on the disk in several steps, which a busy machine may draw out.
func (k *kit) all(want ...string) {
	k.t.Helper()
	missing := map[string]bool{}
	for _, name := range want {
		missing[name] = true
	}
	for len(missing) > 0 {
		for _, name := range names(k.next()) {
			require.True(k.t, missing[name], name)
			delete(missing, name)
		}
	}
}

// none checks that no batch has come, also not by reading everything again.
func (k *kit) none() {
	k.t.Helper()
	k.Reload()
	select {
	case b := <-k.batches:
		require.FailNow(k.t, "a batch that should not be", "%+v", b.Changes)
	default:
	}
}

// await takes batches until cond holds.
func (k *kit) await(what string, cond func() bool) {
	k.t.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !cond() {
		select {
		case <-poll.C:
		case <-deadline:
			require.FailNow(k.t, "waited in vain for "+what, "problems: %v", k.Problems())
		}
	}
}

func (k *kit) set(req SetRequest) (SetResult, error) {
	k.t.Helper()
	return setNow(k.t, k.Store, req)
}

type setOutcome struct {
	SetResult
	err error
}

func setNow(t testing.TB, s *Store, req SetRequest) (SetResult, error) {
	t.Helper()
	done := make(chan setOutcome, 1)
	if err := s.Set(req, func(r SetResult, err error) { done <- setOutcome{r, err} }); err != nil {
		return SetResult{}, err
	}
	select {
	case o := <-done:
		return o.SetResult, o.err
	case <-time.After(patience):
		require.FailNow(t, "Set was not answered")
		return SetResult{}, nil
	}
}

func (k *kit) mustSet(name, text string) SetResult {
	k.t.Helper()
	r, err := k.set(SetRequest{Name: name, Contents: []byte(text)})
	require.NoError(k.t, err)
	return r
}

// text is the contents served for name, "" if it is unknown.
func (k *kit) text(name string) string { return textOf(k.Snapshot().Find([]byte(name)), false) }

func (k *kit) merged(name string) string { return textOf(k.Snapshot().Find([]byte(name)), true) }

func textOf(n *snapshot.Node, inherit bool) string {
	if n == nil {
		return ""
	}
	text, ready := n.Contents(inherit)
	if !ready {
		n.Prepare(inherit, false)
		text, _ = n.Contents(inherit)
	}
	return string(text)
}

func (k *kit) mtime(name string) int32 {
	k.t.Helper()
	n := k.Snapshot().Node(name)
	require.NotNil(k.t, n, name)
	return n.Mtime(false)
}

// names are those of the changes in a batch, in order.
func names(b *snapshot.Batch) []string {
	var out []string
	for _, c := range b.Changes {
		out = append(out, c.Name)
	}
	return out
}

// memDisk is a file system in memory with a store's two directories.
func memDisk(t testing.TB) (*atomicfiletest.Mem, Config) {
	m := atomicfiletest.NewMem(nil)
	m.MakeDir("/srv/conf")
	m.MakeDir("/srv/data")
	return m, Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: m, State: memory.ForTest(t)}
}

// held reports whether the store waits for a git command.
func (k *kit) held() bool {
	var is bool
	k.inside(func() { is = !k.intake.settle.git.since.IsZero() })
	return is
}

// inside runs fn on the store's goroutine: done of a write that is refused is
// called there.
func (k *kit) inside(fn func()) {
	done := make(chan struct{})
	require.NoError(k.t, k.Set(SetRequest{Name: "x.json", Contents: []byte("{")}, func(SetResult, error) {
		fn()
		close(done)
	}))
	<-done
}

// remember has the log know v at the next start.
func (k *kit) remember(v log.Version) {
	k.inside(func() {
		_, err := k.writer.log.Commit(k.t.Context(), []log.Change{{Seq: v.Seq, Versions: []log.Version{v}}})
		require.NoError(k.t, err)
	})
}

// drainedNone is none after batches that were not looked at.
func (k *kit) drainedNone() {
	k.t.Helper()
	k.inside(func() {}) // a snapshot can be seen before its batch comes
	for len(k.batches) > 0 {
		<-k.batches
	}
	k.none()
}

// noon is when the deterministic tests play.
var noon = time.Unix(1_700_000_000, 0)

// newMemKit opens a store on a disk in memory whose clock stands at noon. Files
// are changed with edit and remove.
func newMemKit(t testing.TB, files map[string]string) *memKit {
	m := &memKit{kit: &kit{t: t}}
	m.prepare(files)
	m.open()
	return m
}

// prepare makes the disk, with files, for a store that is not open yet.
func (m *memKit) prepare(files map[string]string) {
	m.clock = clocktest.NewFake(noon)
	m.mem = atomicfiletest.NewMem(m.clock.Now)
	m.mem.MakeDir("/srv/conf")
	m.mem.MakeDir("/srv/data")
	m.cfg = Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: m.mem, Clock: m.clock}
	for name, text := range files {
		m.write(name, text, 1000)
	}
}

type memKit struct {
	*kit
	mem   *atomicfiletest.Mem
	clock *clocktest.Fake
}

// write puts a file with an mtime and leaves it to be found.
func (m *memKit) write(name, text string, mtime int64) {
	m.t.Helper()
	m.mem.MakeDir(filepath.Dir(m.path(name)))
	require.NoError(m.t, m.mem.Put(m.path(name), []byte(text), time.Unix(mtime, 0)))
}

// edit puts a file and has it found.
func (m *memKit) edit(name, text string, mtime int64) {
	m.t.Helper()
	m.write(name, text, mtime)
	m.Reload()
}

// remove takes a file away and has that found.
func (m *memKit) remove(name string) {
	m.t.Helper()
	require.NoError(m.t, m.mem.Drop(m.path(name)))
	m.Reload()
}

func (m *memKit) file(name string) string {
	m.t.Helper()
	text, err := m.mem.Get(m.path(name))
	require.NoError(m.t, err)
	return string(text)
}

// resolved is the version of name with its bases.
func (m *memKit) resolved(name string) int32 { return m.Snapshot().Node(name).Mtime(true) }

// setAt sets with an mtime.
func (m *memKit) setAt(name, text string, mtime int32) (SetResult, error) {
	m.t.Helper()
	req := SetRequest{Name: name, Mtime: mtime, HasMtime: true}
	if text != "" {
		req.Contents = []byte(text)
	}
	return m.set(req)
}

// state is what the store waits for, to explain a test that failed.
func (k *kit) waits() (text string) {
	k.inside(func() {
		text = fmt.Sprintf("now %v\nsettling %+v", k.Store.cfg.Clock.Now(), k.intake.settle)
	})
	return text
}

// emptyRoot is what is left open of a directory that was removed.
func (m *memKit) emptyRoot() atomicfile.Root {
	m.mem.MakeDir("/removed")
	root, err := m.mem.OpenRoot("/removed")
	require.NoError(m.t, err)
	return root
}

// ReadFile is Look without what is wrong with the file.
func (k *kit) ReadFile(name string, room func(int64) error) ([]byte, error) {
	file, _, err := k.Look(name, room)
	return file, err
}

// Fault is why a file was never good, or "".
func (k *kit) Fault(name string) string {
	if broken := k.NeverGood([]byte(name)); broken != nil {
		return broken.Reason
	}
	return ""
}

// anySize is room for a file of any size.
func anySize(int64) error { return nil }
