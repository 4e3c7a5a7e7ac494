package client

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/protocol"
)

func TestWatchGivesStateThenChanges(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1}`})
	c := dial(t, s)
	st, w := watch(t, c, Query{Name: "a.json"})
	require.EqualValues(t, 100, st.want(`{"k":1}`).Mtime)
	for i := 2; i < 20; i++ {
		mtime := s.set("a.json", fmt.Sprintf(`{"k":%d}`, i))
		d := st.want(fmt.Sprintf(`{"k":%d}`, i))
		require.Equal(t, mtime, d.Mtime)
	}
	require.Equal(t, `{"k":19}`, string(w.Document().Raw()))
	s.set("a.json", "")
	st.want("")
	s.set("a.json", `{"k":1}`)
	st.want(`{"k":1}`)
}

func TestWatchFileThatIsNotThereYet(t *testing.T) {
	s := newFakeServer(t, nil)
	st, w := watch(t, dial(t, s), Query{Name: "new.json", Merged: true})
	d := st.want("")
	require.Equal(t, "new.json", d.Name)
	require.Zero(t, d.Mtime)
	require.ErrorIs(t, d.Decode("", &struct{}{}), codes.NotFound)
	s.set("new.json", `{}`)
	st.want(`{}`)
	require.True(t, w.Document().Exists())
}

// A new version with the same contents is no news, also when the file's path is
// what is watched.
func TestWatchReportsRealChangesOnly(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1,"x":1}`})
	c := dial(t, s)
	whole, w := watch(t, c, Query{Name: "a.json"})
	part, _ := watch(t, c, Query{Name: "a.json", Path: "/k"})
	whole.want(`{"k":1,"x":1}`)
	part.want(`1`)
	mtime := s.set("a.json", `{"k":1,"x":1}`)
	eventually(t, func() bool { return w.Document().Mtime == mtime }, "the version is known")
	s.set("a.json", `{"k":1,"x":2}`)
	whole.want(`{"k":1,"x":2}`)
	s.set("a.json", `{"x":2}`)
	whole.want(`{"x":2}`)
	part.want("")
	whole.none()
	part.none()
}

// Each watch of a document has its own turn, all of them one feed.
func TestWatchesShareAFeed(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	one, w1 := watch(t, c, Query{Name: "a.json"})
	one.want(`1`)
	two, w2 := watch(t, c, Query{Name: "a.json"})
	two.want(`1`)
	require.Len(t, s.requests(protocol.BookCfgChange), 1)
	s.set("a.json", `2`)
	one.want(`2`)
	two.want(`2`)
	w1.Stop()
	s.set("a.json", `3`)
	two.want(`3`)
	one.none()
	require.Len(t, s.requests(protocol.BookCfgChange), 1, "the subscription is still in use")
	w2.Stop()
	w2.Stop()
	eventually(t, func() bool { return len(s.requests(protocol.BookCfgChange)) == 2 }, "unsubscribed")
	require.Contains(t, s.requests(protocol.BookCfgChange)[1], `"unsubscribe":1`)
	require.Empty(t, c.feeds)

	three, _ := watch(t, c, Query{Name: "a.json"})
	three.want(`3`)
	s.set("a.json", `4`)
	three.want(`4`)
}

