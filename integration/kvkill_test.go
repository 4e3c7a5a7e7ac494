package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const (
	kvKillRounds    = 200 // in full; make test does a tenth
	kvWriters       = 4
	kvKeysPerWriter = 6
	kvBatchKeys     = 5
	kvNS            = "soak"
)

// kvReply is what the judge reads of replies and events, with a decoder that is not the
// product's.
type kvReply struct {
	Code    int
	Desc    string
	Rev     int64
	Mod     int64
	Version int64
	Value   string
	Deleted int
	Watch   int
	Resync  int
	More    int
	Events  []struct {
		Op, Key, Value string
		Mod            int64
	}
}

// kvLedger is what the outside world knows about one key. Each write carries its place
// in writes as its value; "" stands for a delete.
type kvLedger struct {
	key    string
	writes []string
	must   int              // place of the last write that was acknowledged or seen
	rev    int64            // its revision, 0 if that is not known
	acked  map[int64]string // by revision, for the events
}

// kvRequest is a request in flight.
type kvRequest struct {
	cmd  protocol.Command
	body string
	// of a put or delete, or of a batch: which places it made
	ledgers []*kvLedger
	places  []int
	token   bool // of an increment: it is sent until it is answered
}

// kvWriter is one program: it has keys of its own, keys it writes together, and a
// counter.
type kvWriter struct {
	id      int
	rand    *rand.Rand
	keys    []*kvLedger
	batch   []*kvLedger
	tokens  int         // increments begun
	unsure  []kvRequest // increments that were not answered
	rev     int64       // greatest acknowledged
	acked   int
	retried int
}

func (w *kvWriter) counter() string { return fmt.Sprintf("count/%d", w.id) }

// next makes up a request and records it before it is sent.
func (w *kvWriter) next() kvRequest {
	switch w.rand.IntN(10) {
	case 0:
		w.tokens++
		return kvRequest{cmd: protocol.KVIncr, token: true,
			body: fmt.Sprintf(`{"ns":%q,"key":%q,"by":1,"token":"w%d-%d"}`, kvNS, w.counter(), w.id, w.tokens)}
	case 1:
		r := kvRequest{cmd: protocol.KVTxn}
		var ops []string
		for _, l := range w.batch {
			l.writes = append(l.writes, strconv.Itoa(len(l.writes)))
			r.ledgers, r.places = append(r.ledgers, l), append(r.places, len(l.writes)-1)
			ops = append(ops, fmt.Sprintf(`{"op":"put","key":%q,"value":%q}`, l.key, l.writes[len(l.writes)-1]))
		}
		r.body = fmt.Sprintf(`{"ns":%q,"then":[%s]}`, kvNS, strings.Join(ops, ","))
		return r
	}
	l := w.keys[w.rand.IntN(len(w.keys))]
	r := kvRequest{cmd: protocol.KVPut, ledgers: []*kvLedger{l}, places: []int{len(l.writes)}}
	value := strconv.Itoa(len(l.writes)) + strings.Repeat(" ", w.rand.IntN(1<<w.rand.IntN(14)))
	r.body = fmt.Sprintf(`{"ns":%q,"key":%q,"value":%q}`, kvNS, l.key, value)
	if w.rand.IntN(8) == 0 {
		value, r.cmd, r.body = "", protocol.KVDel, fmt.Sprintf(`{"ns":%q,"key":%q}`, kvNS, l.key)
	}
	l.writes = append(l.writes, value)
	return r
}

// run sends until the connection ends, beginning with the increments whose fate is
// unknown.
func (w *kvWriter) run(p *servertest.Peer) error {
	in := bufio.NewReader(p.Conn)
	again := w.unsure
	w.unsure = nil
	w.retried += len(again)
	for {
		requests := again
		again = nil
		for range 1 + w.rand.IntN(16) {
			requests = append(requests, w.next())
		}
		var frames []byte
		for i, r := range requests {
			frames = protocol.AppendFrame(frames, r.cmd, uint16(i), []byte(r.body))
		}
		_, err := p.Conn.Write(frames)
		for i, r := range requests {
			var f servertest.Frame
			if err == nil {
				f, err = servertest.ReadFrame(in)
			}
			if err != nil { // killed
				w.keep(requests[i:])
				return nil
			}
			if err := w.enter(r, uint16(i), f); err != nil {
				return err
			}
		}
	}
}

func (w *kvWriter) keep(unanswered []kvRequest) {
	for _, r := range unanswered {
		if r.token {
			w.unsure = append(w.unsure, r)
		}
	}
}

