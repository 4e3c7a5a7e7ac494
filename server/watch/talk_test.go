package watch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// docKit serves watches on documents without sockets; its one loop is run by the test.
type docKit struct {
	*gatetest.Bench
	t       testing.TB
	store   *confstore.Store
	watches *Handlers
}

func newDocKit(t testing.TB, files map[string]string) *docKit {
	k := &docKit{Bench: gatetest.NewBench(t, loop.Limits{}), t: t, store: gatetest.Documents(t, files)}
	k.watches = AddDocuments(k.Gate, k.store.Revisions())
	k.Open()
	k.Group.Start()
	k.watches.Follow()
	t.Cleanup(func() {
		k.Stop()
		k.watches.Unfollow()
	})
	return k
}

func (k *docKit) set(name, text string) kv.Revision {
	k.t.Helper()
	req := confstore.SetRequest{Name: name}
	if text != "" {
		req.Contents = []byte(text)
	}
	done := make(chan error, 1)
	require.NoError(k.t, k.store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
	require.NoError(k.t, <-done)
	return k.store.Revisions().Revision()
}

// docPeer is a connection that watches documents.
type docPeer struct {
	k    *docKit
	s    *gate.Session
	w    *looptest.Wire
	told []string // bodies of CFEVENT
	read int      // bytes that it reads at a time; 0: all at once
}

func (k *docKit) peer(room int) *docPeer {
	s, w := k.Peer(room)
	return &docPeer{k: k, s: s, w: w}
}

// ask returns the reply.
func (p *docPeer) ask(cmd protocol.Command, body string) string {
	p.s.Receive(protocol.AppendFrame(nil, cmd, 1, []byte(body)))
	return p.until("the reply comes", func(cmd protocol.Command, _ string) bool { return cmd.IsReply() })
}

// until runs the loop until a frame satisfies cond, and returns its body. All events are kept.
func (p *docPeer) until(what string, cond func(protocol.Command, string) bool) string {
	p.k.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		gatetest.Sweep(p.k.Local)
		if p.read > 0 {
			p.w.Read(p.read)
		}
		for b := p.w.Got.Bytes(); len(b) >= protocol.HeaderSize; b = p.w.Got.Bytes() {
			h, err := protocol.ParseHeader(b)
			require.NoError(p.k.t, err)
			if len(b) < protocol.HeaderSize+int(h.BodyLen) {
				break
			}
			body := string(p.w.Got.Next(protocol.HeaderSize + int(h.BodyLen))[protocol.HeaderSize:])
			if h.Command == protocol.CfEvent {
				p.told = append(p.told, strings.ReplaceAll(strings.ReplaceAll(body, `"watch":         `, ``), `"mtime":`+between(body, `"mtime":`, ","), `"mtime":0`))
			}
			if cond(h.Command, body) {
				return body
			}
		}
		if time.Now().After(deadline) {
			require.FailNow(p.k.t, "in vain", "%s; told %q", what, p.told)
		}
	}
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return strings.TrimRight(text, "]}")
}

// reach runs the loop until the peer was told of a revision, and returns what it was told.
func (p *docPeer) reach(rev kv.Revision) []string {
	p.k.t.Helper()
	p.until(fmt.Sprintf("revision %d", rev), func(_ protocol.Command, body string) bool {
		return strings.Contains(body, fmt.Sprintf(`"rev":%d`, rev)) && !strings.Contains(body, `"more":1`)
	})
	told := p.told
	p.told = nil
	return told
}

func TestAWatchOnADocumentTellsItsContents(t *testing.T) {
	k := newDocKit(t, map[string]string{"a.json": `{"n":1}`, "b.json": `{"n":1,"x":2}`, "_meta.json": `{"conf_inherit":{"b.json":"a.json"}}`})
	p := k.peer(gatetest.Unlimited)
	require.Contains(t, p.ask(protocol.CfWatch, `{"name":"a.json"}`), `"watch":1`)
	first := k.set("a.json", `{"n":2}`)
	require.Equal(t, []string{fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"put","name":"a.json","mod":%d,"mtime":0,"contents":{"n":2}}]}`, first, first)}, p.reach(first))
	q := k.peer(gatetest.Unlimited)
	require.Contains(t, q.ask(protocol.CfWatch, `{"prefix":"b","resolved":1,"state":1,"prev":1}`), `"code":0`)
	require.Equal(t, []string{
		fmt.Sprintf(`{1,"rev":%d,"state":1,"events":[{"op":"put","name":"b.json","mod":%d,"mtime":0,"contents":{"n":1,"x":2}}]}`, first, first),
		fmt.Sprintf(`{1,"rev":%d,"synced":1}`, first),
	}, append(q.reach(first), q.reach(first)...))
	gone := k.set("b.json", "")
	require.Equal(t, []string{fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"put","name":"b.json","mod":%d,"mtime":0,"contents":{"n":2},"prev":{"n":1,"x":2}}]}`, gone, gone)}, q.reach(gone))
	require.Contains(t, q.ask(protocol.CfUnwatch, `{"watch":1}`), `"code":0`)
	require.Contains(t, q.ask(protocol.CfUnwatch, `{"watch":1}`), `"code":404`)
	require.Contains(t, q.ask(protocol.CfWatch, `{"from":99999999}`), fmt.Sprintf(`"code":%d`, codes.FutureRevision))
	for range 2 {
		q = k.peer(gatetest.Unlimited)
		require.Contains(t, q.ask(protocol.CfWatch, fmt.Sprintf(`{"from":%d,"changes":1}`, first-1)), `"code":0`)
		require.Equal(t, []string{
			fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"put","name":"a.json","mod":%d,"mtime":0,"changes":[{"path":"/n","old":1,"new":2}]}]}`, first, first),
			fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"delete","name":"b.json","mod":%d,"mtime":0}]}`, gone, gone),
		}, append(q.reach(first), q.reach(gone)...))
	}
	p.s.Abort("the test ends it")
	require.Equal(t, 1, k.watches.hubOf(k.Local).topics.Len())
}

