package disk

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
	"confcenter/kv"
)

// audited is a store that keeps an audit.
func audited(t *testing.T, adjust func(*Config)) *patient {
	p := newPatient(t, adjust)
	require.NoError(t, p.Close())
	p.cfg.Engine.Trail = audit.New(1 << 20)
	p.open()
	return p
}

// lines reads all lines from the disk, and checks that they are a chain up to the head.
func (p *patient) lines() (list []audit.Line) {
	c := audit.Checker{Whole: true, Kept: []audit.Head{p.cfg.Engine.Trail.Head()}}
	for after := ""; ; {
		page, err := p.ListArchive(p.Context(), kv.List{NS: kv.AuditLines, After: after, Limit: 7})
		require.NoError(p, err)
		for _, e := range page.Entries {
			after = e.Key
			for _, text := range audit.Lines(e.Value.Data) {
				require.NoError(p, c.Add(text))
				l, err := audit.ParseLine(text)
				require.NoError(p, err)
				list = append(list, l)
			}
		}
		if !page.More {
			require.NoError(p, c.End())
			return list
		}
	}
}

var asker = &access.Actor{Name: "n", Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: &access.Identity{Name: "token:game"}}

func (p *patient) must(txn *kv.Txn) *kv.Result {
	r, err := kv.Commit(p.Context(), p.Store, txn)
	require.NoError(p, err)
	return r
}

func TestEachChangeThatSomebodyAsksForHasALine(t *testing.T) {
	p := audited(t, nil)
	put := func(ns, key string) kv.Op {
		return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue("secret")}
	}
	by := func(ops ...kv.Op) *kv.Txn { return &kv.Txn{Then: ops, Actor: asker} }
	lease := p.must(by(kv.Op{Kind: kv.OpGrant, TTL: kv.MaxLease})).Ops[0].Lease.ID
	p.must(by(put("ns", "a")))
	p.must(by(put("ns", "a"), put("ns", "b"), kv.Op{Kind: kv.OpDelete, NS: "ns", Key: "b"}))
	p.must(&kv.Txn{Then: []kv.Op{put("ns", "nobody asked")}})
	p.must(by(kv.Op{Kind: kv.OpGet, NS: "ns", Key: "a"}))
	p.must(by(kv.Op{Kind: kv.OpDelete, NS: "ns", Key: "absent"}))
	_, err := kv.Commit(t.Context(), p.Store, &kv.Txn{Must: true, If: []kv.Compare{kv.Absent("ns", "a")}, Then: []kv.Op{put("ns", "a")}, Actor: asker})
	require.ErrorIs(t, err, codes.Conflict)
	p.must(&kv.Txn{If: []kv.Compare{kv.Absent("ns", "a")}, Then: []kv.Op{put("ns", "x")}, Else: []kv.Op{put("ns", "y")}, Actor: asker})
	once := by(put("ns", "token"))
	once.Token, once.TokenNS = "t", "ns"
	again := *once
	p.must(once)
	require.True(t, p.must(&again).Replayed)
	p.must(by(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: "t"}))
	many := by()
	for i := range 100 {
		many.Then = append(many.Then, put("ns", fmt.Sprint("many", i)))
	}
	p.must(many)
	system := by(put(kv.FlowPrefix+"x", "A"), put("@storage/1/2", "bag/42"), put("@landing", "n/1"), put(kv.BenchNamespace, "node/1"))
	system.System = true
	p.must(system)
	noted := by(put("ns", "noted"))
	noted.Note = []access.Event{{Kind: access.EventToken, Do: "make", What: []string{"token:x"}}}
	p.must(noted)
	before := p.must(&kv.Txn{System: true, Note: []access.Event{{Kind: access.EventDenied, Do: "read", Outcome: codes.Forbidden}, {Kind: access.EventLogin, By: asker}}}).Revision
	require.Equal(t, before, p.Revision())
	p.must(&kv.Txn{Note: []access.Event{{Kind: access.EventLogin}}}) // which a peer could not send
	p.must(by(kv.Op{Kind: kv.OpRevoke, Lease: lease}))

	list := p.lines()
	var got []string
	for _, l := range list {
		got = append(got, fmt.Sprintf("%s %s %s %s +%d", l.Kind, l.Who, l.Do, strings.Join(l.What, " "), l.More))
		require.NotContains(t, fmt.Sprint(l), "secret")
	}
	named := ""
	for i := range audit.MostNames {
		named += fmt.Sprint(" kv:ns/many", i)
	}
	require.Equal(t, []string{
		fmt.Sprintf("change token:game grant lease:%d +0", lease),
		"change token:game put kv:ns/a +0",
		"change token:game txn kv:ns/a kv:ns/b +0",
		"change token:game put kv:ns/y +0",
		"change token:game put kv:ns/token +0",
		"change token:game delete_prefix kv:ns/t* +0",
		"change token:game put" + named + " +84",
		"change token:game put flow:x/A storage:1/2/bag/42 bench:node/1 +0",
		"token token:game make token:x +0",
		"denied  read  +0",
		"login token:game   +0",
		fmt.Sprintf("change token:game revoke lease:%d +0", lease),
	}, got)
	require.Equal(t, "10.0.0.1:5", list[1].From)
	require.Equal(t, "forbidden", list[9].Outcome)
	require.EqualValues(t, p.Revision(), list[11].Rev)

	e, _ := p.Get([]byte(kv.AuditLines), []byte(audit.KeyOf(1)))
	require.Nil(t, e, "nobody sees it in memory")
	_, err = kv.Commit(t.Context(), p.Store, kv.PutTxn(kv.AuditLines, "x", kv.StringValue("x")))
	require.ErrorIs(t, err, codes.Reserved)
	_, err = kv.Commit(t.Context(), p.Store, kv.PutTxn(kv.AuditNamespace, "x", kv.StringValue("x")))
	require.ErrorIs(t, err, codes.Reserved)
	changes, err := p.Changes(t.Context(), 0, 1<<20)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(changes), kv.AuditLines)
}

