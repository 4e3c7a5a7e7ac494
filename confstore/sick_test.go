package confstore

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/place"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/health"
	"confcenter/kvstore/memory"
)

// sickDisk is a disk on which what changes anything in one directory fails, hangs or panics
// for a while.
type sickDisk struct {
	atomicfile.FS
	dir string

	mu   sync.Mutex
	does func(what string) error // guarded by mu; nil: the disk is well
}

// with has the disk do fn instead of what it is asked.
func (d *sickDisk) with(fn func(what string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.does = fn
}

func (d *sickDisk) asked(what string) error {
	d.mu.Lock()
	fn := d.does
	d.mu.Unlock()
	if fn == nil {
		return nil
	}
	return fn(what)
}

// hangs has everything that writes wait until thaw is called, and tells when a write has begun to: the
// files and marks that are made durable in the background belong to no write.
func (d *sickDisk) hangs() (waits <-chan struct{}, thaw func()) {
	begun, thawed := make(chan struct{}, 1), make(chan struct{})
	d.with(func(what string) error {
		if what == "commit" || what == "hold" || what == "open" && d.dir == sickConf {
			select {
			case begun <- struct{}{}:
			default:
			}
		}
		<-thawed
		return nil
	})
	return begun, func() {
		d.with(nil)
		close(thawed)
	}
}

func always(err error) func(string) error { return func(string) error { return err } }

func (d *sickDisk) OpenRoot(dir string) (atomicfile.Root, error) {
	root, err := d.FS.OpenRoot(dir)
	if err != nil || dir != d.dir {
		return root, err
	}
	return sickRoot{root, d}, nil
}

type sickRoot struct {
	atomicfile.Root
	disk *sickDisk
}

func (r sickRoot) OpenFile(name string, flag int, perm fs.FileMode) (atomicfile.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		if err := r.disk.asked("open"); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	f, err := r.Root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return sickFile{f, r.disk}, nil
}

func (r sickRoot) Rename(oldname, newname string) error {
	if err := r.disk.asked("rename"); err != nil {
		return err
	}
	return r.Root.Rename(oldname, newname)
}

func (r sickRoot) Remove(name string) error {
	if err := r.disk.asked("remove"); err != nil {
		return err
	}
	return r.Root.Remove(name)
}

func (r sickRoot) SyncDir(name string) error {
	if err := r.disk.asked("fsync"); err != nil {
		return err
	}
	return r.Root.SyncDir(name)
}

func (r sickRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := r.disk.asked("list"); err != nil {
		return nil, err
	}
	return r.Root.ReadDir(name)
}

// Lock needs a file that can be read only.
func (r sickRoot) Lock(name string) (io.Closer, error) { return r.Root.Lock(name) }

type sickFile struct {
	atomicfile.File
	disk *sickDisk
}

func (f sickFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.disk.asked("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f sickFile) Truncate(size int64) error {
	if err := f.disk.asked("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f sickFile) Sync() error {
	if err := f.disk.asked("fsync"); err != nil {
		return err
	}
	return f.File.Sync()
}

// patient is a store on a disk in memory that can fall ill, and that is impatient with it.
type patient struct {
	*kit
	mem  *atomicfiletest.Mem
	disk *sickDisk
	log  *watched // its disk is that of the data directory
}

// commits is what the disk makes of a transaction.
func (d *sickDisk) commits(what string) error {
	if what != "commit" {
		return nil
	}
	if err := d.asked(what); err != nil {
		return codes.Errorf(codes.Storage, "the data directory cannot be written: %w", err)
	}
	return nil
}

func newPatient(t *testing.T, sickDir string) *patient {
	mem, cfg := memDisk(t)
	p := &patient{kit: &kit{t: t, cfg: cfg}, mem: mem, disk: &sickDisk{FS: mem, dir: sickDir}}
	p.cfg.FS = p.disk
	log := &watched{Store: memory.ForTest(t)}
	if sickDir == sickData {
		log.hook = p.disk.commits
	}
	p.log, p.cfg.State = log, log
	p.cfg.Machine = place.Machine{Boot: "boot", Since: time.Unix(1, 0)}
	p.cfg.DiskPatience, p.cfg.RetryPeriod, p.cfg.SetTimeout = 5*time.Millisecond, time.Millisecond, time.Minute
	p.put("a.json", oldText)
	return p
}

func (p *patient) put(name, text string) {
	require.NoError(p.t, p.mem.Put("/srv/conf/"+name, []byte(text), time.Unix(1000, 0)))
}

// edit puts a file, has it found, and returns its version.
func (p *patient) edit(name, text string) int32 {
	p.t.Helper()
	p.put(name, text)
	p.Reload()
	require.Equal(p.t, text, p.text(name))
	return p.mtime(name)
}

func (p *patient) recovers() {
	p.t.Helper()
	p.await("the store to take writes again", func() bool { return p.Trouble() == nil })
}

// left opens what a stop now would leave.
func (p *patient) left(lose bool) *kit {
	p.t.Helper()
	k := &kit{t: p.t, cfg: p.cfg}
	k.cfg.FS = p.mem.Crash(func() bool { return !lose })
	engine := p.log.Clone()
	p.t.Cleanup(func() { engine.Close() })
	k.cfg.State = engine
	if lose {
		k.cfg.Machine = place.Machine{Boot: "another", Since: time.Now().Add(time.Hour)}
	}
	k.open()
	return k
}

const (
	sickConf = "/srv/conf"
	sickData = "/srv/data"
)

// What waits for the disk goes on when it answers; callers are told before.
func TestADataDiskThatHangsHoldsUpWritesAndEdits(t *testing.T) {
	p := newPatient(t, sickData)
	p.cfg.SetTimeout = 500 * time.Millisecond
	p.open()
	waits, thaw := p.disk.hangs()
	begun, queued := make(chan error, 1), make(chan error, 1)
	require.NoError(t, p.Set(setA, func(_ SetResult, err error) { begun <- err }))
	<-waits // on a busy machine the disk may have been late before, and then nothing would be begun yet
	p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil && p.Trouble().Dir == sickData })
	require.NoError(t, p.Set(SetRequest{Name: "b.json", Contents: []byte("1")}, func(_ SetResult, err error) { queued <- err }))
	trouble := p.Trouble()
	require.Equal(t, health.Hanging, trouble.Kind)
	require.Equal(t, sickData, trouble.Dir)
	require.False(t, trouble.Restart)
	require.ErrorContains(t, trouble.Err, "data directory")
	p.put("c.json", `{"v":"edited"}`)

	err := <-begun
	require.Equal(t, codes.Timeout, codes.Of(err), "it may still happen")
	require.ErrorContains(t, err, "not known")
	err = <-queued
	require.Equal(t, codes.Storage, codes.Of(err), "it cannot happen any more")
	require.ErrorContains(t, err, "nothing was written")
	require.Equal(t, oldText, p.text("a.json"), "memory is read")

	thaw()
	p.recovers()
	p.Reload()
	require.Empty(t, p.Problems())
	require.Equal(t, newText, p.text("a.json"))
	require.Equal(t, `{"v":"edited"}`, p.text("c.json"))
	require.Empty(t, p.text("b.json"))
	for _, lose := range []bool{true, false} {
		k := p.left(lose)
		require.Equal(t, newText, k.text("a.json"))
		require.Equal(t, p.mtime("c.json"), k.mtime("c.json"))
		require.NoError(t, k.Close())
	}
}

func TestWritesThatADiskHoldsUpForALittleAreCarriedOut(t *testing.T) {
	p := newPatient(t, sickData)
	p.open()
	waits, thaw := p.disk.hangs()
	answers := make(chan error, 3)
	for _, name := range []string{"a.json", "b.json", "c.json"} {
		require.NoError(t, p.Set(SetRequest{Name: name, Contents: []byte(newText)}, func(_ SetResult, err error) { answers <- err }))
	}
	<-waits
	p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil })
	thaw()
	for range 3 {
		require.NoError(t, <-answers)
	}
	k := p.left(true)
	for _, name := range []string{"a.json", "b.json", "c.json"} {
		require.Equal(t, newText, p.text(name))
		require.Equal(t, newText, k.text(name))
		require.Equal(t, p.mtime(name), k.mtime(name))
	}
}

