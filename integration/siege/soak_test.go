package siege

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/ledger"
	"confcenter/integration/process"
	"confcenter/internal/flood"
	"confcenter/protocol"
)

// documents are two that change all the time: one by SETCONFIG, one by hand.
type documents struct {
	stop    chan struct{}
	all     sync.WaitGroup
	sent    int // SETCONFIGs sent; never goes back
	acked   int // the last that was acknowledged
	byHand  int // edits made
	refused int
	err     error
}

const (
	setByProgram = "program.json"
	setByHand    = "hand.json"
	byHandEvery  = 100 * time.Millisecond
)

// begin changes them until end, or until the server is gone.
func (d *documents) begin(t *testing.T, p *process.Process) {
	t.Helper()
	c, err := enter(p.Addr, "editor")
	require.NoError(t, err)
	d.stop = make(chan struct{})
	d.all.Go(func() {
		defer c.Close()
		for d.running() {
			d.sent++
			reply, err := c.call(protocol.SetConfig, fmt.Sprintf(`{"filename":%q,"contents":{"n":%d}}`, setByProgram, d.sent))
			if err != nil {
				return // killed
			}
			if u, err := protocol.ParseConfigUpdated([]byte(reply)); err == nil && u.Code == 0 {
				d.acked = d.sent
			} else {
				d.refused++
			}
		}
	})
	d.all.Go(func() {
		again := time.NewTicker(byHandEvery)
		defer again.Stop()
		for d.running() {
			if d.err = d.edit(p.Conf); d.err != nil {
				return
			}
			<-again.C
		}
	})
}

func (d *documents) running() bool {
	select {
	case <-d.stop:
		return false
	default:
		return true
	}
}

