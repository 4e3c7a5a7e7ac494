package kills

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const (
	killRounds     = 100 // in full; make test does five
	killWriters    = 4
	filesPerWriter = 8
	writesInFlight = 16
	noState        = -1
)

// fileLedger is what the outside world knows about one file. It never learns from the
// server's own files.
type fileLedger struct {
	name   string
	writes []string // contents in the order they were sent; empty = delete
	// must is the place of the last write that was acknowledged, or seen in service
	// after a restart: nothing older may come back.
	must    int
	version int32 // greatest that was acknowledged, told or served
}

// next makes up a write and records it before it is sent.
func (l *fileLedger) next(r *rand.Rand) string {
	contents := ""
	if r.IntN(8) > 0 {
		contents = fmt.Sprintf(`{"n":%d,"pad":%q}`, len(l.writes), strings.Repeat("x", r.IntN(1<<r.IntN(16))))
	}
	l.writes = append(l.writes, contents)
	return contents
}

// acknowledged records the reply to a write.
func (l *fileLedger) acknowledged(place int, mtime int32) error {
	l.must = place
	switch {
	case l.writes[place] != "":
		if mtime <= l.version {
			return fmt.Errorf("%s: version %d after %d", l.name, mtime, l.version)
		}
	case l.version == 0:
		return nil // a delete of what never was leaves no version
	case mtime < l.version:
		return fmt.Errorf("%s: deleted with version %d after %d", l.name, mtime, l.version)
	}
	l.version = mtime
	return nil
}

// place finds the write that a state comes from, not older than must. A delete may be
// any delete since.
func (l *fileLedger) place(contents string) (int, error) {
	if contents == "" {
		if l.must == noState {
			return noState, nil
		}
		for i := l.must; i < len(l.writes); i++ {
			if l.writes[i] == "" {
				return i, nil
			}
		}
		return 0, fmt.Errorf("%s is gone; write %d was acknowledged and none since deletes it", l.name, l.must)
	}
	var state struct{ N int }
	if err := json.Unmarshal([]byte(contents), &state); err != nil {
		return 0, fmt.Errorf("%s is not whole: %w", l.name, err)
	}
	switch {
	case state.N >= len(l.writes) || l.writes[state.N] != contents:
		return 0, fmt.Errorf("%s holds what nobody wrote", l.name)
	case state.N < l.must:
		return 0, fmt.Errorf("%s holds write %d; write %d was acknowledged", l.name, state.N, l.must)
	}
	return state.N, nil
}

// writer sends batches of writes for its own files until the connection ends, and records
// what is acknowledged.
type writer struct {
	conn  net.Conn
	in    *bufio.Reader
	files []*fileLedger
	rand  *rand.Rand
	acked int
}

func (w *writer) run() error {
	for {
		var batch []byte
		var sent []*fileLedger
		var places []int
		for range writesInFlight {
			l := w.files[w.rand.IntN(len(w.files))]
			u := protocol.ConfigUpdate{Name: l.name, Contents: []byte(l.next(w.rand))}
			batch = protocol.AppendFrame(batch, protocol.SetConfig, uint16(len(sent)), protocol.AppendConfigUpdate(nil, u))
			sent, places = append(sent, l), append(places, len(l.writes)-1)
		}
		if _, err := w.conn.Write(batch); err != nil {
			return nil
		}
		for i, l := range sent {
			f, err := servertest.ReadFrame(w.in)
			if err != nil {
				return nil // killed
			}
			u, err := protocol.ParseConfigUpdated([]byte(f.Body))
			if err != nil || u.Code != 0 || int(f.Seq) != i {
				return fmt.Errorf("write refused: %s %v", f.String(), err)
			}
			if err := l.acknowledged(places[i], u.Mtime); err != nil {
				return err
			}
			w.acked++
		}
	}
}

// follower records the versions it is told: whatever is told is durable.
func follow(p *servertest.Peer, told map[string]int32) error {
	for {
		f, err := p.TryNext()
		if err != nil {
			return nil // killed
		}
		c, ok, err := protocol.ParseChange([]byte(f.Body))
		if err != nil || !ok {
			return fmt.Errorf("unexpected %s", f.String())
		}
		if c.Mtime <= told[c.File] {
			return fmt.Errorf("%s: told of version %d after %d", c.File, c.Mtime, told[c.File])
		}
		told[c.File] = c.Mtime
	}
}

