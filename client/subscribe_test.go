package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	_, err := c.Get(t.Context(), "a.json") // whatever Stop has sent is through
	require.NoError(t, err)
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
	proceed := make(chan struct{})
	slow := func(name string) (*states, *Watch) {
		st, entered := newStates(t), make(chan struct{}, 10)
		w, err := c.Watch(t.Context(), Query{Name: name}, func(d *Document) {
			st.add(d)
			entered <- struct{}{}
			<-proceed
		})
		require.NoError(t, err)
		<-entered
		st.want(`0`)
		return st, w
	}
	a, wa := slow("a.json")
	b, wb := slow("b.json")
	for i := 1; i <= 50; i++ {
		s.set("a.json", fmt.Sprint(i))
		mtime := s.set("b.json", fmt.Sprint(i%2)) // ends where it began
		eventually(t, func() bool { return wb.Document().Mtime == mtime }, "the client follows while the callback hangs")
	}
	eventually(t, func() bool { return string(wa.Document().Raw()) == `50` }, "the newest is known")
	close(proceed)
	a.want(`50`)
	s.set("b.json", `9`)
	b.want(`9`)
	a.none()
	b.none()
}

// A watch that is stopped while its turn is due is not called any more.
func TestStopWhileDue(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `0`})
	c := dial(t, s)
	entered, proceed := make(chan struct{}, 10), make(chan struct{})
	w, err := c.Watch(t.Context(), Query{Name: "a.json"}, func(*Document) { entered <- struct{}{}; <-proceed })
	require.NoError(t, err)
	<-entered
	s.set("a.json", `1`)
	eventually(t, func() bool { return string(w.Document().Raw()) == `1` }, "its turn is due")
	w.Stop()
	close(proceed)
	require.NoError(t, c.Close(), "which waits for the callback")
	require.Empty(t, entered)
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