// The merged form and the file alone live on one subscription, which has to keep
// the bases as long as the merged form is followed.
func TestWatchBothForms(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"a":1}`, "base.json": `{"b":1}`})
	s.bases["a.json"] = []string{"base.json"}
	c := dial(t, s)
	merged, wm := watch(t, c, Query{Name: "a.json", Merged: true})
	alone, _ := watch(t, c, Query{Name: "a.json"})
	part, _ := watch(t, c, Query{Name: "a.json", Path: "/a"})
	mergedPart, _ := watch(t, c, Query{Name: "a.json", Path: "/b", Merged: true})
	merged.want(`{"b":1,"a":1}`)
	alone.want(`{"a":1}`)
	part.want(`1`)
	mergedPart.want(`1`)
	s.set("base.json", `{"b":2}`)
	merged.want(`{"b":2,"a":1}`)
	mergedPart.want(`2`)
	s.set("a.json", `{"a":2}`)
	merged.want(`{"b":2,"a":2}`)
	alone.want(`{"a":2}`)
	part.want(`2`)
	wm.Stop()
	s.set("a.json", `{"a":3}`)
	alone.want(`{"a":3}`)
	part.want(`3`)
	s.drop()
	s.set("a.json", `{"a":4}`)
	alone.want(`{"a":4}`)
	part.want(`4`)
	alone.none()
	merged.none()
	mergedPart.none()
}

// A server may name only the base that has changed.
func TestWatchToldOfTheBaseOnly(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"a":1}`, "base.json": `{"b":1}`})
	s.bases["a.json"], s.baseOnly = []string{"base.json"}, true
	st, _ := watch(t, dial(t, s), Query{Name: "a.json", Merged: true})
	st.want(`{"b":1,"a":1}`)
	s.set("base.json", `{"b":2}`)
	st.want(`{"b":2,"a":1}`)
}

// A server that pushes before it can give the new version is asked until it does.
func TestFetchUntilTheVersionToldOf(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	s.each(func(fc *fakeConn) { fc.pushLocked(protocol.Change{File: "a.json", Mtime: 105}) })
	eventually(t, func() bool { return len(s.requests(protocol.GetConfig)) >= 4 }, "it asks again")
	require.Contains(t, s.requests(protocol.GetConfig)[3], `"gt_mtime":100`)
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{105, `2`} })
	st.want(`2`)
}

// Changes that came while the connection was away are reported once, those that
// did not come are not reported.
func TestWatchSurvivesReconnect(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`, "b.json": `1`, "c.json": `1`})
	c := dial(t, s)
	a, _ := watch(t, c, Query{Name: "a.json"})
	b, _ := watch(t, c, Query{Name: "b.json"})
	absent, _ := watch(t, c, Query{Name: "x.json"})
	a.want(`1`)
	b.want(`1`)
	absent.want("")
	s.stop()
	s.set("a.json", `2`)
	s.set("x.json", `{}`)
	s.restart()
	a.want(`2`)
	absent.want(`{}`)
	s.set("b.json", `2`)
	b.want(`2`)
	a.none()
	b.none()
	absent.none()

	var renewed []string
	for _, line := range s.requests(protocol.BookCfgChange) {
		if bytes.Contains([]byte(line), []byte(`"mtime":100`)) {
			renewed = append(renewed, line)
		}
	}
	require.Len(t, renewed, 2, "renewed with the version that is there")
}

// With another epoch versions mean nothing: everything is fetched and compared.
func TestWatchOtherEpoch(t *testing.T) {
	s := newFakeServer(t, map[string]string{"same.json": `1`, "other.json": `1`, "gone.json": `1`})
	c := dial(t, s)
	same, ws := watch(t, c, Query{Name: "same.json"})
	other, _ := watch(t, c, Query{Name: "other.json"})
	gone, _ := watch(t, c, Query{Name: "gone.json"})
	same.want(`1`)
	other.want(`1`)
	gone.want(`1`)
	s.stop()
	s.change(func(s *fakeServer) {
		s.epoch, s.clock = "e2", 10
		s.docs = map[string]fakeDoc{"same.json": {10, `1`}, "other.json": {10, `2`}}
	})
	s.restart()
	require.EqualValues(t, 10, other.want(`2`).Mtime)
	gone.want("")
	eventually(t, func() bool { return ws.Document().Mtime == 10 }, "the new version is known")
	require.Equal(t, "e2", c.Epoch())
	s.set("same.json", `2`) // version 11 is less than the 100 of the other epoch
	same.want(`2`)
	same.none()
}

// A server that has lost what it had under the same epoch is believed.
func TestWatchVersionFell(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	st, _ := watch(t, dial(t, s), Query{Name: "a.json"})
	st.want(`1`)
	s.stop()
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{7, `0`} })
	s.restart()
	st.want(`0`)
}

// A server that refuses to subscribe again is asked again and reported.
func TestWatchRefusedAfterReconnect(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	var errs collector
	cfg := quick(s)
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	s.stop()
	refuse := true
	s.change(func(s *fakeServer) {
		s.docs["a.json"] = fakeDoc{101, `2`}
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if h.Command == protocol.BookCfgChange && refuse {
				c.reply(h, protocol.AppendResult(nil, int(codes.Limit), "too many subscriptions"))
				return true
			}
			return false
		}
	})
	s.restart()
	eventually(t, func() bool { return errs.has(codes.Limit) }, "OnError is told")
	s.change(func(*fakeServer) { refuse = false })
	st.want(`2`)
}

func TestWatchGivesUpWithItsContext(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.script = func(_ *fakeConn, h protocol.Header, _ []byte) bool { return h.Command == protocol.BookCfgChange }
	c := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Watch(ctx, Query{Name: "a.json"}, func(*Document) { t.Error("called after an error") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.feeds) == 0
	}, "nothing is left")
}

// The context given to Watch limits the beginning only.
func TestWatchOutlivesItsContext(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	st := newStates(t)
	_, err := c.Watch(ctx, Query{Name: "a.json"}, st.add)
	require.NoError(t, err)
	cancel()
	st.want(`1`)
	s.set("a.json", `2`)
	st.want(`2`)
}

// A slow callback skips states, never goes back and ends at the newest; what it
// has seen last is not reported again.
func TestSlowCallbackCoalesces(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`, "b.json": `0`})
	c := dial(t, s)
	entered, proceed := make(chan struct{}, 10), make(chan struct{})
	st := newStates(t)
	w, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(d *Document) {
		st.add(d)
		entered <- struct{}{}
		<-proceed
	})
	require.NoError(t, err)
	b, wb := watch(t, c, Query{Name: "b.json"})
	<-entered
	st.want(`0`)
	for i := 1; i <= 50; i++ {
		s.set("a.json", fmt.Sprint(i))
		mtime := s.set("b.json", fmt.Sprint(i%2)) // ends where it began
		eventually(t, func() bool { return wb.Document().Mtime == mtime }, "the client follows while the callback hangs")
	}
	eventually(t, func() bool { return string(w.Document().Raw()) == `50` }, "the newest is known")
	c.callbacks.mu.Lock()
	require.LessOrEqual(t, len(c.callbacks.queue), 2)
	c.callbacks.mu.Unlock()
	b.none()
	close(proceed)
	st.want(`50`)
	b.want(`0`)
	st.none()
	b.none()
}