func TestWithNotesOnlyKeysHaveNoLines(t *testing.T) {
	p := audited(t, nil)
	require.NoError(t, p.Close())
	p.cfg.Engine.TrailNotesOnly = true
	p.open()
	p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "k", Value: kv.StringValue("v")}}, Actor: asker})
	p.must(&kv.Txn{System: true, Note: []access.Event{{Kind: access.EventLogin}}})
	require.Len(t, p.lines(), 1)
}

// Wherever the lines are: in the log, in tables, or in both.
func TestTheChainGoesOnAfterAStart(t *testing.T) {
	p := audited(t, func(c *Config) { c.TableBytes = 4 << 10 })
	n := 0
	for round := range 12 {
		for range 1 + round*7%20 {
			p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: fmt.Sprint(n), Value: kv.BytesValue(make([]byte, round*50))}}, Actor: asker})
			n++
		}
		require.Len(t, p.lines(), n)
		head := p.cfg.Engine.Trail.Head()
		p.cfg.Engine.Trail = audit.New(1 << 10)
		p.reopen()
		require.Equal(t, head, p.cfg.Engine.Trail.Head(), "round %d", round)
	}
}

// Whatever the disk does: what was acknowledged has one line, what was refused none, and what had an
// unknown outcome has one if it took effect.
func TestLinesAndChangesAgreeWhateverTheDiskDoes(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 9))
			p := audited(t, func(c *Config) { c.TableBytes, c.MemTableBytes = 2<<10, 64<<10 })
			var mu sync.Mutex
			outcome := map[string]error{}
			for round := range 3 {
				var after atomic.Int64
				after.Store(dice.Int64N(60))
				most := dice.Int64N(40) + 1
				p.sick(func(errorfs.Op) error {
					if n := after.Add(-1); n < 0 && n >= -most {
						return syscall.EIO
					}
					return nil
				})
				var waiting sync.WaitGroup
				for i := range 40 {
					key := fmt.Sprintf("%d/%d", round, i)
					waiting.Add(1)
					err := p.Commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: key, Value: kv.StringValue("v")}}, Actor: asker}, func(_ *kv.Result, err error) {
						mu.Lock()
						defer mu.Unlock()
						outcome[key] = err
						waiting.Done()
					})
					if err != nil {
						waiting.Done()
						mu.Lock()
						outcome[key] = err
						mu.Unlock()
					}
				}
				done := make(chan struct{})
				go func() { defer close(done); waiting.Wait() }()
				p.until(func() bool {
					select {
					case <-done:
						return true
					default:
						return false
					}
				})
				p.sick(nil)
				p.healed()
				p.until(p.well)
			}
			check := func() {
				lines := map[string]int{}
				for _, l := range p.lines() {
					lines[strings.TrimPrefix(l.What[0], "kv:ns/")]++
				}
				for key, err := range outcome {
					there := 0
					if e, _ := p.Get([]byte("ns"), []byte(key)); e != nil {
						there = 1
					}
					require.Equal(t, there, lines[key], "%s: %v", key, err)
					require.False(t, err == nil && there == 0, key)
				}
			}
			p.must(&kv.Txn{})
			check()
			lost := p.fs.Lose(vfs.CrashCloneCfg{})
			require.NoError(t, p.Close())
			p.cfg.Disk.FS, p.cfg.Engine.Trail = lost, audit.New(1<<20)
			p.open()
			check()
		})
	}
}

// BenchmarkAudit is BenchmarkCommit, each by a known actor, with and without lines.
func BenchmarkAudit(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%v", on), func(b *testing.B) {
			cfg := StoreConfig{Disk: Config{Dir: b.TempDir() + "/data"}}
			if on {
				cfg.Engine.Trail = audit.New(4 << 20)
			}
			commitEach(b, cfg, asker)
		})
	}
}
