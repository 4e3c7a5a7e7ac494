package disk

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
)

// outage is what a power loss left, and what had been acknowledged by then.
type outage struct {
	fs    *vfs.MemFS
	acked kv.Revision
	at    string
}

// plug takes copies of a file system as a power loss would leave it, before
// operations chosen at random.
type plug struct {
	mu     sync.Mutex
	links  sync.RWMutex // held by each Link, and by a copy against all of them
	fs     *vfs.MemFS
	random *rand.Rand
	every  int
	most   int
	acked  kv.Revision
	lost   []outage
}

func (p *plug) before(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lost) < p.most && p.random.IntN(p.every) == 0 {
		// Nothing, half or all of what was not synced has reached the disk.
		cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: p.random.IntN(3) * 50, RNG: p.random}
		p.links.Lock()
		p.lost = append(p.lost, outage{p.fs.CrashClone(cfg), p.acked, fmt.Sprint(op.Kind, " ", op.Path)})
		p.links.Unlock()
	}
	return nil
}

func (p *plug) acknowledge(rev kv.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked = rev
}

// linkFS keeps copies away from Link, which takes the file system's lock against
// copies twice and so waits for ever for a copy that came in between.
type linkFS struct {
	*vfs.MemFS
	plug *plug
}

func (l linkFS) Link(from, to string) error {
	l.plug.links.RLock()
	defer l.plug.links.RUnlock()
	return l.MemFS.Link(from, to)
}

func smallConfig(c *Config) {
	c.MemTableBytes, c.TableBytes = 64<<10, 8<<10
	c.LogBytes, c.HistoryBytes, c.HistoryVersions = 64<<10, 64<<10, 5
	c.RingBytes, c.BlockBytes = 4<<10, 1<<10
}

// someOps is a random transaction over a few keys, of which one is hot.
func someOps(random *rand.Rand) []op {
	ops := []op{{"ns", "hot", fmt.Sprint("v", random.Int())}}
	for i := range random.IntN(4) {
		o := op{fmt.Sprint("ns", random.IntN(2)), fmt.Sprint("k", random.IntN(20)*4+i), ""}
		if random.IntN(4) > 0 {
			o.value = fmt.Sprintf("%0*d", 1+random.IntN(200), i)
		}
		ops = append(ops, o)
	}
	return ops
}

type tornStore struct {
	outage
	commits []kvstore.Commit
}

func losePower(t *testing.T, seed uint64, most int) []tornStore {
	random := rand.New(rand.NewPCG(seed, 1))
	p := &plug{fs: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(seed, 2)), every: 1 + random.IntN(300), most: most}
	s := newStore(t, func(c *Config) {
		smallConfig(c)
		c.FS = errorfs.Wrap(linkFS{p.fs, p}, errorfs.InjectorFunc(p.before))
	})
	var commits []kvstore.Commit
	for range 300 {
		group := make([]kvstore.Commit, 1+random.IntN(4))
		for i := range group {
			group[i] = s.commit(s.clock.Now(), someOps(random)...)
		}
		commits = append(commits, group...)
		require.NoError(t, s.disk.Append(group))
		p.acknowledge(s.rev)
		if random.IntN(10) == 0 {
			s.clock.Advance(tick)
		}
	}
	if random.IntN(2) == 0 {
		s.reopen()
	}
	require.NoError(t, s.disk.Close())
	s.disk = nil
	torn := make([]tornStore, len(p.lost))
	for i := range p.lost {
		torn[i] = tornStore{p.lost[i], commits}
	}
	return torn
}

// check opens what is left and goes on from there.
func (o *tornStore) check(t *testing.T, seed uint64) {
	fake := clocktest.NewFake(start)
	s := &store{t: t, cfg: testConfig(o.fs, fake), clock: fake, model: newModel()}
	smallConfig(&s.cfg)
	loaded, d, err := load(s.cfg)
	require.NoError(t, err, "seed %d, power lost before %s", seed, o.at)
	require.GreaterOrEqual(t, loaded.rev, o.acked, "seed %d, power lost before %s", seed, o.at)
	for i := range o.commits[:loaded.rev] {
		s.apply(&o.commits[i])
		s.changes = append(s.changes, o.commits[i].Change)
	}
	s.rev = loaded.rev
	loaded.equal(t, s.model)
	s.disk = d
	s.provable()
	s.put(op{"ns", "after", "the loss"})
	s.reopen()
	s.provable()
	require.NoError(t, s.disk.Close())
}

// provable holds everything that can be read against the model: it is right, or
// said to be no longer kept.
func (s *store) provable() {
	s.t.Helper()
	s.tables() // so that the floors stand still
	for after := kv.Revision(0); after < s.rev; after += 1 + s.rev/20 {
		_, err := s.disk.Changes(after, 1<<10)
		if codes.Of(err) != codes.Compacted {
			s.checkChanges(after, 1<<10)
			continue
		}
		floor, _ := s.disk.Floors()
		require.Less(s.t, after, floor)
	}
	for id := range s.past {
		page, err := s.disk.Versions(id.ns, id.key, 0, 0)
		require.NoError(s.t, err)
		s.checkPage(id, page)
		for rev := kv.Revision(0); rev <= s.rev; rev += 1 + s.rev/20 {
			e, err := s.disk.GetAt(id.ns, id.key, rev)
			if codes.Of(err) == codes.Compacted {
				require.Less(s.t, rev, page.Floor)
				continue
			}
			require.NoError(s.t, err)
			require.Equal(s.t, text(s.at(id, rev)), text(e), "%v at %d", id, rev)
		}
	}
}

// checkPage wants all versions down to the page's floor, and the one before it.
func (s *store) checkPage(id name, page kv.Versions) {
	s.t.Helper()
	past := s.past[id]
	for i, e := range page.Entries {
		require.Equal(s.t, text(past[len(past)-1-i]), text(e))
	}
	if left := len(past) - len(page.Entries); left > 0 {
		oldest := past[left-1]
		require.LessOrEqual(s.t, oldest.Mod, page.Floor)
		if len(page.Entries) > 0 && !oldest.Deleted() {
			require.LessOrEqual(s.t, page.Entries[len(page.Entries)-1].Mod, page.Floor)
		}
	}
}