// siege is a server, its load and the ledgers.
type siege struct {
	t       *testing.T
	process *process.Process
	rand    *rand.Rand
	ledgers []*fileLedger
	acked   int
}

// TestSoakKill kills the server at random moments under a load of SETCONFIG. After each
// kill the directory has only whole files; after each start every acknowledged change is
// in service and no version has gone back.
func TestSoakKill(t *testing.T) {
	rounds := whole(killRounds, 5)
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	seed := uint64(time.Now().UnixNano())
	s := &siege{t: t, process: process.Start(t, conf), rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range killWriters * filesPerWriter {
		s.ledgers = append(s.ledgers, &fileLedger{name: fmt.Sprintf("dir%d/f%d.json", i%3, i), must: noState})
	}
	for round := range rounds {
		s.loadAndKill()
		s.wholeFiles()
		interruptedStarts(t, s.process, s.rand, 30*time.Millisecond)
		s.process.Start()
		s.everythingIsThere()
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	require.Greater(t, s.acked, rounds, "the load was no load")
	t.Logf("%d kills of %d planned in full, %d acknowledged changes, none lost; seed %d", rounds, killRounds, s.acked, seed)
}

// loadAndKill starts all writers and a subscriber and kills the server in the middle.
func (s *siege) loadAndKill() {
	s.t.Helper()
	subscriber := s.process.Peer()
	for _, l := range s.ledgers {
		reply, err := protocol.ParseSubscribed([]byte(subscriber.Call(protocol.BookCfgChange, fmt.Sprintf(`{"file_pattern":%q,"missing_ok":1}`, l.name))))
		require.NoError(s.t, err)
		require.Zero(s.t, reply.Code)
	}
	told := map[string]int32{}
	failures := make([]error, killWriters+1)
	var running sync.WaitGroup
	running.Go(func() { failures[killWriters] = follow(subscriber, told) })
	writers := make([]*writer, killWriters)
	for i := range writers {
		p := s.process.Peer()
		require.NoError(s.t, p.SetReadDeadline(time.Now().Add(servertest.Patience)))
		writers[i] = &writer{conn: p.Conn, in: bufio.NewReader(p.Conn), files: s.ledgers[i*filesPerWriter : (i+1)*filesPerWriter], rand: rand.New(rand.NewPCG(s.rand.Uint64(), 2))}
		running.Go(func() { failures[i] = writers[i].run() })
	}
	<-time.After(time.Duration(s.rand.IntN(150_000)) * time.Microsecond) // the random moment
	s.process.Kill()
	running.Wait()
	for _, w := range writers {
		s.acked += w.acked
	}
	require.NoError(s.t, errors.Join(failures...))
	for _, l := range s.ledgers {
		l.version = max(l.version, told[l.name])
	}
}

// wholeFiles checks what a dead server has left behind.
func (s *siege) wholeFiles() {
	s.t.Helper()
	for _, l := range s.ledgers {
		text, err := os.ReadFile(filepath.Join(s.process.Conf, l.name))
		if errors.Is(err, fs.ErrNotExist) {
			text, err = nil, nil
		}
		require.NoError(s.t, err)
		if len(text) > 0 {
			require.True(s.t, json.Valid(text), "%s is cut: %.80q", l.name, text)
		}
		_, err = l.place(compact(string(text)))
		require.NoError(s.t, err, "on the disk")
	}
}

func compact(text string) string {
	return strings.NewReplacer(" ", "", "\n", "").Replace(text)
}

// everythingIsThere compares what is served and what is on the disk with the ledgers.
func (s *siege) everythingIsThere() {
	s.t.Helper()
	p := s.process.Peer()
	for _, l := range s.ledgers {
		c := p.Get(l.name)
		served := string(c.Contents)
		if served == `{}` {
			served = "" // a tombstone
		}
		place, err := l.place(served)
		require.NoError(s.t, err, "in service")
		require.GreaterOrEqual(s.t, c.Mtime, l.version, "%s: the version has gone back", l.name)
		l.must, l.version = place, c.Mtime
		text, err := os.ReadFile(filepath.Join(s.process.Conf, l.name))
		require.Equal(s.t, served == "", errors.Is(err, fs.ErrNotExist), "%s on the disk and in service", l.name)
		require.Equal(s.t, served, compact(string(text)), "%s on the disk and in service", l.name)
	}
	require.NoError(s.t, filepath.WalkDir(s.process.Conf, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".json") {
			return fmt.Errorf("%s is left over", path)
		}
		return err
	}))
}
