package tcp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv/lock"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/protocol"
	"confcenter/server/config"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// heldConfig does what Set is given only when the test says so.
type heldConfig struct {
	config.Store
	room int // writes that fit
	held []func()
}

func (h *heldConfig) Set(req confstore.SetRequest, done func(confstore.SetResult, error)) error {
	if err := confstore.CheckName(req.Name); err != nil {
		return err
	}
	if len(h.held) == h.room {
		return codes.Errorf(codes.Busy, "full")
	}
	h.held = append(h.held, func() {
		finished := make(chan struct{})
		err := h.Store.Set(req, func(res confstore.SetResult, err error) {
			done(res, err)
			close(finished)
		})
		if err != nil {
			panic(err)
		}
		<-finished
	})
	return nil
}

func (h *heldConfig) finish() {
	next := h.held[0]
	h.held = h.held[1:]
	next()
}

// heldPlayers is player storage that makes each change only when the test says so.
type heldPlayers struct {
	*player.Storage
	held []func()
}

func (h *heldPlayers) DoEach(by *player.Caller, calls []*player.Call) {
	for _, call := range calls {
		h.held = append(h.held, func() {
			finished := make(chan struct{})
			alone := &player.Caller{Done: func(done []*player.Call) {
				by.Done(done)
				close(finished)
			}}
			h.Storage.DoEach(alone, []*player.Call{call})
			<-finished
		})
	}
}

// conversation is one connection to a server on which nothing happens by itself:
// what the stores, the workers, the loop and the peer do next, the test decides.
type conversation struct {
	s       *gate.Session
	w       *looptest.Wire
	state   *gatetest.HeldState
	config  *heldConfig
	players *heldPlayers
	close   func()
}

