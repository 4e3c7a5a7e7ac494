package confstore

import (
	"cmp"
	"math"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/confstore/change"
	"confcenter/confstore/place"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/internal/memory"
	"confcenter/internal/watch"
	"confcenter/kv"
)

// State is a state store that can say what is wrong with its disk.
type State interface {
	kv.Archive
	// Trouble is why it takes no writes, or not all; nil if it takes them. It is cheap.
	Trouble() *health.Trouble
}

// MaxFile is how many bytes a file may have, unless Config says otherwise.
const MaxFile = 16 << 20

// Config says where a Store lives and how patient it is. Only Dir, DataDir and
// State are necessary; the zero value of everything else means its default.
//
// wide: settings, each with a default.
type Config struct {
	// Dir is the directory of the documents. It must exist. A symlink is
	// followed, also when it is swapped later.
	Dir string
	// State is the store that the documents are remembered in: their versions, with who made
	// them. It must stay open until the Store is closed, and nothing else may write there what
	// confstore/log does.
	State State
	// DataDir has what is known of the files on this machine. It is made if missing and must not be
	// inside Dir.
	DataDir string
	// Machine defaults to this one.
	Machine place.Machine

	// Check refuses contents, nil for a deletion, that must not take the place of before, nil if
	// there was none, and says why. by made the change; nil: it was made to a file, which is then
	// not served. It must not wait, nor keep the texts. Default: nothing is refused.
	Check func(name string, before, contents []byte, by *access.Actor) error
	// Lessens reports whether contents, nil for a deletion, in the place of before, nil if there was
	// none, take rights away and give none: then they are remembered to the last byte of the disk. It
	// must not wait, nor keep the texts. Default: nothing does.
	Lessens func(name string, before, contents []byte) bool
	// MayChange refuses a change to a document, or with deletes its end, to who may not make it: by
	// the caller, of another name of the file that they may change. It must not wait. Default:
	// nothing is refused.
	MayChange func(name string, deletes bool, by *access.Actor) error
	// Approval has changes held that need another person's approval; nil, as by default: none do.
	Approval Approval
	// Ring has the keys by which values of documents are sealed, now; nil, as by default: there are
	// none, and what is to be sealed is refused. It must not wait.
	Ring func() *secret.Ring

	// Log receives what people should know; the zero Logger is silent.
	Log zerolog.Logger
	// Clock defaults to the machine's.
	Clock clock.Clock
	// FS is the file system below Dir and DataDir, default the machine's. With
	// another one there are no file events, only scans.
	FS atomicfile.FS
	// NoEvents turns file events off: edits are found by scans and Reload only.
	NoEvents bool
	events   func(dir string) (*watch.Watcher, error) // how they are had, for tests

	// QuietPeriod is how long events must have stopped before a changed file is read, default
	// 3 ms. Each millisecond delays subscribers by a millisecond.
	QuietPeriod time.Duration
	// MaxSettle bounds the wait for quiet under a stream of events, default 50 ms.
	MaxSettle time.Duration
	// GitLockWait bounds the wait for a git command that works on the
	// directory's repository (its index.lock exists), default 10 s.
	GitLockWait time.Duration
	// GitPatience is how long git is asked at most about the files that were found together, default
	// 5 s. Nothing waits for it; what it has not said by then are changes of the files' owners.
	GitPatience time.Duration
	// CommitWait is how long after a file was saved a commit may be made that says whose change it
	// is, default 60 s.
	CommitWait time.Duration
	// RemoveDelay is how long a file must stay away to count as removed, default
	// 100 ms: editors remove and write again.
	RemoveDelay time.Duration
	// ReplaceGrace is RemoveDelay after the whole directory was replaced, default 1 s, because
	// a replaced directory is often filled file by file.
	ReplaceGrace time.Duration
	// BreakDelay is how long a good file must stay unreadable to count as broken,
	// default 100 ms: some writers are seen half-way.
	BreakDelay time.Duration
	// ScanPeriod is how often the directory is compared with the known state in case an event
	// was lost, default 10 s. A scan costs one stat per file.
	ScanPeriod time.Duration
	// ReportPeriod is how often what is still wrong is logged again, default 10
	// minutes.
	ReportPeriod time.Duration

	// DiskPatience is how long a step in DataDir may take before edits are served without
	// waiting for it, default 1 s. Nothing is lost if it is too short.
	DiskPatience time.Duration
	// SetTimeout is how long a request may be held up by a disk before it is answered that it
	// was not carried out or that this is not known, default 4 s.
	SetTimeout time.Duration
	// RetryPeriod is how often to try again what a disk has refused, default 1 s.
	RetryPeriod time.Duration

	// MaxFileBytes is the largest file that is served, default MaxFile.
	MaxFileBytes int64
	// MaxFiles bounds the documents, tombstones included, default 100,000. Files
	// beyond are reported and not served.
	MaxFiles int
	// QueueLength bounds the requests waiting in Set, default 1024.
	QueueLength int

	// Documents is the memory for the documents and what is remembered of them. Requests for
	// which there is none are refused, files are reported and not read, and the last good
	// versions stay in service. Default no limit.
	Documents *memory.Pool
	// Caches is the memory for merged documents, indexes and prepared answers. Beyond it, some
	// of those not read lately are dropped and made again on demand. A revision for which watches
	// would get more than half of it in merged documents is not told: they begin anew. Default
	// 256 MiB.
	Caches *memory.Pool
	// Queues is the memory for contents waiting in Set. Default 64 MiB.
	Queues *memory.Pool

	// InlineBytes is the total size of a document and its bases up to which
	// snapshot.Node.Contents merges at once; beyond, Prepare has to. Default 32 KiB,
	// which takes some 100 microseconds.
	InlineBytes int
	// IndexBytes is the size from which snapshot.Node.Lookup wants an index instead of
	// reading the text, default 4 KiB.
	IndexBytes int
}