// A stop while the disk hangs leaves the old or the new.
func TestStopWhileTheDataDiskHangs(t *testing.T) {
	p := newPatient(t, sickData)
	p.cfg.SetTimeout = 500 * time.Millisecond
	p.open()
	waits, thaw := p.disk.hangs()
	answer := make(chan error, 1)
	require.NoError(t, p.Set(setA, func(_ SetResult, err error) { answer <- err }))
	<-waits
	p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil })
	p.cfg.FS = p.mem
	for _, lose := range []bool{true, false} {
		k := p.left(lose)
		require.Contains(t, []string{oldText, newText}, k.text("a.json"))
		require.NoError(t, k.Close())
	}
	require.Equal(t, codes.Timeout, codes.Of(p.Close()))
	require.Equal(t, codes.Timeout, codes.Of(<-answer))
	thaw()
	p.owner.Wait()
}

// The supervisor of the process must not have to kill it.
func TestAStopDoesNotWaitForEverForADiskThatHangs(t *testing.T) {
	for _, dir := range []string{sickConf, sickData} {
		p := newPatient(t, dir)
		p.cfg.SetTimeout = 50 * time.Millisecond
		p.open()
		waits, thaw := p.disk.hangs()
		answer := make(chan error, 1)
		require.NoError(t, p.Set(setA, func(_ SetResult, err error) { answer <- err }))
		<-waits
		p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil })
		<-answer
		err := p.Close()
		require.Equal(t, codes.Timeout, codes.Of(err))
		require.ErrorContains(t, err, dir)
		thaw()
		p.owner.Wait()
	}
}

