package clients

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/roster"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func newClientBench(t gatetest.T) (*gatetest.Bench, *Handlers) {
	b := gatetest.NewBench(t, loop.Limits{})
	f := Add(b.Gate, nil, 1, b.Clock)
	b.Open()
	return b, f
}

func TestNothingIsRoutedToAConnectionThatIsBeingClosed(t *testing.T) {
	b, _ := newClientBench(t)
	from, _ := b.Peer(gatetest.Unlimited)
	to, w := gatetest.Connect(t, b.Local, 0)
	require.NoError(t, to.Identify(7, nil))
	w.Room = 0
	to.Out.SendFrame(make([]byte, 8<<10))
	to.Finish()
	owing := to.Out.Owing()
	from.Receive(gatetest.Requests(protocol.EvNotify, `{"to":7,"notify":"x"}`, protocol.Exchang, `{"to":7}`))
	from.Loop.Wake()
	require.Equal(t, owing, to.Out.Owing(), "others could keep it open for ever")
	require.False(t, to.Gone())
}

func TestAClippedLogLineIsStillUTF8(t *testing.T) {
	for shift := range 4 {
		text := fmt.Sprintf("%*s", shift, "")
		for range maxLogged {
			text += "好"
		}
		require.True(t, utf8.ValidString(clip(text)), "shift %d", shift)
	}
	require.Contains(t, clip(string(make([]byte, maxLogged+7))), "+7B")
}

func TestHungupTellsWhenAClientLeft(t *testing.T) {
	b, _ := newClientBench(t)
	s, w := b.Peer(gatetest.Unlimited)
	time0 := b.Clock.Now()
	other, _ := gatetest.Connect(t, b.Local, 0)
	require.NoError(t, other.Identify(7, []protocol.Property{{Name: "clitype", Value: "1"}}))
	b.Clock.Advance(90 * time.Second)
	other.Abort("test")
	s.Receive(protocol.AppendFrame(nil, protocol.Hungup, 1, []byte(`{"op":"get"}`)))
	shown := func(at time.Time) string { return at.Format("2006-01-02 15:04:05") }
	require.Contains(t, w.Got.String(), fmt.Sprintf(`"begin_time":"%s","end_time":"%s"`, shown(time0), shown(time0.Add(90*time.Second))))
}

// CppCloud's server names a program that has left by its address and what it said of itself first,
// whatever it calls itself later, and has no property for it.
func TestHungupSaysWhichProgramLeft(t *testing.T) {
	b, _ := newClientBench(t)
	s, w := b.Peer(gatetest.Unlimited)
	other, _ := gatetest.Connect(t, b.Local, 0)
	require.NoError(t, other.Identify(7, []protocol.Property{{Name: "clitype", Value: "1"}, {Name: "svrname", Value: "first"}, {Name: "progi", Value: "own"}}))
	other.Receive(protocol.AppendFrame(nil, protocol.SetArgs, 1, []byte(`{"svrname":"second"}`)))
	other.Abort("test")
	s.Receive(protocol.AppendFrame(nil, protocol.Hungup, 1, []byte(`{"op":"get"}`)))
	require.Contains(t, w.Got.String(), `"svrname":"second","shell":"","progi":"127.0.0.1:9@7-1@first"`)
}

// Programs ask for CppCloud's service registry for as long as they run: a line a minute says that
// it is not there, for each command.
func TestTheRegistryIsLoggedOnceAMinuteAsNotServed(t *testing.T) {
	b, _ := newClientBench(t)
	var log bytes.Buffer
	b.Group.Log = zerolog.New(&log)
	s, _ := b.Peer(gatetest.Unlimited)
	lines := func(cmd protocol.Command) (list []string) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, fmt.Sprintf(`"command":%q`, cmd)) {
				list = append(list, line)
			}
		}
		return list
	}
	registry := []protocol.Command{protocol.SvrRegister, protocol.SvrSearch, protocol.SvrShow, protocol.SvrStat}
	ask := func() {
		for _, cmd := range registry {
			s.Receive(protocol.AppendFrame(nil, cmd, 1, []byte(`{"regname":"x"}`)))
		}
	}
	for range 5 {
		ask()
	}
	b.Clock.Advance(59 * time.Second)
	ask()
	for _, cmd := range registry {
		require.Len(t, lines(cmd), 1, cmd)
		require.Contains(t, lines(cmd)[0], `"level":"warn"`)
		require.Contains(t, lines(cmd)[0], `"client":"client#2001","requests":1,"message":"the service registry is not served`)
	}
	b.Clock.Advance(time.Second)
	ask()
	for _, cmd := range registry {
		require.Len(t, lines(cmd), 2, cmd)
		require.Contains(t, lines(cmd)[1], `"requests":6`, "those since the line before")
	}
}