// converse begins one with a server whose documents are those of store, as the test
// left them, and whose state is empty.
func converse(t testing.TB, store config.Store) *conversation {
	keys := memory.New(memory.Config{Clock: clocktest.NewFake(time.Unix(1_000_000, 0))})
	// The revisions of one store depend on what is finished first: players have another one.
	fields := memory.New(memory.Config{Clock: clocktest.NewFake(time.Unix(1_000_000, 0))})
	players, err := player.Open(player.Config{Store: fields, Clock: clocktest.NewFake(time.Unix(1_000_000, 0))})
	require.NoError(t, err)
	c := &conversation{state: &gatetest.HeldState{Store: keys, Room: 64}, config: &heldConfig{Store: store, room: 64}, players: &heldPlayers{Storage: players}}
	cfg := Config{Clock: clocktest.NewFake(time.Unix(1_000_000, 0)), Limits: loop.Limits{Input: 1 << 30}}
	locks := lock.New(keys, lock.Config{}) // which asks from a goroutine of its own
	srv := New(cfg, Stores{Config: c.config, State: c.state, Storage: c.players, Locks: locks})
	c.s, c.w = gatetest.Connect(t, gatetest.OpenLocal(srv.gate), 0)
	srv.configs.Follow()
	srv.watches[0].Follow()
	c.w.Room = 1 << 40
	c.s.Receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0}`)))
	c.w.Got.Reset()
	c.close = func() {
		c.s.Abort("the conversation is over")
		c.settle()
		srv.unfollow()
		locks.Close()
		require.NoError(t, keys.Close())
		require.NoError(t, players.Close())
		require.NoError(t, fields.Close())
	}
	return c
}

// The steps that can be taken. Each says whether there was anything to do.

func (c *conversation) turn() bool {
	before := c.s.Kept() + c.w.Got.Len()
	busy := c.s.Loop.Busy()
	c.s.Loop.Wake()
	return busy || before != c.s.Kept()+c.w.Got.Len()
}

func (c *conversation) finishState() bool {
	if len(c.state.Held) == 0 {
		return false
	}
	c.state.Room++
	c.state.Finish(1)
	return true
}

func (c *conversation) finishConfig() bool {
	if len(c.config.held) == 0 {
		return false
	}
	c.config.finish()
	return true
}

func (c *conversation) finishPlayers() bool {
	if len(c.players.held) == 0 {
		return false
	}
	next := c.players.held[0]
	c.players.held = c.players.held[1:]
	next()
	return true
}

// work does the job that pick chooses of n.
func (c *conversation) work(pick func(n int) int) bool {
	n := c.s.Group().Jobs()
	if n > 0 {
		c.s.Group().DoJob(pick(n))
	}
	return n > 0
}

func (c *conversation) read(n int) bool {
	owing := c.s.Out.Owing() > 0
	c.w.Read(n)
	gatetest.Sweep(c.s.Local)
	return owing
}

// settle goes on until nothing is left to do.
func (c *conversation) settle() {
	for more := true; more; {
		more = c.turn()
		more = c.finishState() || more
		more = c.finishConfig() || more
		more = c.finishPlayers() || more
		more = c.work(func(int) int { return 0 }) || more
		more = c.read(1<<30) || more
	}
}

// versions are the numbers of documents, which rise from one conversation to the next.
var versions = regexp.MustCompile(`1\d{9}`)

// said is what was answered. Pushes come in between, and other ones for requests that
// came together.
func (c *conversation) said(t require.TestingT) (list []string) {
	for _, frame := range gatetest.Frames(t, c.w) {
		switch name, _, _ := strings.Cut(frame, "/"); {
		case !strings.HasSuffix(name, "_RSP"):
			continue
		case !strings.HasPrefix(name, "KV") && !strings.HasPrefix(name, "ST"):
			frame = versions.ReplaceAllString(frame, "VERSION")
		}
		list = append(list, frame)
	}
	return list
}

// drawText is a JSON string of 1 B to 1 MiB of text.
func drawText(t *rapid.T) string {
	size := 1 << rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(16, 20)).Draw(t, "size") // what is long leaves in other ways
	size -= rapid.IntRange(0, size-1).Draw(t, "less") / 2
	return `"` + strings.Repeat(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "letter"), size) + `"`
}

// drawRequest draws a command and its body. Together they reach every way in which a
// reply is made: on the loop, copied or shared; by a worker; by a store.
func drawRequest(t *rapid.T) (protocol.Command, string) {
	key := rapid.SampledFrom([]string{"a", "b", "é"}).Draw(t, "key")
	file := rapid.SampledFrom([]string{"a.json", "b.json"}).Draw(t, "file")
	switch rapid.IntRange(0, 18).Draw(t, "request") {
	case 0, 1, 2, 3, 4:
		return protocol.KVGet, rapid.SampledFrom([]string{
			`{"ns":"n","key":"a"}`, `{"ns":"n","key":"b"}`, `{"ns":"n","key":"é","raw":1}`, `{"ns":"n","key":"\u0061"}`, `{"ns":"none","key":"a"}`,
			`{"ns":"n","key":"a","min_rev":2}`, `{"ns":"n","key":"a","min_rev":999}`, `{"ns":"n","key":"a","rev":2}`,
			`{"ns":"n","key":""}`, `{"ns":"n"`, `[]`, ``,
		}).Draw(t, "get")
	case 5, 6:
		return protocol.KVPut, fmt.Sprintf(`{"ns":"n","key":%q,"value":%s}`, key, drawText(t))
	case 7:
		return rapid.SampledFrom([]protocol.Command{protocol.KVDel, protocol.KVHistory, protocol.KVIncr}).Draw(t, "command"), fmt.Sprintf(`{"ns":"n","key":%q,"prev":1}`, key)
	case 8:
		return protocol.KVList, rapid.SampledFrom([]string{`{"ns":"n"}`, `{"ns":"n","limit":2}`, `{"ns":"n","limit":9,"keys_only":1}`, `{"ns":"n","count_only":1}`}).Draw(t, "list")
	case 9:
		return protocol.KVMGet, `{"ns":"n","keys":["a","é","none"]}`
	case 10:
		return rapid.SampledFrom([]protocol.Command{protocol.KVTxn, protocol.KVRestore, protocol.KVNames, protocol.KVStat}).Draw(t, "command"),
			fmt.Sprintf(`{"ns":"n","key":%q,"rev":2,"then":[{"op":"get","key":"a"},{"op":"get","key":"b"}]}`, key)
	case 11:
		return protocol.SetConfig, fmt.Sprintf(`{"filename":%q,"contents":{"k":%s}}`, file, drawText(t))
	case 12:
		return protocol.GetConfig, fmt.Sprintf(`{"file_pattern":%q,"incbase":1,"key_pattern":%q}`, file, rapid.SampledFrom([]string{"", "k", "none"}).Draw(t, "path"))
	case 13:
		return rapid.SampledFrom([]protocol.Command{protocol.KVWatch, protocol.KVUnwatch}).Draw(t, "command"),
			rapid.SampledFrom([]string{`{"ns":"n","watch":1}`, `{"ns":"n","state":1,"watch":2}`}).Draw(t, "watch")
	case 14, 15, 16, 17:
		return drawStorageRequest(t)
	default:
		return rapid.SampledFrom([]protocol.Command{protocol.GetCfgName, protocol.KeepAlive, protocol.BookCfgChange, protocol.SvrShow, protocol.GetWarn, protocol.SetConfig}).Draw(t, "command"),
			rapid.SampledFrom([]string{`{"file_pattern":"a.json","detail":1,"filename":"../x"}`, `{`}).Draw(t, "body")
	}
}

func drawStorageRequest(t *rapid.T) (protocol.Command, string) {
	const owner = `{"logicType":"bag","ownerId":"42",`
	field := rapid.SampledFrom([]string{"a", "b", "é"}).Draw(t, "field")
	switch rapid.IntRange(0, 4).Draw(t, "storage") {
	case 0:
		return protocol.StGet, rapid.SampledFrom([]string{owner + `"names":["a","b"]}`, owner + `"names":["é","none"],"versions":1}`, owner + `"names":1}`, `{}`, `{`}).Draw(t, "get")
	case 1:
		return protocol.StUpdate, fmt.Sprintf(`%s"fields":{%q:%s},"prev":%d}`, owner, field, drawText(t), rapid.IntRange(0, 1).Draw(t, "prev"))
	case 2:
		return protocol.StIncr, fmt.Sprintf(`%s"deltas":{%q:1},"token":%q}`, owner, field, rapid.SampledFrom([]string{"", "t"}).Draw(t, "token"))
	case 3:
		return rapid.SampledFrom([]protocol.Command{protocol.StRemove, protocol.StRestore}).Draw(t, "command"), fmt.Sprintf(`%s"names":[%q],"prev":1}`, owner, field)
	}
	return rapid.SampledFrom([]protocol.Command{protocol.StAll, protocol.StOwners, protocol.StStatus, protocol.StErrors}).Draw(t, "command"),
		rapid.SampledFrom([]string{owner + `"limit":2}`, owner + `"count":1}`, owner + `"versions":1}`}).Draw(t, "list")
}

func TestASmallValueAskedForBehindALargeOneIsAnsweredBehindIt(t *testing.T) {
	c := converse(t, gatetest.Documents(t, nil))
	defer c.close()
	c.s.Receive(gatetest.Requests(
		protocol.KVPut, `{"ns":"n","key":"large","value":"`+strings.Repeat("x", 200<<10)+`"}`,
		protocol.KVPut, `{"ns":"n","key":"small","value":"x"}`,
	))
	c.settle()
	c.w.Got.Reset()
	c.s.Receive(gatetest.Requests(protocol.KVGet, `{"ns":"n","key":"large"}`, protocol.KVGet, `{"ns":"n","key":"small"}`))
	require.Empty(t, gatetest.Frames(t, c.w), "the first reply is a worker's")
	c.settle()
	got := gatetest.Frames(t, c.w)
	require.Len(t, got, 2)
	require.Contains(t, got[0], "KVGET_RSP/1 ")
	require.Contains(t, got[1], "KVGET_RSP/2 ")
}

// brief is what a person can read of frames.
func brief(frames []string) []string {
	list := make([]string, len(frames))
	for i, frame := range frames {
		list[i] = fmt.Sprintf("%.120s (%d bytes)", frame, len(frame))
	}
	return list
}