// Approval knows what is only changed with another person's approval, and keeps such changes.
// Those made to files, by the server itself, and once they are approved are none of its business.
type Approval interface {
	// Marked reports whether a document is only changed so. It must not wait.
	Marked(name string) bool
	// Hold keeps a change, durably, and returns codes.Held with its number; or why it cannot be
	// kept. It may wait for a disk.
	Hold(*change.Held) error
}

func (c Config) withDefaults() Config {
	c.Clock = cmp.Or(c.Clock, clock.Real())
	if c.FS == nil {
		c.FS = atomicfile.OS()
	} else {
		c.NoEvents = true
	}
	if c.Machine == (place.Machine{}) {
		c.Machine = place.ThisMachine()
	}
	if c.Check == nil {
		c.Check = func(string, []byte, []byte, *access.Actor) error { return nil }
	}
	if c.Lessens == nil {
		c.Lessens = func(string, []byte, []byte) bool { return false }
	}
	if c.events == nil {
		c.events = watch.New
	}
	if c.MayChange == nil {
		c.MayChange = func(string, bool, *access.Actor) error { return nil }
	}
	if c.Ring == nil {
		c.Ring = func() *secret.Ring { return nil }
	}
	orDefault(&c.QuietPeriod, 3*time.Millisecond)
	orDefault(&c.MaxSettle, 50*time.Millisecond)
	orDefault(&c.GitLockWait, 10*time.Second)
	orDefault(&c.GitPatience, 5*time.Second)
	orDefault(&c.CommitWait, time.Minute)
	orDefault(&c.RemoveDelay, 100*time.Millisecond)
	orDefault(&c.ReplaceGrace, time.Second)
	orDefault(&c.BreakDelay, 100*time.Millisecond)
	orDefault(&c.ScanPeriod, 10*time.Second)
	orDefault(&c.ReportPeriod, 10*time.Minute)
	orDefault(&c.DiskPatience, time.Second)
	orDefault(&c.SetTimeout, 4*time.Second)
	orDefault(&c.RetryPeriod, time.Second)
	orDefault(&c.MaxFileBytes, MaxFile)
	orDefault(&c.MaxFiles, 100_000)
	orDefault(&c.QueueLength, 1024)
	orDefault(&c.InlineBytes, 32<<10)
	orDefault(&c.IndexBytes, 4<<10)
	c.Documents, c.Caches, c.Queues = c.Documents.Or(math.MaxInt64), c.Caches.Or(256<<20), c.Queues.Or(64<<20)
	return c
}

func orDefault[T ~int | ~int64](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