func TestAWatchOnAPathTellsOfNothingElse(t *testing.T) {
	k := newDocKit(t, map[string]string{"a.json": `{"n":1,"x":{"y":1}}`, "other.json": `{"x":{"y":7}}`})
	begin := k.store.Revisions().Revision()
	p := k.peer(gatetest.Unlimited)
	p.ask(protocol.CfWatch, `{"path":"/x/y","prev":1,"state":1}`)
	state := p.reach(begin)
	require.Contains(t, state[0], `"name":"a.json"`)
	require.Contains(t, state[0], `"contents":1`)
	require.NotContains(t, state[0], "prev")
	require.Len(t, p.reach(begin), 1)
	k.set("a.json", `{"n":2,"x":{"y":1}}`)
	second := k.set("a.json", `{"n":2,"x":{"y":[2]}}`)
	require.Equal(t, []string{fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"put","name":"a.json","mod":%d,"mtime":0,"contents":[2],"prev":1}]}`, second, second)}, p.reach(second))
	third := k.set("a.json", `{"n":2}`)
	require.Equal(t, []string{fmt.Sprintf(`{1,"rev":%d,"events":[{"op":"delete","name":"a.json","mod":%d,"mtime":0,"prev":[2]}]}`, third, third)}, p.reach(third))
	k.set("a.json", "")
	fifth := k.set("a.json", `{"x":{"y":3}}`)
	require.Len(t, p.reach(fifth), 1)
	q := k.peer(gatetest.Unlimited)
	q.ask(protocol.CfWatch, fmt.Sprintf(`{"name":"a.json","path":"/x/y","from":%d}`, begin))
	require.Len(t, append(q.reach(second), append(q.reach(third), q.reach(fifth)...)...), 3, "read back, it is the same")
}

func TestABookmarkSaysHowFarAWatchHasCome(t *testing.T) {
	k := newDocKit(t, map[string]string{"a.json": `1`, "b.json": `1`})
	p := k.peer(gatetest.Unlimited)
	p.ask(protocol.CfWatch, `{"name":"a.json"}`)
	rev := k.set("b.json", `2`)
	for k.watches.hubOf(k.Local).told < rev { // it has an owner that tells it
		gatetest.Sweep(k.Local)
		runtime.Gosched()
	}
	k.watches.Mark()
	require.Equal(t, []string{fmt.Sprintf(`{1,"rev":%d}`, rev)}, p.reach(rev))
	k.watches.Mark()
	next := k.set("a.json", `2`)
	require.Len(t, p.reach(next), 1, "nothing is told where there is no news")
}

func TestASlowReaderOfDocumentsMissesNothing(t *testing.T) {
	k := newDocKit(t, map[string]string{"a.json": `0`})
	p := k.peer(200)
	p.ask(protocol.CfWatch, `{"prefix":""}`)
	const sets = 300
	var last kv.Revision
	for i := range sets {
		last = k.set(fmt.Sprintf("%c.json", 'a'+i%3), fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", 4000)))
		gatetest.Sweep(k.Local)
		require.Less(t, p.s.Out.Owing(), k.Group.Limits.Pending+2*serveBytes)
	}
	p.read = 10_000
	p.until("everything is told", func(_ protocol.Command, body string) bool {
		return strings.Contains(body, fmt.Sprintf(`"rev":%d`, last))
	})
	require.Len(t, p.told, sets)
	for i, body := range p.told {
		require.Contains(t, body, fmt.Sprintf(`"contents":{"n":%d,`, i))
	}
}
