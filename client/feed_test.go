package client

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
)

// A server may name only the base that has changed.
func TestWatchToldOfTheBaseOnly(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"a":1}`, "base.json": `{"b":1}`})
	s.bases["a.json"], s.baseOnly = []string{"base.json"}, true
	st, _ := watch(t, dial(t, s), Query{Name: "a.json", Merged: true})
	st.want(`{"b":1,"a":1}`)
	s.set("base.json", `{"b":2}`)
	st.want(`{"b":2,"a":1}`)
}

// A fetch that the server refuses is tried again, whatever the notice was.
func TestFetchRefusedAfterANotice(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"a":1}`, "base.json": `{"b":1}`})
	s.bases["a.json"], s.baseOnly = []string{"base.json"}, true
	st, _ := watch(t, dial(t, s), Query{Name: "a.json", Merged: true})
	st.want(`{"b":1,"a":1}`)
	refused := 0
	s.change(func(s *fakeServer) {
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command != protocol.GetConfig || refused == 2 {
				return false
			}
			refused++ // on the connection's goroutine only
			c.reply(h, protocol.AppendResult(nil, int(codes.Busy), "try again"))
			return true
		}
	})
	s.set("base.json", `{"b":2}`)
	st.want(`{"b":2,"a":1}`)
}

// A notice that comes while the answer to an earlier one is on its way is not
// forgotten with it.
func TestNoticeDuringAFetch(t *testing.T) {
	c := &Client{feeds: map[feedKey]*feed{{name: "a", merged: true}: nil}}
	f := &feed{c: c, key: feedKey{name: "a"}, wake: make(chan struct{}, 1), version: 100}
	f.announce(101) // of the merged document
	target, more := f.wanting()
	require.True(t, more)
	f.announce(102) // of the file itself
	require.False(t, f.behind(target))
	target, more = f.wanting()
	require.True(t, more)
	require.False(t, f.behind(target))
	_, more = f.wanting()
	require.False(t, more, "what cannot be reached is forgotten")
}

// A server that pushes before it can give the new version is asked again, after a
// while, until it does.
func TestFetchUntilTheVersionToldOf(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	fake := clocktest.NewFake(time.Unix(1000, 0))
	cfg := quick(s)
	cfg.Clock = fake
	c := dialWith(t, cfg)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	s.each(func(fc *fakeConn) { fc.pushLocked(protocol.Change{File: "a.json", Mtime: 105}) })
	for asked := 2; asked < 6; asked++ {
		eventually(t, func() bool {
			fake.Advance(cfg.MaxBackoff) // the answer may not have been read yet
			return len(s.requests(protocol.GetConfig)) >= asked
		}, "it asks again")
	}
	require.Contains(t, s.requests(protocol.GetConfig)[3], `"gt_mtime":100`)
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{105, `2`} })
	eventually(t, func() bool {
		fake.Advance(cfg.MaxBackoff)
		return len(st.c) > 0
	}, "it is there")
	st.want(`2`)
}

// settled waits until a feed has nothing left to ask for.
func settled(t *testing.T, c *Client, key feedKey) {
	t.Helper()
	c.mu.Lock()
	f := c.feeds[key]
	c.mu.Unlock()
	eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.target <= f.version && !f.suspect
	}, "the feed is settled")
}

// What cannot be reached is not asked for again and again: the version of a file
// that has gone, that of the merged document for the file alone, and that of
// another session.
func TestVersionsThatDoNotCome(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"a":1}`, "base.json": `{"b":1}`})
	s.bases["a.json"] = []string{"base.json"}
	c := dial(t, s)
	watch(t, c, Query{Name: "gone.json"})
	watch(t, c, Query{Name: "a.json"})
	merged, _ := watch(t, c, Query{Name: "a.json", Merged: true})
	merged.want(`{"b":1,"a":1}`)
	s.each(func(fc *fakeConn) { fc.pushLocked(protocol.Change{File: "gone.json", Mtime: 105}) })
	s.set("base.json", `{"b":2}`)
	merged.want(`{"b":2,"a":1}`)
	settled(t, c, feedKey{name: "gone.json"})
	settled(t, c, feedKey{name: "a.json"})

	s.each(func(fc *fakeConn) { fc.pushLocked(protocol.Change{File: "a.json", Mtime: 500}) })
	s.stop()
	s.change((*fakeServer).forget)
	s.restart()
	eventually(t, func() bool { return c.Connected() && c.Epoch() == "e1x" }, "it comes back")
	settled(t, c, feedKey{name: "a.json", merged: true})
	settled(t, c, feedKey{name: "a.json"})
}

// A server does not push what was there when another follower subscribed to the same;
// the reply to that has to do.
func TestSharedSubscription(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	c := dial(t, s)
	one, _ := watch(t, c, Query{Name: "a.json"})
	one.want(`1`)
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{105, `2`} }) // no push
	two, _ := watch(t, c, Query{Name: "a.json", Merged: true})
	two.want(`2`)
	one.want(`2`)
}

// CppCloud's server has no epoch and no paths: its versions are not relied on
// across connections, and every push is of a whole document.
func TestWatchOnCppCloud(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":1}`})
	s.epoch = ""
	c := dial(t, s)
	part, _ := watch(t, c, Query{Name: "a.json", Path: "/k"})
	part.want(`1`)
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{101, `{"k":2}`} })
	s.each(func(fc *fakeConn) { fc.pushLocked(protocol.Change{File: "a.json", Mtime: 101}) })
	part.want(`2`)
	s.stop()
	s.change(func(s *fakeServer) { s.docs["a.json"] = fakeDoc{101, `{"k":3}`} })
	s.restart()
	part.want(`3`)
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
	s := newFakeServer(t, map[string]string{"same.json": `1`, "other.json": `1`, "gone.json": `1`, "equal.json": `1`})
	c := dial(t, s)
	equal, _ := watch(t, c, Query{Name: "equal.json"})
	equal.want(`1`)
	same, ws := watch(t, c, Query{Name: "same.json"})
	other, _ := watch(t, c, Query{Name: "other.json"})
	gone, _ := watch(t, c, Query{Name: "gone.json"})
	same.want(`1`)
	other.want(`1`)
	gone.want(`1`)
	s.stop()
	s.change(func(s *fakeServer) {
		s.epoch, s.clock = "e2", 10
		s.docs = map[string]fakeDoc{"same.json": {10, `1`}, "other.json": {10, `2`}, "equal.json": {100, `2`}}
	})
	s.restart()
	require.EqualValues(t, 10, other.want(`2`).Mtime)
	gone.want("")
	equal.want(`2`)
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