// enter records an acknowledgement.
func (w *kvWriter) enter(r kvRequest, seq uint16, f servertest.Frame) error {
	var reply kvReply
	if err := json.Unmarshal([]byte(f.Body), &reply); err != nil || reply.Code != 0 || f.Seq != seq || f.Command != r.cmd.Reply() {
		return fmt.Errorf("%s %.200s answered with %s (%v)", r.cmd, r.body, f.String(), err)
	}
	w.acked++
	if r.token { // a repeated one has its first revision
		return nil
	}
	changed := r.cmd != protocol.KVDel || reply.Deleted == 1
	if reply.Rev < w.rev || changed && reply.Rev == w.rev {
		return fmt.Errorf("%.200s: revision %d after %d", r.body, reply.Rev, w.rev)
	}
	w.rev = reply.Rev
	for i, l := range r.ledgers {
		l.must, l.rev = r.places[i], 0
		if changed {
			l.rev = reply.Rev
			l.acked[reply.Rev] = l.writes[r.places[i]]
		}
	}
	return nil
}

// kvWatcher follows the namespace across kills and checks what it is told: revisions
// rise, and nothing is told twice.
type kvWatcher struct {
	rev  int64
	told map[string]map[int64]string // by key and revision
}

func (w *kvWatcher) run(p *servertest.Peer) error {
	for {
		f, err := p.TryNext()
		if err != nil {
			return nil // killed
		}
		if err := w.take(f); err != nil {
			return err
		}
	}
}

// take records one push. No transaction here is long enough to be told in parts.
func (w *kvWatcher) take(f servertest.Frame) error {
	var push kvReply
	if err := json.Unmarshal([]byte(f.Body), &push); err != nil || f.Command != protocol.KVEvent || push.Resync != 0 || push.More != 0 {
		return fmt.Errorf("unexpected %s (%v)", f.String(), err)
	}
	before := w.rev
	for _, e := range push.Events {
		if e.Mod <= before || e.Mod < w.rev {
			return fmt.Errorf("%s: revision %d after %d", e.Key, e.Mod, w.rev)
		}
		w.rev = e.Mod
		if w.told[e.Key] == nil {
			w.told[e.Key] = map[int64]string{}
		}
		if _, twice := w.told[e.Key][e.Mod]; twice {
			return fmt.Errorf("%s: revision %d is told twice", e.Key, e.Mod)
		}
		w.told[e.Key][e.Mod] = e.Value
	}
	return nil
}

// kvSiege is a server, its load and the judge.
type kvSiege struct {
	t       *testing.T
	process *Process
	rand    *rand.Rand
	writers []*kvWriter
	watcher *kvWatcher
	rev     int64 // newest revision that anybody was told of
}

