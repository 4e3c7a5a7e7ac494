package confstore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore/place"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore/memory"
)

// model is a store as simple as can be: contents by name, and for each name the
// versions it must not fall below.
type model struct {
	contents map[string]string // "" = removed
	given    map[string]int32
	own      map[string]int32
	resolved map[string]int32
}

var modelNames = []string{"a.json", "b.json", "c.json", "d/e.json", "_meta.json"}

// metas are what _meta.json can be in the model.
var metas = []string{
	`{}`,
	`{"conf_inherit":{"c.json":"a.json b.json"}}`,
	`{"conf_inherit":{"c.json":"a.json","d/e.json":"c.json a.json"}}`,
	`{"conf_inherit":{"c.json":"a.json","d/e.json":"c.json"},"inherit_options":{"*":{"chain":true,"merge":"deep"}}}`,
}

// TestStoreAgreesWithAModel sets, deletes, edits, removes, breaks, restarts and
// loses power in any order and compares with a map after each step: contents are
// those of the last change, versions of a document and of each that inherits it
// strictly rise when it changes and otherwise stay.
func TestStoreAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fake := clocktest.NewFake(noon)
		mem := atomicfiletest.NewMem(fake.Now)
		mem.MakeDir("/srv/conf/d")
		mem.MakeDir("/srv/data")
		store := memory.New(memory.Config{})
		defer func() { store.Close() }()
		w := &world{
			t: t, mem: mem, clock: fake, cfg: Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: mem, Clock: fake, State: store, Machine: place.Machine{Boot: "x", Since: time.Unix(1, 0)}},
			model: model{contents: map[string]string{}, given: map[string]int32{}, own: map[string]int32{}, resolved: map[string]int32{}},
		}
		w.open()
		defer func() { w.store.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"set":     w.set,
			"delete":  w.delete,
			"edit":    w.edit,
			"remove":  w.remove,
			"break":   w.breakFile,
			"restart": func(*rapid.T) { require.NoError(t, w.store.Close()); w.open() },
			"kill":    w.kill,
			"wait":    func(rt *rapid.T) { fake.Advance(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second) },
			"":        func(*rapid.T) { w.check() },
		})
	})
}

// world is a store with its model.
type world struct {
	model
	t     *testing.T
	mem   *atomicfiletest.Mem
	clock *clocktest.Fake
	cfg   Config
	store *Store
	prev  *snapshot.Snapshot
}

func (w *world) open() {
	s, err := Open(w.cfg)
	require.NoError(w.t, err)
	w.store, w.prev = s, s.Snapshot()
	s.Subscribe(func(b *snapshot.Batch) {
		if len(b.Changes) == 0 || b.Seq <= b.Prev.Seq() {
			w.t.Errorf("batch %d after %d with %d changes", b.Seq, b.Prev.Seq(), len(b.Changes))
		}
	})
}

func drawText(rt *rapid.T, name string) string {
	if name == "_meta.json" {
		return rapid.SampledFrom(metas).Draw(rt, "meta")
	}
	return fmt.Sprintf(`{"v":%d}`, rapid.IntRange(0, 3).Draw(rt, "v"))
}

func drawName(rt *rapid.T) string { return rapid.SampledFrom(modelNames).Draw(rt, "name") }

// changed notes that name now has text: its version, and those of its heirs, must
// be greater at the next check.
func (w *world) changed(name, text string) {
	if old, ok := w.contents[name]; ok && old == text {
		return
	}
	w.contents[name] = text
	w.own[name]++ // what is checked is "not below": one more is strictly greater
	for _, heir := range w.heirs(name) {
		w.resolved[heir]++
	}
	w.resolved[name]++
}

func (w *world) heirs(name string) (out []string) {
	m := w.store.Snapshot().Meta()
	for _, heir := range m.Names() {
		bases, _ := m.Bases(heir)
		for _, base := range bases {
			if base == name && w.own[heir] > 0 {
				out = append(out, heir)
			}
		}
	}
	return out
}

