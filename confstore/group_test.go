package confstore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile/atomicfiletest"
)

// together has all of reqs wait before the store takes the first, and returns what
// happened in order and what each was told.
func (r *rig) together(fail func(op string) error, reqs ...SetRequest) (log []string, outcomes []setOutcome) {
	var mu sync.Mutex // temporary files are made at once
	note := func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		if !background(op) {
			log = append(log, op)
		}
		if fail != nil {
			return fail(op)
		}
		return nil
	}
	r.trace.Rehook(func(op atomicfiletest.Op) error { return note(op.String()) })
	r.log.hook = note
	defer r.store.Subscribe(func(b *snapshot.Batch) {
		mu.Lock()
		defer mu.Unlock()
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
			mu.Lock()
			defer mu.Unlock()
			log = append(log, "answered "+req.Name)
			if outcomes[i] = (setOutcome{result, err}); i == len(reqs)-1 {
				close(done)
			}
		}))
	}
	close(leave)
	<-done
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(log), outcomes
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

func TestWritesThatWaitShareOneCommit(t *testing.T) {
	r := newRig(t)
	reqs := append(setsOf(16), SetRequest{Name: "a.json"})
	before := r.log.Stats()
	log, outcomes := r.together(nil, reqs...)
	require.EqualValues(t, len(reqs), r.log.Stats().Commits-before.Commits)
	require.EqualValues(t, 1, r.log.Stats().Groups-before.Groups)
	for i, req := range reqs {
		require.NoError(t, outcomes[i].err)
		step := "rename conf/" + req.Name
		if req.Contents == nil {
			step = "remove conf/a.json"
		}
		require.Equal(t, 1, count(log, step))
		ordered(t, log, "commit", "committed", step, "published "+req.Name, "answered "+req.Name)
		n := r.store.Snapshot().Node(req.Name)
		require.Equal(t, n.Mtime(false), outcomes[i].Mtime)
		require.Equal(t, req.Contents == nil, n.Deleted())
	}
	require.Equal(t, "", r.left("", 1).reopened(t))
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
	require.Equal(t, 1, count(log, "commit"), "what comes behind the second a.json changes nothing:\n%s", strings.Join(log, "\n"))
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
	require.Equal(t, 5, count(log, "commit"))
	require.Equal(t, "4", textOf(r.store.Snapshot().Node("a.json"), false))
	for i := 2; i < len(outcomes); i += 2 {
		require.Greater(t, outcomes[i].Mtime, outcomes[i-2].Mtime)
	}
}

// A directory and a file of one name cannot both be: the one that waits longer wins.
func TestWritesBelowOneAnotherAreNotJoined(t *testing.T) {
	at := func(name string) SetRequest { return SetRequest{Name: name, Contents: []byte("1")} }
	for _, reqs := range [][]SetRequest{
		{at("n.json"), at("n.json/x.json")},
		{at("n.json/x.json"), at("n.json")},
		{at("n.json"), at("other.json"), at("n.json/deep/x.json")},
		{at("n.json/deep/x.json"), at("other.json"), at("n.json")},
	} {
		r := newRig(t)
		_, outcomes := r.together(nil, reqs...)
		last := len(reqs) - 1
		for i := range last {
			require.NoError(t, outcomes[i].err, reqs[i].Name)
		}
		require.Equal(t, codes.BadName, codes.Of(outcomes[last].err), "%v", outcomes[last].err)
		require.Nil(t, r.store.Snapshot().Node(reqs[last].Name))
		require.Empty(t, r.store.Problems(), "every file is in place")
		_, err := r.mem.Get("/srv/conf/" + reqs[0].Name)
		require.NoError(t, err)
	}
	r := newRig(t)
	_, outcomes := r.together(nil, at("n.json"), at("n.jsonx/y.json"), at("n/x.json"))
	for i := range outcomes {
		require.NoError(t, outcomes[i].err)
	}
}

