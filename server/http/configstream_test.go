package http

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv/follow"
	"confcenter/server/http/sse"
)

const configStreamURL = configRoot + "stream"

// told is an event of a configuration stream in short: name, state, sequence above
// base, and the id above base if there is a new one.
func told(t testing.TB, base uint64, s *eventSource, n int) (out []string) {
	t.Helper()
	before := s.last
	for range n {
		m, ok := s.next()
		require.True(t, ok, "the stream ended; before: %v", out)
		text := m.event
		if m.event == "config" {
			var f fileAnswer
			d := json.NewDecoder(strings.NewReader(m.data))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&f), m.data)
			text = f.Name + " " + f.State
			if f.Gone {
				text += " gone"
			}
			text += fmt.Sprintf(" %d", int64(f.Seq)-int64(base))
		}
		if m.last != before {
			var id uint64
			_, err := fmt.Sscan(s.number(m.last), &id)
			require.NoError(t, err, m.last)
			text += fmt.Sprintf(" @%d", int64(id)-int64(base))
		}
		before = m.last
		out = append(out, text)
	}
	return out
}

func (k *configKit) seq() uint64 { return k.files.Snapshot().Seq() }

func (k *configKit) put(name, text string) {
	k.t.Helper()
	a := k.do("PUT", fileQuery(name), text)
	require.Equal(k.t, 200, a.status, a.body)
}