func (w *world) set(rt *rapid.T) {
	name := drawName(rt)
	text := drawText(rt, name)
	req := SetRequest{Name: name, Contents: []byte(text), Exact: rapid.Bool().Draw(rt, "exact")}
	if req.Exact {
		req.Contents = append(req.Contents, rapid.SampledFrom([]string{"", "\n", " \t"}).Draw(rt, "end")...)
	}
	if rapid.Bool().Draw(rt, "mtime given") {
		req.HasMtime, req.Mtime = true, int32(noon.Unix())+int32(rapid.IntRange(-5, 5).Draw(rt, "mtime"))
	}
	r, err := setNow(w.t, w.store, req)
	if codes.Of(err) == codes.Older {
		require.Less(w.t, req.Mtime, w.store.Snapshot().Node(name).GivenMtime())
		require.Equal(w.t, w.store.Snapshot().Node(name).Mtime(false), r.Mtime)
		return
	}
	require.NoError(w.t, err)
	require.Equal(w.t, w.store.Snapshot().Node(name).Mtime(false), r.Mtime)
	w.changed(name, text)
}

func (w *world) delete(rt *rapid.T) {
	name := drawName(rt)
	_, err := setNow(w.t, w.store, SetRequest{Name: name})
	require.NoError(w.t, err)
	if w.known(name) {
		w.changed(name, "")
	}
}

// known also takes in a tombstone.
func (w *world) known(name string) bool { _, ok := w.contents[name]; return ok }

func (w *world) edit(rt *rapid.T) {
	name := drawName(rt)
	text := drawText(rt, name)
	mtime := noon.Add(time.Duration(rapid.IntRange(-9, 9).Draw(rt, "mtime")) * time.Second)
	require.NoError(w.t, w.mem.Put("/srv/conf/"+name, []byte(text), mtime))
	w.store.Reload()
	w.changed(name, text)
}

func (w *world) remove(rt *rapid.T) {
	name := drawName(rt)
	require.NoError(w.t, w.mem.Drop("/srv/conf/"+name))
	w.store.Reload()
	if w.known(name) {
		w.changed(name, "")
	}
}

func (w *world) breakFile(rt *rapid.T) {
	name := drawName(rt)
	if w.contents[name] == "" {
		return // there is no last good version
	}
	require.NoError(w.t, w.mem.Put("/srv/conf/"+name, []byte(`{"half":`), noon))
	w.store.Reload()
}

// kill leaves the store where it is and opens what the disk has, with or without
// what was not fsynced.
func (w *world) kill(rt *rapid.T) {
	lose := rapid.Uint64Range(0, 5).Draw(rt, "losses")
	left := w.mem.Crash(losses(lose))
	require.NoError(w.t, w.store.Close())
	w.mem, w.cfg.FS = left, left
	if lose > 0 {
		w.cfg.Machine = place.Machine{Boot: w.cfg.Machine.Boot + "x", Since: w.clock.Now().Add(time.Hour)}
	}
	w.open()
}

func (w *world) check() {
	now := w.store.Snapshot()
	for name, text := range w.contents {
		n := now.Node(name)
		require.NotNil(w.t, n, name)
		require.Equal(w.t, text == "", n.Deleted(), name)
		if text != "" {
			var compact bytes.Buffer
			compact.WriteString(text)
			require.Equal(w.t, compact.String(), textOf(n, false), name)
		}
		w.checkVersion(name, "own", w.own, n.Mtime(false))
		w.checkVersion(name, "resolved", w.resolved, n.Mtime(true))
		require.GreaterOrEqual(w.t, n.Mtime(true), n.Mtime(false))
	}
	require.Len(w.t, now.Names(), len(w.contents))
	require.GreaterOrEqual(w.t, now.Seq(), w.prev.Seq())
	w.prev = now
}

func (w *world) checkVersion(name, what string, atLeast map[string]int32, v int32) {
	require.GreaterOrEqual(w.t, v, atLeast[name], "%s version of %s", what, name)
	atLeast[name] = v
}