func TestWritesWithOneTokenAreNotJoined(t *testing.T) {
	r := newRig(t)
	by := func(token string) *access.Actor { return &access.Actor{Token: token} }
	log, outcomes := r.together(nil,
		SetRequest{Name: "a.json", Contents: []byte("1"), Actor: by("t")},
		SetRequest{Name: "b.json", Contents: []byte("1"), Actor: by("u")},
		SetRequest{Name: "c.json", Contents: []byte("1"), Actor: by("")},
		SetRequest{Name: "d.json", Contents: []byte("1"), Actor: by("t")},
		SetRequest{Name: "a.json", Contents: []byte("1"), Actor: by("t")},
	)
	for i, want := range []codes.Code{0, 0, 0, codes.TokenReused, 0} {
		require.Equal(t, want, codes.Of(outcomes[i].err), "%d: %v", i, outcomes[i].err)
	}
	require.Nil(t, r.store.Snapshot().Node("d.json"))
	require.Equal(t, 1, count(log, "published a.json"))
	require.Equal(t, outcomes[0].Mtime, outcomes[4].Mtime)
}

// A writer whose file cannot be made is told, and what failed does not come back; all other writes
// are carried out.
func TestFailureInAGroup(t *testing.T) {
	for name, row := range map[string]struct {
		op      string
		failed  []int
		commits int
	}{
		"a temporary file":       {"create conf/d1/.tmp", []int{1, 3}, 3},
		"the first rename":       {"rename conf/d0/a0.json", nil, 1},
		"a rename in the middle": {"rename conf/d0/a2.json", nil, 1},
		"no room in the log":     {"commit", []int{0, 1, 2, 3, 4}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, dir := range []string{"/srv/conf/d0", "/srv/conf/d1"} {
				r.mem.MakeDir(dir)
			}
			r.log.SetFull(row.op == "commit")
			log, outcomes := r.together(func(op string) error {
				if op == row.op {
					return syscall.EIO
				}
				return nil
			}, setsOf(5)...)
			require.Equal(t, row.commits, count(log, "commit"), "%s", strings.Join(log, "\n"))
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
			m := r.left("", 0)
			s, err := Open(m.cfg)
			require.NoError(t, err)
			defer s.Close()
			check(s)
			require.Empty(t, s.Problems())
		})
	}
}

// Wherever several writes are stopped: each document is the whole old one or the whole new one, the
// new one if that was acknowledged, and the start after the next says the same.
func TestStopInAGroup(t *testing.T) {
	texts := map[string]string{"a.json": newText, "b.json": `{"b":1}`, "c.json": ""}
	before := map[string]string{"a.json": oldText, "b.json": "", "c.json": "1"}
	r := newRig(t)
	_, err := setNow(t, r.store, SetRequest{Name: "c.json", Contents: []byte("1")})
	require.NoError(t, err)
	r.synced()
	i := &interleaved{rig: r}
	note := func(op string) error {
		i.note(op)
		return nil
	}
	_, outcomes := r.together(note, setA, SetRequest{Name: "b.json", Contents: []byte(`{"b":1}`)}, SetRequest{Name: "c.json"})
	for _, o := range outcomes {
		require.NoError(t, o.err)
	}
	i.note("answered")
	i.mu.Lock()
	moments := i.moments
	i.mu.Unlock()
	for _, m := range moments {
		state := func() (out []string) {
			s, err := Open(m.cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Empty(t, s.Problems())
			for name, old := range before {
				n := s.Snapshot().Node(name)
				text := ""
				if n.Live() {
					text = textOf(n, false)
				}
				require.Contains(t, []string{old, texts[name]}, text, name)
				if strings.HasPrefix(m.label, "answered") {
					require.Equal(t, texts[name], text, "%s was acknowledged", name)
				}
				file, err := m.mem.Get("/srv/conf/" + name)
				require.Equal(t, text == "", err != nil)
				require.Equal(t, text, strings.Join(strings.Fields(string(file)), ""))
				out = append(out, fmt.Sprint(name, text, n.Known() && n.Deleted()))
			}
			slices.Sort(out)
			return out
		}
		require.Equal(t, state(), state(), m.label)
	}
}