// A callback may use the client in any way.
func TestCallbackCallsBack(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`, "b.json": `2`})
	c := dial(t, s)
	done := make(chan string, 1)
	var own *Watch
	started := make(chan struct{})
	own, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) {
		<-started
		d, err := c.Get(context.Background(), "b.json")
		if err != nil {
			done <- err.Error()
			return
		}
		if _, err = c.Set(context.Background(), SetRequest{Name: "c.json", Contents: d.Raw()}); err != nil {
			done <- err.Error()
			return
		}
		w, err := c.Watch(context.Background(), Query{Name: "c.json"}, func(*Document) {})
		if err != nil {
			done <- err.Error()
			return
		}
		w.Stop()
		own.Stop()
		done <- string(w.Document().Raw())
	})
	require.NoError(t, err)
	close(started)
	require.Equal(t, `2`, <-done)
	s.set("a.json", `9`)
	_, err = c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Empty(t, done)
}

// Callbacks of all watches run one at a time.
func TestCallbacksOneAtATime(t *testing.T) {
	s := newFakeServer(t, nil)
	c := dial(t, s)
	var mu sync.Mutex
	calls := make(chan struct{}, 1000)
	for i := range 20 {
		_, err := c.Watch(t.Context(), Query{Name: fmt.Sprint(i)}, func(*Document) {
			if !mu.TryLock() {
				t.Error("two callbacks at once")
				return
			}
			calls <- struct{}{}
			mu.Unlock()
		})
		require.NoError(t, err)
	}
	for range 20 {
		<-calls
	}
}

func TestMainConfigFollowsMeta(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"f":"a"}`, "b.json": `{"f":"b"}`, "c.json": `{"f":"b"}`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st := newStates(t)
	w, err := c.WatchMain(t.Context(), st.add)
	require.NoError(t, err)
	h, err := Bind[map[string]string](t.Context(), c, Query{Merged: true})
	require.NoError(t, err)
	require.Equal(t, "a.json", st.want(`{"f":"a"}`).Name)
	s.set("a.json", `{"f":"a2"}`)
	st.want(`{"f":"a2"}`)

	assign := func(name string) {
		s.change(func(s *fakeServer) { s.mainConf = name })
		s.set(metaFile, fmt.Sprintf(`{"main":%q}`, name))
	}
	assign("b.json")
	require.Equal(t, "b.json", st.want(`{"f":"b"}`).Name)
	require.Equal(t, "b.json", c.MainConfig())
	eventually(t, func() bool { return (*h.Load())["f"] == "b" }, "handles move too")
	s.set("a.json", `{"f":"a3"}`) // no longer ours

	assign("c.json") // says the same
	eventually(t, func() bool { return w.Document().Name == "c.json" }, "it follows the new file")
	s.set("c.json", `{"f":"c"}`)
	st.want(`{"f":"c"}`)

	assign("")
	require.Empty(t, st.want("").Name)
	require.ErrorIs(t, h.Err(), codes.NotFound)
	assign("b.json")
	st.want(`{"f":"b"}`)
	st.none()
	require.Len(t, c.ids(t, s), 1, "a repeated WHOAMI keeps the id")
}