func TestConfDiskThatHangsIsToldAndHoldsUpNobodyForLong(t *testing.T) {
	p := newPatient(t, sickConf)
	p.cfg.SetTimeout = 500 * time.Millisecond
	p.open()
	waits, thaw := p.disk.hangs()
	begun, queued := make(chan error, 1), make(chan error, 1)
	require.NoError(t, p.Set(setA, func(_ SetResult, err error) { begun <- err }))
	<-waits // on a busy machine the disk may have been late before, and then nothing would be begun yet
	p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil })
	require.NoError(t, p.Set(SetRequest{Name: "b.json", Contents: []byte("1")}, func(_ SetResult, err error) { queued <- err }))
	require.Equal(t, health.Hanging, p.Trouble().Kind)
	require.Equal(t, sickConf, p.Trouble().Dir)
	require.Equal(t, codes.Timeout, codes.Of(<-begun))
	require.Equal(t, codes.Storage, codes.Of(<-queued))
	require.Equal(t, oldText, p.text("a.json"))
	thaw()
	p.recovers()
	p.await("the write that was under way", func() bool { return p.text("a.json") == newText })
	p.mustSet("c.json", `3`)
	require.Empty(t, p.text("b.json"))
}

func TestDataDirectoryThatCannotBeWrittenForAWhile(t *testing.T) {
	for name, row := range map[string]struct {
		sick func(what string) error
		kind health.Kind
	}{
		"read-only":   {always(syscall.EROFS), health.ReadOnly},
		"write error": {always(syscall.EIO), health.Failed},
		"full":        {always(syscall.ENOSPC), health.Full},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t, sickData)
			p.open()
			p.mustSet("other.json", `1`)
			p.disk.with(row.sick)
			var trouble *health.Trouble // on the store's goroutine: it tries again soon, and then nothing is missing
			answer := make(chan error, 1)
			require.NoError(t, p.Set(SetRequest{Name: "b.json", Contents: []byte("1")}, func(_ SetResult, err error) {
				trouble = p.Trouble()
				answer <- err
			}))
			err := <-answer
			require.Equal(t, codes.Storage, codes.Of(err))
			require.ErrorContains(t, err, "data directory")
			require.NotContains(t, codes.Message(err), "/srv", "no paths for peers")
			require.Equal(t, row.kind, trouble.Kind)
			require.Equal(t, sickData, trouble.Dir)
			p.edit("a.json", `{"v":"once"}`)
			since := p.Trouble().Since
			version := p.edit("a.json", `{"v":"edited"}`)
			require.Equal(t, since, p.Trouble().Since)
			require.Len(t, p.Problems(), 1)

			p.disk.with(nil)
			p.recovers()
			require.Empty(t, p.Problems())
			k := p.left(true)
			require.Equal(t, version, k.mtime("a.json"), "it is remembered without a further write")
			p.mustSet("b.json", `2`)
			k = p.left(true)
			require.Equal(t, `{"v":"edited"}`, k.text("a.json"))
			require.Equal(t, "2", k.text("b.json"))
			require.Equal(t, "1", k.text("other.json"))
		})
	}
}

// TestVersionsThatWereServedButNotRememberedDoNotFall: clients that have them must fetch what
// comes after a restart.
func TestVersionsThatWereServedButNotRememberedDoNotFall(t *testing.T) {
	p := newPatient(t, sickData)
	p.open()
	p.disk.with(always(syscall.EIO))
	var served int32
	for _, text := range []string{`1`, `2`, `3`} { // all in the same second
		served = p.edit("a.json", text)
	}
	k := p.left(false)
	require.GreaterOrEqual(t, k.mtime("a.json"), served)
}

func TestStartOnADataDirectoryThatCanOnlyBeRead(t *testing.T) {
	p := newPatient(t, sickData)
	p.open()
	p.mustSet("a.json", `{"v":1}`)
	p.mustSet("gone.json", `1`)
	_, err := p.set(SetRequest{Name: "gone.json"})
	require.NoError(t, err)
	version, epoch := p.mtime("a.json"), p.Epoch()
	require.NoError(t, p.Close())
	p.disk.with(always(syscall.EROFS))
	p.put("c.json", `1`)
	p.open()
	require.Equal(t, epoch, p.Epoch())
	require.Equal(t, `{"v":1}`, p.text("a.json"))
	require.Equal(t, version, p.mtime("a.json"))
	require.True(t, p.Snapshot().Node("gone.json").Deleted())
	require.Equal(t, "1", p.text("c.json"))
	require.Equal(t, health.ReadOnly, p.Trouble().Kind)
	_, err = p.set(SetRequest{Name: "b.json", Contents: []byte("1")})
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "read-only")

	p.disk.with(nil)
	p.recovers()
	p.mustSet("b.json", `2`)
	k := p.left(true)
	require.Equal(t, epoch, k.Epoch())
	require.Equal(t, "2", k.text("b.json"))
	require.Equal(t, "1", k.text("c.json"))
}