// many is a part of a session that has so many subscriptions.
type many int

func (m many) ReadOn() {}
func (m many) Ended()  {}

func (m many) Describe(info *roster.Client, room int) {
	info.Subscriptions = make([]roster.Subscription, min(int(m), room))
	info.More = int(m) - len(info.Subscriptions)
}

func TestClientsAreBounded(t *testing.T) {
	b, _ := newClientBench(t)
	s, _ := b.Peer(gatetest.Unlimited)
	s.SetPart(gate.OfConfig, many(maxListed+10))
	answer := make(chan *census, 1)
	ask := &census{clients: []*gate.Client{s.Client}, room: maxListed + 3, answer: answer}
	_, done := ask.Deliver(s.Loop, 100)
	require.True(t, done)
	found := (<-answer).found
	require.Len(t, found, 1)
	require.Len(t, found[0].info.Subscriptions, maxListed)
	require.Equal(t, 10, found[0].info.More)

	other, _ := b.Peer(gatetest.Unlimited)
	ask = &census{clients: []*gate.Client{s.Client, other.Client}, room: 5, answer: answer}
	turns := 1
	for {
		if _, done = ask.Deliver(s.Loop, 1); done {
			break
		}
		turns++
	}
	require.Equal(t, 2, turns, "a turn has a budget")
	require.Same(t, ask, <-answer)
	other.Reset()
	gatetest.Sweep(b.Local)
	ask = &census{clients: []*gate.Client{other.Client}, answer: answer}
	ask.Deliver(s.Loop, 100)
	require.Empty(t, ask.found, "who has left is not listed")
}

// A list is built in memory for peers, or refused, and can be had in pages.
func TestListsOfClientsAreBounded(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{Memory: 400_000})
	Add(b.Gate, nil, 1, b.Clock)
	b.Open()
	s, w := b.Peer(gatetest.Unlimited)
	for i := range 100 {
		other, _ := gatetest.Connect(t, b.Local, 0)
		require.NoError(t, other.Identify(int32(5000+i), []protocol.Property{{Name: "svrname", Value: fmt.Sprint("app", i)}, {Name: "note", Value: strings.Repeat("x", 1000)}}))
	}
	ask := func(body string) string {
		w.Got.Reset()
		s.Receive(protocol.AppendFrame(nil, protocol.GetCli, 1, []byte(body)))
		for b.Group.Jobs() > 0 {
			b.Group.DoJob(0)
		}
		gatetest.Sweep(b.Local)
		return w.Got.String()[protocol.HeaderSize:]
	}
	held := b.Group.Memory.Held()
	require.Regexp(t, `^\{"code":413,"desc":"the list of 101 clients has some 1\d+ bytes, and the limit is 100000: ask for one property by key, or for pages by limit and after"\}$`, ask(`{}`))
	require.Contains(t, ask(`{"key":"svrname"}`), `{"svrname":"app99"}`)
	var seen []string
	for after, more := "0", true; more; {
		var page []map[string]string
		var err error
		page, more, err = protocol.ParseRecords([]byte(ask(`{"limit":30,"after":"` + after + `"}`)))
		require.NoError(t, err)
		for _, one := range page {
			seen = append(seen, one["svrname"])
		}
		after = page[len(page)-1]["svrid"]
	}
	require.Len(t, seen, 101)
	require.Equal(t, "app99", seen[100])
	require.Contains(t, ask(`{"limit":0}`), `"code":400`)
	require.Equal(t, held, b.Group.Memory.Held())
}