// ids are the ids the client asked for after the first time.
func (c *Client) ids(t *testing.T, s *fakeServer) map[string]bool {
	found := map[string]bool{}
	for _, line := range s.requests(protocol.Whoami)[1:] {
		var r protocol.Request
		require.NoError(t, r.Parse([]byte(line)))
		id, _ := r.Int("svrid")
		found[fmt.Sprint(id)] = true
	}
	return found
}

// The server assigns another main config while the client is away.
func TestMainConfigMovesDuringReconnect(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `"a"`, "b.json": `"b"`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st := newStates(t)
	_, err := c.WatchMain(t.Context(), st.add)
	require.NoError(t, err)
	st.want(`"a"`)
	s.stop()
	s.change(func(s *fakeServer) { s.mainConf = "b.json" })
	s.restart()
	st.want(`"b"`)
	s.set("b.json", `"b2"`)
	st.want(`"b2"`)
}

// Only who follows the main config follows _meta.json.
func TestMetaIsFollowedOnDemand(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	for _, line := range s.requests(protocol.BookCfgChange) {
		require.NotContains(t, line, metaFile)
	}
}

// forget makes s another server with the same documents and lower versions.
func (s *fakeServer) forget() {
	s.epoch += "x"
	s.clock -= 5
	for name, doc := range s.docs {
		s.docs[name] = fakeDoc{s.clock, doc.contents}
	}
}

// Whatever happens in whatever order, a watch sees no state twice in a row, only
// states that were there, and the last one.
func TestWatchMissesNothing(t *testing.T) {
	s := newFakeServer(t, nil)
	rapid.Check(t, func(rt *rapid.T) {
		s.change(func(s *fakeServer) { s.docs, s.clock = map[string]fakeDoc{}, 1000 })
		c, err := Dial(context.Background(), quick(s))
		require.NoError(rt, err)
		defer c.Close()
		names := []string{"a.json", "b.json"}
		seen := map[string]*states{}
		had := map[string]map[string]bool{}
		for _, name := range names {
			seen[name], _ = watch(t, c, Query{Name: name, Merged: rapid.Bool().Draw(rt, "merged")})
			had[name] = map[string]bool{"": true}
		}
		serial := 0
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				s.drop()
			case 1:
				s.change((*fakeServer).forget)
				s.drop()
			case 2:
				s.set(name, "")
			default:
				serial++
				text := fmt.Sprint(serial / 2) // sometimes the same again
				had[name][text] = true
				s.set(name, text)
			}
		}
		for _, name := range names {
			s.set(name, `"end"`)
			last := "none"
			for last != `"end"` {
				d := seen[name].next()
				text := string(d.Raw())
				require.NotEqual(rt, last, text, "reported twice")
				require.True(rt, had[name][text] || text == `"end"`, "never was there: %s", text)
				last = text
			}
		}
	})
}