func TestConfigStreamTellsOfAllThatIsShown(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1", "heir.json": "{}", "never.json": "{", "_meta.json": `{"conf_inherit":{"heir.json":"a.json"}}`})
	base := k.seq()
	s := k.listen(configStreamURL, "")
	first := told(t, base, s, 5)
	require.Equal(t, "synced @0", first[4])
	require.Equal(t, []string{"_meta.json good", "a.json good", "heir.json good", "never.json broken"}, cutLast(first[:4]))

	k.put("a.json", "2")
	require.Equal(t, []string{"a.json good 1", "heir.json good 1 @1"}, told(t, base, s, 2), "a base and its heir have one change")
	k.edit("a.json", "{")
	require.Equal(t, []string{"a.json broken 1"}, told(t, base, s, 1), "no sequence tells of that")
	k.edit("a.json", "2")
	require.Equal(t, []string{"a.json good 1"}, told(t, base, s, 1))
	k.edit("never.json", "{}")
	require.Equal(t, []string{"never.json good 2 @2"}, told(t, base, s, 1))
	k.edit("bad.json", "{")
	require.Equal(t, []string{"bad.json broken 2"}, told(t, base, s, 1))
	k.remove("bad.json")
	require.Equal(t, []string{"bad.json deleted gone 2"}, told(t, base, s, 1))
	require.Equal(t, 200, k.do("DELETE", fileQuery("never.json"), "").status)
	require.Equal(t, []string{"never.json deleted 3 @3"}, told(t, base, s, 1))
}

func cutLast(list []string) (out []string) {
	for _, text := range list {
		out = append(out, text[:strings.LastIndexByte(text, ' ')])
	}
	return out
}

func TestConfigStreamResumes(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1", "b.json": "1", "c.json": "1"})
	base := k.seq()
	at := func(n uint64) string { return k.id(base + n) }
	k.put("a.json", "2")
	k.put("b.json", "2")
	k.put("a.json", "3")
	for _, s := range []*eventSource{k.listen(configStreamURL, at(0)), k.listen(configStreamURL+"?last="+at(0), ""), k.listen(configStreamURL+"?last="+at(2), at(0))} {
		require.Equal(t, []string{"b.json good 2 @2", "a.json good 3 @3"}, told(t, base, s, 2), "each file once, as it is now")
	}
	s := k.listen(configStreamURL, at(3))
	k.edit("c.json", "{") // not told of by a sequence, and after 3
	require.Equal(t, "c.json broken", cutLast(told(t, base, s, 1))[0])
	s.closeNow()
	require.Equal(t, at(3), s.last)

	// What broke or healed while no one listened is told of too.
	k.put("b.json", "3")
	s = k.listen(configStreamURL, s.last)
	require.Equal(t, "c.json broken", cutLast(told(t, base, s, 1))[0])
	require.Equal(t, []string{"b.json good 4 @4"}, told(t, base, s, 1))
	s.closeNow()
	k.edit("c.json", "1")
	s = k.listen(configStreamURL, s.last)
	require.Equal(t, "c.json good", cutLast(told(t, base, s, 1))[0])
	k.put("b.json", "4")
	require.Equal(t, []string{"b.json good 5 @5"}, told(t, base, s, 1))
	s.closeNow()
	s = k.listen(configStreamURL, s.last)
	k.put("b.json", "5")
	require.Equal(t, []string{"b.json good 6 @6"}, told(t, base, s, 1), "nothing twice")
}

// The log knows what was missed while the server was down. Sequences go on far above those before
// it.
func TestConfigStreamResumesAfterARestart(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1", "b.json": "1", "gone.json": "1", "c.json": "1", "d.json": "1"})
	s := k.listen(configStreamURL, "")
	s.until("synced")
	base := k.seq()
	k.put("a.json", "2")
	require.Equal(t, []string{"a.json good 1 @1"}, told(t, base, s, 1))
	k.put("d.json", "2")
	k.close()
	k.write(t, "b.json", "2")
	k.write(t, "c.json", "{")
	k.write(t, "new.json", "{")
	require.NoError(t, os.Remove(filepath.Join(k.conf, "gone.json")))
	k.open(t)
	last := s.last
	s = k.listen(configStreamURL, last)
	got := told(t, base, s, 3)
	require.Equal(t, []string{"c.json broken", "new.json broken", "d.json good 2 @2"}, append(cutLast(got[:2]), got[2]))
	found := k.seq()
	require.Greater(t, found, base+2)
	require.Equal(t, []string{"b.json good 0", "gone.json deleted 0 @0"}, told(t, found, s, 2), "found together, so one change")
	k.put("a.json", "3")
	require.Equal(t, []string{"a.json good 1 @1"}, told(t, found, s, 1))
}

func TestConfigStreamWithAnUnknownIDGetsAllFiles(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1", "b.json": "1"})
	base := k.seq()
	for _, id := range []string{k.id(base + 1), "abc", "-1", k.id(0)[:33] + "-1", k.id(1) + ".5", "99999999999999999999"} {
		s := k.listen(configStreamURL, id)
		all := s.until("synced")
		require.Len(t, all, 4, id)
		require.Equal(t, "reset", all[0].event)
		require.Equal(t, k.id(base), s.last)
	}
}

// A feed that has heard of too many names forgets them; a stream that would have needed
// them begins anew.
func TestConfigFeedForgets(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1"})
	feed := k.configFeed
	feed.Close()
	feed.Newest = follow.NewNewest(k.files.Follow, k.files.Snapshot, 5)
	defer feed.Newest.Close()
	_, behind := feed.Present()
	base := k.seq()
	for i := range 10 {
		name := fmt.Sprintf("bad%d.json", i)
		k.edit(name, "{")
		k.remove(name)
	}
	_, _, known := feed.Since(behind)
	require.False(t, known)
	s := k.listen(configStreamURL, k.id(base))
	require.Equal(t, "reset", s.until("synced")[0].event)
}

func TestAClosedGatewayHearsOfNoChange(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1"})
	_, before := k.configFeed.Present()
	require.NoError(t, k.Shutdown(t.Context()))
	k.edit("a.json", "2")
	k.files.Reload()
	_, now := k.configFeed.Present()
	require.Equal(t, before, now)
}

// Whatever a stream is told, in the end it knows what the list says.
func TestConfigStreamEndsUpRight(t *testing.T) {
	k := startConfig(t, map[string]string{"a.json": "1"})
	states := map[string]string{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 60 {
			name := fmt.Sprintf("f%d.json", i%7)
			switch i % 5 {
			case 0, 1:
				_ = k.do("PUT", fileQuery(name), fmt.Sprint(i))
			case 2:
				k.edit(name, "{")
			case 3:
				_ = k.do("DELETE", fileQuery(name), "")
			case 4:
				k.edit(name, fmt.Sprint(i))
			}
		}
		_ = k.do("PUT", fileQuery("last.json"), "1")
	}()
	last := ""
	for states["last.json"] == "" {
		s := k.listen(configStreamURL, last)
		for read := 0; read < 5 || s.last == last; read++ { // a list of files has no place in it to go on from
			m, ok := s.next()
			require.True(t, ok)
			if m.event == "config" {
				var f fileAnswer
				require.NoError(t, json.Unmarshal([]byte(m.data), &f))
				states[f.Name] = fmt.Sprint(f.State, f.Mtime)
			}
			if states["last.json"] != "" {
				break
			}
		}
		last = s.last
		s.closeNow()
	}
	<-done
	list, _ := k.file(configRoot + "files")
	for _, f := range list.Files {
		require.Equal(t, fmt.Sprint(f.State, f.Mtime), states[f.Name], f.Name)
	}
}

// A stream of many files takes them from the store piece by piece. Who reads slowly is
// told afterwards of what changed meanwhile.
func TestConfigStreamListsFilesAsTheyAreRead(t *testing.T) {
	const n = 10 * listPage
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("f%04d.json", i)] = "1"
	}
	files["e.json"], files["f0100x.json"], files["z.json"] = "{", "{", "{" // never good
	k := startConfig(t, files)
	base := k.seq()
	s := &configTeller{Stream: k.aStream(), feed: k.configFeed}
	s.begin(0, false, true)
	var text string
	piece := func() bool {
		more := s.more()
		require.LessOrEqual(t, len(s.Buf), sse.Chunk+1024)
		require.Empty(t, s.changes)
		text += string(s.Buf)
		s.Buf = s.Buf[:0]
		return more
	}
	for range 5 {
		require.True(t, piece())
	}
	require.Equal(t, 200, k.do("DELETE", fileQuery("f0000.json"), "").status)
	k.put("f0319.json", "2")
	k.put("new.json", "1")
	for s.listing {
		piece()
	}
	names := regexp.MustCompile(`"name":"([^"]*)"`)
	var want []string
	for _, f := range filesOf(k.files, k.files.Snapshot()) {
		want = append(want, f.name)
	}
	var got []string
	for _, m := range names.FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	require.Equal(t, want, got, "all, with those that are new, once and in order")
	require.True(t, strings.HasSuffix(text, fmt.Sprintf("event: synced\nid: %s\ndata: {\"seq\":%d}\n\n", k.id(base), base)))

	text = ""
	require.True(t, s.more())
	require.Contains(t, string(s.Buf), fmt.Sprintf("id: %s\n", k.id(base+1)))
	require.Equal(t, 3, strings.Count(string(s.Buf), "event: config\nid: "), "of each sequence")
	s.Buf = s.Buf[:0]
	require.False(t, piece())
	require.Equal(t, k.seq(), s.at.Seq)
}