// TestSoakKillState kills the server at random moments under a mixed load on the state
// store. After each start every acknowledged write is there, batches are whole, no
// increment has happened twice, revisions have not gone back, and one watch that resumes
// where it was sees every acknowledged change once.
func TestSoakKillState(t *testing.T) {
	rounds := kvKillRounds / 10
	if os.Getenv("CONFCENTER_SOAK") == "1" {
		rounds = kvKillRounds
	}
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	seed := uint64(time.Now().UnixNano())
	s := &kvSiege{t: t, process: StartProcess(t, conf), rand: rand.New(rand.NewPCG(seed, 1)), watcher: &kvWatcher{told: map[string]map[int64]string{}}}
	for i := range kvWriters {
		w := &kvWriter{id: i, rand: rand.New(rand.NewPCG(seed, uint64(i)+2))}
		for k := range kvKeysPerWriter {
			w.keys = append(w.keys, newKVLedger(fmt.Sprintf("key/%d/%d", i, k)))
		}
		for k := range kvBatchKeys {
			w.batch = append(w.batch, newKVLedger(fmt.Sprintf("batch/%d/%d", i, k)))
		}
		s.writers = append(s.writers, w)
	}
	for round := range rounds {
		s.loadAndKill()
		s.interruptedStarts()
		s.process.Start()
		s.everythingIsThere()
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	s.nothingWasMissed()
	acked, retried := 0, 0
	for _, w := range s.writers {
		acked, retried = acked+w.acked, retried+w.retried
	}
	require.Greater(t, acked, 10*rounds, "the load was no load")
	t.Logf("%d kills of %d planned in full, %d acknowledged writes, none lost, %d increments sent again, none repeated; seed %d", rounds, kvKillRounds, acked, retried, seed)
}

func newKVLedger(key string) *kvLedger {
	return &kvLedger{key: key, must: noState, acked: map[int64]string{}}
}

func (s *kvSiege) loadAndKill() {
	s.t.Helper()
	failures := make([]error, kvWriters+1)
	var running sync.WaitGroup
	follower := s.process.Peer()
	s.watch(follower)
	running.Go(func() { failures[kvWriters] = s.watcher.run(follower) })
	for i, w := range s.writers {
		p := s.process.Peer()
		require.NoError(s.t, p.SetReadDeadline(time.Now().Add(servertest.Patience)))
		running.Go(func() { failures[i] = w.run(p) })
	}
	<-time.After(time.Duration(s.rand.IntN(120_000)) * time.Microsecond) // the random moment
	s.process.Kill()
	running.Wait()
	require.NoError(s.t, errors.Join(failures...))
	s.rev = max(s.rev, s.watcher.rev)
	for _, w := range s.writers {
		s.rev = max(s.rev, w.rev)
	}
}

// watch resumes where the last watch ended.
func (s *kvSiege) watch(p *servertest.Peer) {
	s.t.Helper()
	from := ""
	if s.watcher.rev > 0 {
		from = fmt.Sprintf(`,"from":%d`, s.watcher.rev)
	}
	s.call(p, protocol.KVWatch, fmt.Sprintf(`{"ns":%q%s}`, kvNS, from))
}

func (s *kvSiege) call(p *servertest.Peer, cmd protocol.Command, body string) kvReply {
	s.t.Helper()
	var r kvReply
	text := p.Call(cmd, body)
	require.NoError(s.t, json.Unmarshal([]byte(text), &r), text)
	require.Contains(s.t, []int{0, 404}, r.Code, text)
	return r
}

func (s *kvSiege) interruptedStarts() {
	s.t.Helper()
	for s.rand.IntN(3) == 0 {
		cmd := s.process.Command()
		require.NoError(s.t, cmd.Start())
		<-time.After(time.Duration(s.rand.IntN(60_000)) * time.Microsecond)
		require.NoError(s.t, cmd.Process.Kill())
		require.Error(s.t, cmd.Wait())
	}
}

// everythingIsThere compares what is served with the ledgers.
func (s *kvSiege) everythingIsThere() {
	s.t.Helper()
	p := s.process.Peer()
	for _, w := range s.writers {
		for _, l := range append(w.keys[:len(w.keys):len(w.keys)], w.batch...) {
			s.judge(l, s.call(p, protocol.KVGet, fmt.Sprintf(`{"ns":%q,"key":%q}`, kvNS, l.key)))
		}
		for _, l := range w.batch {
			require.Equal(s.t, w.batch[0].must, l.must, "half of a batch")
		}
		for _, r := range w.unsure {
			s.call(p, r.cmd, r.body)
		}
		w.retried += len(w.unsure)
		w.unsure = nil
		if w.tokens > 0 {
			got := s.call(p, protocol.KVGet, fmt.Sprintf(`{"ns":%q,"key":%q}`, kvNS, w.counter()))
			require.Equal(s.t, strconv.Itoa(w.tokens), got.Value, "increments of %s", w.counter())
		}
	}
}

func (s *kvSiege) judge(l *kvLedger, got kvReply) {
	s.t.Helper()
	require.GreaterOrEqual(s.t, got.Rev, s.rev, "the revision has gone back")
	s.rev = got.Rev
	place, err := l.place(got)
	require.NoError(s.t, err)
	if place == l.must && l.rev > 0 && got.Code == 0 {
		require.Equal(s.t, l.rev, got.Mod, "%s has another revision than was acknowledged", l.key)
	}
	l.must, l.rev = place, 0
	if got.Code == 0 {
		l.rev = got.Mod
	}
}

// place finds the write that a state comes from, not older than must.
func (l *kvLedger) place(got kvReply) (int, error) {
	if got.Code == 0 {
		place, err := strconv.Atoi(strings.TrimSpace(got.Value))
		switch {
		case err != nil || place >= len(l.writes) || l.writes[place] != got.Value:
			return 0, fmt.Errorf("%s holds what nobody wrote: %.80q", l.key, got.Value)
		case place < l.must:
			return 0, fmt.Errorf("%s holds write %d; write %d was acknowledged", l.key, place, l.must)
		}
		return place, nil
	}
	if l.must == noState {
		return noState, nil
	}
	for i := l.must; i < len(l.writes); i++ {
		if l.writes[i] == "" {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s is gone; write %d was acknowledged and none since deletes it", l.key, l.must)
}

// nothingWasMissed lets the watch catch up and compares every acknowledgement with what
// it was told.
func (s *kvSiege) nothingWasMissed() {
	s.t.Helper()
	p := s.process.Peer()
	s.watch(p)
	last := s.call(s.process.Peer(), protocol.KVPut, fmt.Sprintf(`{"ns":%q,"key":"end","value":"end"}`, kvNS))
	for s.watcher.rev < last.Rev {
		f, err := p.TryNext()
		require.NoError(s.t, err)
		require.NoError(s.t, s.watcher.take(f))
	}
	for _, w := range s.writers {
		for _, l := range append(w.keys[:len(w.keys):len(w.keys)], w.batch...) {
			for rev, value := range l.acked {
				told, ok := s.watcher.told[l.key][rev]
				require.True(s.t, ok, "%s: revision %d was acknowledged and never told", l.key, rev)
				require.Equal(s.t, value, told, "%s at revision %d", l.key, rev)
			}
		}
	}
}
