package confstore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// together has all of reqs wait before the store takes the first, and returns what
// happened in order and what each was told.
func (r *rig) together(fail func(op string) error, reqs ...SetRequest) (log []string, outcomes []setOutcome) {
	var mu sync.Mutex // temporary files are made at once
	r.trace.Hook = func(op atomicfile.Op) error {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, op.String())
		if fail != nil {
			return fail(op.String())
		}
		return nil
	}
	defer r.store.Subscribe(func(b *Batch) {
		for _, c := range b.Changes {
			log = append(log, "published "+c.Name)
		}
	})()
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	require.NoError(r.t, r.store.Set(SetRequest{Name: "x.json", Contents: []byte("{")}, func(SetResult, error) { close(entered); <-leave }))
	<-entered
	outcomes = make([]setOutcome, len(reqs))
	for i, req := range reqs {
		require.NoError(r.t, r.store.Set(req, func(result SetResult, err error) {
			log = append(log, "answered "+req.Name)
			if outcomes[i] = (setOutcome{result, err}); i == len(reqs)-1 {
				close(done)
			}
		}))
	}
	close(leave)
	<-done
	r.trace.Hook = nil
	return log, outcomes
}

func setsOf(n int) (reqs []SetRequest) {
	for i := range n {
		reqs = append(reqs, SetRequest{Name: fmt.Sprintf("d%d/a%d.json", i%2, i), Contents: fmt.Appendf(nil, `{"v":%d}`, i)})
	}
	return reqs
}

// ordered checks that each of steps is in log, one behind the other.
func ordered(t *testing.T, log []string, steps ...string) {
	t.Helper()
	at := 0
	for _, step := range steps {
		i := slices.Index(log[at:], step)
		require.GreaterOrEqual(t, i, 0, "%s is not behind what has to come before it:\n%s", step, strings.Join(log, "\n"))
		at += i + 1
	}
}

func count(log []string, op string) (n int) {
	for _, one := range log {
		if one == op {
			n++
		}
	}
	return n
}

const journalFsync = "fsync data/config.journal"

func TestWritesThatWaitShareOneFsyncOfTheJournal(t *testing.T) {
	r := newRig(t)
	reqs := append(setsOf(16), SetRequest{Name: "a.json"})
	log, outcomes := r.together(nil, reqs...)
	require.Equal(t, 1, count(log, journalFsync), "%s", strings.Join(log, "\n"))
	for i, req := range reqs {
		require.NoError(t, outcomes[i].err)
		dir, step := "conf/", "rename conf/"+req.Name
		if req.Contents == nil {
			step = "remove conf/a.json"
		} else {
			dir += strings.Split(req.Name, "/")[0] + "/"
			ordered(t, log, "write "+dir+".tmp", "fsync "+dir+".tmp", "write data/config.journal")
		}
		require.Equal(t, 1, count(log, step))
		ordered(t, log, "write data/config.journal", journalFsync, step, "fsync "+dir, "published "+req.Name, "answered "+req.Name)
		n := r.store.Snapshot().Node(req.Name)
		require.Equal(t, n.Mtime(false), outcomes[i].Mtime)
		require.Equal(t, req.Contents == nil, n.Deleted())
	}
	require.Equal(t, 1, count(log, "fsync conf/d0/"), "once for all in it")
	left := r.mem.Crash(func() bool { return false })
	_, deleted, _ := r.reopened(left)
	require.True(t, deleted)
}

// Each is carried out on what the ones before it have come to.
func TestWritesThatWaitSeeEachOther(t *testing.T) {
	r := newRig(t)
	served := r.store.Snapshot().Node("a.json").Mtime(false)
	log, outcomes := r.together(nil,
		SetRequest{Name: "_meta.json", Contents: []byte(`{"conf_inherit":{"heir.json":"a.json"}}`)},
		SetRequest{Name: "heir.json", Contents: []byte(`{"h":1}`)},
		SetRequest{Name: "a.json", Contents: []byte(newText), IfMtime: served, HasIfMtime: true},
		SetRequest{Name: "a.json", Contents: []byte(newText), IfMtime: served, HasIfMtime: true},
		SetRequest{Name: "bad.json", Contents: []byte("{")},
		SetRequest{Name: "_meta.json", Contents: []byte(`[1]`)},
		SetRequest{Name: "heir.json", Contents: []byte(`{"h":1}`)},
		SetRequest{Name: "none.json"},
	)
	for i, want := range []codes.Code{0, 0, 0, codes.Conflict, codes.BadJSON, codes.BadRequest, 0, 0} {
		if want == 0 {
			require.NoError(t, outcomes[i].err, i)
			continue
		}
		require.ErrorIs(t, outcomes[i].err, want, i)
	}
	require.Equal(t, outcomes[2].Mtime, outcomes[3].Mtime, "what is stored now")
	require.Equal(t, `{"v":"new","h":1}`, textOf(r.store.Snapshot().Node("heir.json"), true))
	require.Equal(t, 1, count(log, journalFsync), "what comes behind the second a.json changes nothing:\n%s", strings.Join(log, "\n"))
	ordered(t, log, "published _meta.json", "published heir.json", "published a.json", "published heir.json", "answered none.json")
	_, err := setNow(t, r.store, SetRequest{Name: "a.json", Contents: []byte(`1`)})
	require.NoError(t, err)
	require.Greater(t, r.store.Snapshot().Node("heir.json").Mtime(true), outcomes[2].Mtime)
}

