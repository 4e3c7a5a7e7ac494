package confstore

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
)

// documents is what a store serves, file by file, as far as it matters which of two it is.
func documentsOf(s *Store) string {
	var list []string
	for _, name := range s.Snapshot().Names() {
		text := textOf(s.Snapshot().Node(name), false)
		if s.Snapshot().Node(name).Deleted() {
			text = "none"
		}
		list = append(list, name+"="+text[:min(len(text), 12)])
	}
	return strings.Join(list, " ")
}

// reopenedAll is what a store serves that is opened on what is left; its files are the same.
func (m *moment) reopenedAll(t *testing.T) (was string) {
	t.Helper()
	for i := range 2 {
		s, err := Open(m.cfg)
		require.NoError(t, err, m.label)
		require.Empty(t, s.Problems(), m.label)
		if i > 0 {
			require.Equal(t, was, documentsOf(s), m.label)
		}
		was = documentsOf(s)
		for _, name := range s.Snapshot().Names() {
			n := s.Snapshot().Node(name)
			file, err := m.mem.Get("/srv/conf/" + name)
			require.Equal(t, n.Deleted(), err != nil, "%s %s", name, m.label)
			if !n.Deleted() {
				require.Equal(t, n.Hash(), log.DigestOf(file), "%s %s", name, m.label)
			}
		}
		root, err := m.mem.OpenRoot("/srv/conf")
		require.NoError(t, err)
		entries, err := root.ReadDir(".")
		require.NoError(t, err)
		for _, e := range entries {
			require.False(t, atomicfile.IsTemp(e.Name()), "%s: a temporary file was left", m.label)
		}
		require.NoError(t, s.Close())
	}
	return was
}

// changedRig is a rig on which several documents are.
func changedRig(t *testing.T) *interleaved {
	r := newRig(t)
	for _, name := range []string{"b.json", "gone.json"} {
		require.NoError(t, r.mem.Put("/srv/conf/"+name, []byte(oldText), time.Unix(1000, 0)))
	}
	r.store.Reload()
	r.synced()
	return &interleaved{rig: r, may: []string{documentsOf(r.store)}}
}

// The file of one document cannot be made, or not be put in place.
func TestAChangeOnADiskThatRefusesAFile(t *testing.T) {
	for _, op := range []string{"create conf/.tmp", "write conf/.tmp", "commit", "rename conf/b.json", "remove conf/gone.json"} {
		t.Run(op, func(t *testing.T) {
			i := changedRig(t)
			var mu sync.Mutex
			sick, n := true, 0
			i.trace.Rehook(func(is atomicfiletest.Op) error {
				mu.Lock()
				defer mu.Unlock()
				if is.String() != op {
					return nil
				}
				if n++; sick && (!strings.Contains(op, ".tmp") || n > 1) { // the second file's, in whichever order they are made
					return syscall.EIO
				}
				return nil
			})
			i.log.SetFull(op == "commit")
			was := documentsOf(i.store)
			list := []change.Document{write("a.json", newText), write("b.json", newText), {Name: "gone.json"}}
			r, err := changeNow(t, i.store, change.Request{Documents: list})
			want := fmt.Sprintf("a.json=%s b.json=%[1]s gone.json=none", newText)
			placed := strings.HasPrefix(op, "re")
			if placed {
				require.NoError(t, err)
				require.NotZero(t, r.Revision)
				require.Len(t, i.store.Problems(), 1)
				i.store.Reload()
			} else {
				require.Equal(t, codes.Storage, codes.Of(err))
				require.Empty(t, r.Told)
				want = was
			}
			require.Equal(t, want, documentsOf(i.store))
			for seed := range uint64(4) {
				require.Equal(t, want, i.left(op, seed).reopenedAll(t))
			}
			mu.Lock()
			sick = false
			mu.Unlock()
			i.log.SetFull(false)
			if placed {
				(&kit{t: t, Store: i.store}).inside(func() { i.store.intake.retryPlacing() })
			} else {
				_, err = changeNow(t, i.store, change.Request{Documents: list})
				require.NoError(t, err)
			}
			require.Empty(t, i.store.Problems())
			i.synced()
			for seed := range uint64(2) {
				require.Equal(t, fmt.Sprintf("a.json=%s b.json=%[1]s gone.json=none", newText), i.left(op, seed).reopenedAll(t))
			}
		})
	}
}

// A change that the log takes late is served in one step, too.
func TestAChangeThatADiskHoldsUpIsOneBatch(t *testing.T) {
	p := newPatient(t, sickData)
	p.put("b.json", oldText)
	p.open()
	waits, thaw := p.disk.hangs()
	answer := make(chan changeOutcome, 1)
	require.NoError(t, p.Change(change.Request{Documents: []change.Document{write("a.json", newText), write("b.json", newText), write("c.json", newText)}}, func(r change.Result, err error) { answer <- changeOutcome{r, err} }))
	<-waits
	p.await("the hanging disk to be noticed", func() bool { return p.Trouble() != nil })
	thaw()
	r := <-answer
	require.NoError(t, r.err)
	require.Equal(t, []string{"a.json", "b.json", "c.json"}, names(p.next()))
	p.recovers()
	for _, lose := range []bool{true, false} {
		k := p.left(lose)
		for _, name := range []string{"a.json", "b.json", "c.json"} {
			require.Equal(t, newText, k.text(name))
			require.Equal(t, p.mtime(name), k.mtime(name), name)
		}
		require.NoError(t, k.Close())
	}
	d, err := p.writer.log.Document("c.json")
	require.NoError(t, err)
	require.Equal(t, d.Revision, r.Revision)
}

// What a start cannot put in place is older than what it can: the mark of what is durable stays
// below it.
func TestAFileThatAStartCannotPlaceIsNotMarkedAsDurable(t *testing.T) {
	i := changedRig(t)
	i.trace.Rehook(func(op atomicfiletest.Op) error {
		if op.String() == "rename conf/b.json" || op.String() == "rename conf/a.json" {
			return syscall.EIO
		}
		return nil
	})
	_, err := setNow(t, i.store, SetRequest{Name: "b.json", Contents: []byte(newText)})
	require.NoError(t, err)
	_, err = setNow(t, i.store, SetRequest{Name: "a.json", Contents: []byte(newText)})
	require.NoError(t, err)
	m := i.left("", 0)
	trace := &atomicfiletest.Trace{FS: m.mem, Hook: func(op atomicfiletest.Op) error {
		if op.String() == "rename conf/b.json" {
			return syscall.EIO
		}
		return nil
	}}
	cfg := m.cfg
	cfg.FS = trace
	s, err := Open(cfg)
	require.NoError(t, err)
	require.Len(t, s.Problems(), 1)
	require.NoError(t, s.Close())
	require.Equal(t, documentsOf(i.store), m.reopenedAll(t), "the old file is no edit")
}