func TestConfDirectoryThatCannotBeWrittenRefusesSetsAndIsWatched(t *testing.T) {
	p := newPatient(t, sickConf)
	p.open()
	p.disk.with(func(what string) error { return map[string]error{"open": syscall.EROFS}[what] })
	_, err := p.set(setA)
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "configuration directory")
	require.ErrorContains(t, err, "read-only")
	p.edit("a.json", `{"v":"edited"}`)
	require.Nil(t, p.Trouble(), "many are mounted so on purpose")
	p.disk.with(nil)
	p.mustSet("a.json", newText)
}

// A version whose file cannot be put in place does not keep a server from starting, and is served.
func TestUnfinishedWriteInAConfDirectoryThatCannotBeWritten(t *testing.T) {
	p := newPatient(t, sickConf)
	p.cfg.DiskPatience = time.Hour // the step before, the log, may be slow on a busy machine
	p.open()
	p.disk.with(func(what string) error {
		if what == "rename" {
			panic("the process stops here")
		}
		return nil
	})
	_, err := p.set(setA)
	require.Equal(t, codes.Timeout, codes.Of(err))
	p.mem = p.mem.Crash(func() bool { return false })
	p.disk = &sickDisk{FS: p.mem, dir: sickConf}
	p.cfg.FS = p.disk
	p.disk.with(func(what string) error { return map[string]error{"open": syscall.EROFS}[what] })
	p.open()
	require.Equal(t, newText, p.text("a.json"))
	require.Len(t, p.Problems(), 1)
	p.disk.with(nil)
	p.await("the file to be written", func() bool { return len(p.Problems()) == 0 })
	k := p.left(true)
	require.Equal(t, newText, k.text("a.json"))
	require.Equal(t, p.mtime("a.json"), k.mtime("a.json"))
}

func TestConfDirectoryThatIsGoneIsTold(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`})
	require.NoError(t, os.Rename(k.cfg.Dir, k.cfg.Dir+".away"))
	k.await("the trouble", func() bool { return k.Trouble() != nil })
	require.Equal(t, health.Missing, k.Trouble().Kind)
	require.Equal(t, k.cfg.Dir, k.Trouble().Dir)
	_, err := k.set(SetRequest{Name: "b.json", Contents: []byte("1")})
	require.ErrorContains(t, err, "gone")
	require.Equal(t, "1", k.text("a.json"))
	require.NoError(t, os.Rename(k.cfg.Dir+".away", k.cfg.Dir))
	k.await("the directory to be seen", func() bool { return k.Trouble() == nil })
	k.mustSet("b.json", `2`)
}

// TestAPanicStopsWritingAsAFailedDiskDoes, wherever it is: what is in memory is served.
func TestAPanicStopsWritingAsAFailedDiskDoes(t *testing.T) {
	planted := func(at string) func(string) error {
		return func(what string) error {
			if what == at {
				panic("planted")
			}
			return nil
		}
	}
	for name, row := range map[string]struct {
		dir   string
		plant func(p *patient)
	}{
		"recorder":  {sickData, func(p *patient) { p.disk.with(planted("commit")) }},
		"writer":    {sickConf, func(p *patient) { p.disk.with(planted("rename")) }},
		"publisher": {sickConf, func(p *patient) { p.Subscribe(func(*snapshot.Batch) { panic("planted") }) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t, row.dir)
			var log syncBuffer
			p.cfg.Log = zerolog.New(&log)
			p.cfg.ScanPeriod = 50 * time.Millisecond
			p.open()
			row.plant(p)
			_, err := p.set(setA)
			require.Contains(t, []codes.Code{codes.Storage, codes.Timeout}, codes.Of(err))
			p.await("the trouble", func() bool { return p.Trouble() != nil })
			require.Equal(t, health.Stopped, p.Trouble().Kind)
			require.True(t, p.Trouble().Restart)
			require.Contains(t, log.String(), "planted")
			require.Contains(t, log.String(), "sick_test.go", "the stack")
			require.EqualValues(t, 1, p.Stats().Panics)
			_, err = p.set(SetRequest{Name: "b.json", Contents: []byte("1")})
			require.Equal(t, codes.Storage, codes.Of(err))
			require.ErrorContains(t, err, "restart")
			p.Reload()
			require.NotEmpty(t, p.text("a.json"))
			require.NoError(t, p.Close())
		})
	}
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