func TestWritesOfOneDocumentAreNotJoined(t *testing.T) {
	r := newRig(t)
	var reqs []SetRequest
	for i := range 5 {
		reqs = append(reqs, SetRequest{Name: "a.json", Contents: fmt.Appendf(nil, "%d", i)}, SetRequest{Name: fmt.Sprint(i, ".json"), Contents: []byte("1")})
	}
	log, outcomes := r.together(nil, reqs...)
	for i, o := range outcomes {
		require.NoError(t, o.err, i)
	}
	require.Equal(t, 5, count(log, journalFsync))
	require.Equal(t, "4", textOf(r.store.Snapshot().Node("a.json"), false))
	for i := 2; i < len(outcomes); i += 2 {
		require.Greater(t, outcomes[i].Mtime, outcomes[i-2].Mtime)
	}
}

// TestFailureInAGroup: whoever's file cannot be put in its place is told, and what
// failed does not come back; everybody else's write is carried out.
func TestFailureInAGroup(t *testing.T) {
	for name, row := range map[string]struct {
		op     string
		failed []int
		fsyncs int
	}{
		"a temporary file":           {"create conf/d1/.tmp", []int{1, 3}, 3},
		"the first rename":           {"rename conf/d0/a0.json", []int{0}, 3},
		"a rename in the middle":     {"rename conf/d0/a2.json", []int{2}, 3},
		"the last rename":            {"rename conf/d0/a4.json", []int{4}, 2},
		"no room in the journal":     {"write data/config.journal", []int{0, 1, 2, 3, 4}, 0},
		"the fsync of the journal":   {journalFsync, []int{0, 1, 2, 3, 4}, 1},
		"the fsync of the directory": {"fsync conf/d0/", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, dir := range []string{"/srv/conf/d0", "/srv/conf/d1"} {
				r.mem.MakeDir(dir)
			}
			log, outcomes := r.together(func(op string) error {
				if op == row.op {
					return syscall.EIO
				}
				return nil
			}, setsOf(5)...)
			require.Equal(t, row.fsyncs, count(log, journalFsync), "%s", strings.Join(log, "\n"))
			check := func(s *Store) {
				for i, req := range setsOf(5) {
					n := s.Snapshot().Node(req.Name)
					if slices.Contains(row.failed, i) {
						require.Nil(t, n, req.Name)
						continue
					}
					require.Equal(t, string(req.Contents), textOf(n, false))
				}
			}
			for i := range outcomes {
				require.Equal(t, slices.Contains(row.failed, i), outcomes[i].err != nil, "%d: %v", i, outcomes[i].err)
			}
			check(r.store)
			cfg := r.cfg
			cfg.FS = r.mem.Crash(func() bool { return true })
			s, err := Open(cfg)
			require.NoError(t, err)
			defer s.Close()
			check(s)
			require.Empty(t, s.Problems())
		})
	}
}

// TestStopInAGroup stops the machine at each step of several writes: each document is
// the whole old one or the whole new one, the new one if that was acknowledged, and a
// start after the next says the same.
func TestStopInAGroup(t *testing.T) {
	texts := map[string]string{"a.json": newText, "b.json": `{"b":1}`, "c.json": ""}
	for step := range 24 {
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(step, "/", seed), func(t *testing.T) {
				r := newRig(t)
				_, err := setNow(t, r.store, SetRequest{Name: "c.json", Contents: []byte("1")})
				require.NoError(t, err)
				seen := 0
				_, outcomes := r.together(func(string) error {
					if seen++; seen > step {
						return errStopped
					}
					return nil
				}, setA, SetRequest{Name: "b.json", Contents: []byte(`{"b":1}`)}, SetRequest{Name: "c.json"})
				left := r.mem.Crash(losses(seed))
				state := func() (out []string) {
					cfg := r.cfg
					cfg.FS = left
					s, err := Open(cfg)
					require.NoError(t, err)
					defer func() { require.NoError(t, s.Close()) }()
					require.Empty(t, s.Problems())
					for i, name := range []string{"a.json", "b.json", "c.json"} {
						n := s.Snapshot().Node(name)
						text := ""
						if n.live() {
							text = textOf(n, false)
						}
						old := map[string]string{"a.json": oldText, "b.json": "", "c.json": "1"}[name]
						require.Contains(t, []string{old, texts[name]}, text, name)
						if outcomes[i].err == nil {
							require.Equal(t, texts[name], text, "%s was acknowledged", name)
						}
						file, err := left.Get("/srv/conf/" + name)
						require.Equal(t, text == "", err != nil)
						require.Equal(t, text, strings.Join(strings.Fields(string(file)), ""))
						out = append(out, fmt.Sprint(name, text, n.known() && n.Deleted()))
					}
					return out
				}
				require.Equal(t, state(), state())
			})
		}
	}
}

// TestNothingIsWrittenOnceADirectoryCannotBeFlushed, also not what waited in the same
// group, and the reason stays in sight.
func TestNothingIsWrittenOnceADirectoryCannotBeFlushed(t *testing.T) {
	r := newRig(t)
	for _, dir := range []string{"/srv/conf/d0", "/srv/conf/d1"} {
		r.mem.MakeDir(dir)
	}
	_, outcomes := r.together(func(op string) error {
		if op == "rename conf/d0/a2.json" || op == "fsync conf/d0/" {
			return syscall.EIO
		}
		return nil
	}, setsOf(5)...)
	for i, o := range outcomes {
		require.Equal(t, i >= 2, o.err != nil, "%d: %v", i, o.err)
	}
	require.Len(t, r.store.Problems(), 1)
	require.Equal(t, OfJournal, r.store.Problems()[0].Kind)
	cfg := r.cfg
	cfg.FS = r.mem.Crash(func() bool { return false })
	s, err := Open(cfg)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{"a.json", "d0/a0.json", "d1/a1.json"}, s.Snapshot().Names())
}