// edit saves as an editor does: a new file takes the place of the old one.
func (d *documents) edit(conf string) error {
	d.byHand++
	path := filepath.Join(conf, setByHand)
	if err := os.WriteFile(path+"~", fmt.Appendf(nil, `{"n":%d}`, d.byHand), 0o644); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

func (d *documents) end(t *testing.T) {
	t.Helper()
	close(d.stop)
	d.all.Wait()
	require.NoError(t, d.err)
}

// check compares what is served with what was acknowledged, and with the last edit.
func (d *documents) check(t *testing.T, p *process.Process) {
	t.Helper()
	peer := p.Peer()
	defer peer.Close()
	n := func(name string) int {
		var doc struct{ N int }
		if contents := peer.Get(name).Contents; contents != nil {
			require.NoError(t, json.Unmarshal(contents, &doc))
		}
		return doc.N
	}
	got := n(setByProgram)
	require.GreaterOrEqual(t, got, d.acked, "an acknowledged change is lost")
	require.LessOrEqual(t, got, d.sent)
	eventually(t, "the last edit is served", func() bool { return n(setByHand) == d.byHand })
}

// mix is the soak.
type mix struct {
	t      *testing.T
	p      *process.Process
	random *rand.Rand
	book   *ledger.Book
	docs   documents
	done   map[string]int
	peak   int64 // most that was resident
}

// attacks are what may happen at the same time. Each returns what ends it.
func (m *mix) attacks() map[string]func() (end func()) {
	by := func(attack func(p *process.Process, n int) *crowd, n int) func() func() {
		return func() func() { return attack(m.p, n).over().disperse }
	}
	return map[string]func() func(){
		"bodies":  by(unfinishedBodies, 40),
		"sets":    by(hugeSets, 10),
		"keys":    by(tinyKeys, 50_000),
		"streams": by(unreadStreams, 200),
		"peers":   by(unreadPeers, 50),
		"wide":    by(wideClients, 200),
		"flood": func() func() {
			f, err := flood.New(m.p.Addr, m.p.HTTP, 2500)
			require.NoError(m.t, err)
			for f.Begun < 10_000 && f.Connect() == nil {
			}
			return f.Close
		},
		"storm": func() func() {
			f := &fleet{t: m.t, addr: m.p.Addr, conns: make([]*caller, 500)}
			f.join()
			f.leave()
			f.join()
			return f.leave
		},
	}
}

// round is a load, some attacks one after the other while the earlier ones last, and then,
// in the middle of everything, perhaps a stop or the end.
func (m *mix) round() {
	m.t.Helper()
	load := m.book.Load(m.p)
	m.docs.begin(m.t, m.p)
	all := m.attacks()
	names := []string{"bodies", "sets", "keys", "streams", "peers", "wide", "flood", "storm"}
	m.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var ends []func()
	endAll := func() {
		for _, end := range ends {
			end()
		}
		ends = nil
	}
	for _, name := range names[:2+m.random.IntN(2)] {
		m.done[name]++
		ends = append(ends, all[name]())
		m.p.Lives()
	}
	event := []string{"nothing", "stop", "kill", "restart"}[m.random.IntN(4)]
	m.done[event]++
	switch event {
	case "stop":
		m.p.Signal(syscall.SIGSTOP)
		<-time.After(time.Duration(m.random.IntN(1000)) * time.Millisecond)
		m.p.Signal(syscall.SIGCONT)
		newcomer(m.t, m.p)
		load.Stop()
	case "nothing":
		newcomer(m.t, m.p)
		load.Stop()
	case "kill":
		m.peak = max(m.peak, within(m.t, m.p, soakBudget).Peak)
		m.p.Kill()
		load.Killed()
		m.p.Start()
	case "restart": // which would wait for peers that do not read, and say so
		endAll()
		m.peak = max(m.peak, within(m.t, m.p, soakBudget).Peak)
		m.p.Stop()
		load.Killed()
		m.p.Start()
	}
	endAll()
	m.docs.end(m.t)
	m.clean()
	m.book.Check(m.p)
	m.book.NothingMissed(m.p)
	m.docs.check(m.t, m.p)
	m.peak = max(m.peak, within(m.t, m.p, soakBudget).Peak)
}

// clean removes what attacks have left.
func (m *mix) clean() {
	m.t.Helper()
	c, err := enter(m.p.Addr, "witness")
	require.NoError(m.t, err)
	defer c.Close()
	dropTiny(m.t, c)
	for i := range 10 {
		deleteSet(m.t, c, i)
	}
}

const soakBudget = 512 * mib

// TestSoakSiege mixes everything. What was acknowledged is there, no watch misses a change,
// edits by hand are served, and the server stays within its budget.
func TestSoakSiege(t *testing.T) {
	length := full(25*time.Minute, 5*time.Second)
	seed := uint64(time.Now().UnixNano())
	p := process.New(t, confDir(t), append(strict, "--memory", fmt.Sprintf("%dMiB", soakBudget/mib))...)
	p.Before = "ulimit -n 4096"
	p.Start()
	m := &mix{t: t, p: p, random: rand.New(rand.NewPCG(seed, 1)), book: ledger.Open(t, seed), done: map[string]int{}}
	m.book.Refusals = true
	newcomer(t, p)
	rounds := 0
	for begun := time.Now(); time.Since(begun) < length; rounds++ {
		m.round()
		if t.Failed() {
			t.Fatalf("round %d of seed %d", rounds, seed)
		}
	}
	p.Stop()
	c := m.book.Counts()
	require.Greater(t, c.Acked, rounds, "the load was no load")
	t.Logf("%d rounds: %v; resident %d MiB at most, of a budget of %d MiB", rounds, m.done, m.peak/mib, soakBudget/mib)
	t.Logf("%d acknowledged writes, none lost; %d refused, %d increments sent again, none repeated; the watch missed nothing and began anew %d times; seed %d", c.Acked, c.Refused, c.Retried, c.Lapses, seed)
	t.Logf("%d changes of a document by a program, %d refused, %d by hand", m.docs.sent, m.docs.refused, m.docs.byHand)
}
