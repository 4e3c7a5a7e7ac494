package server

import (
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func newClientBench(t T) (*Bench, *clientHandlers) {
	b := NewBench(t, Limits{})
	f := addClients(b.Gate, nil, 1, b.Clock)
	b.Open()
	return b, f
}

func TestNothingIsRoutedToAConnectionThatIsBeingClosed(t *testing.T) {
	b, _ := newClientBench(t)
	from, _ := b.Peer(Unlimited)
	to, w := Connect(t, b.Desk, 0)
	require.True(t, to.identify(7, nil))
	w.Room = 0
	to.out.sendFrame(make([]byte, 8<<10))
	to.finish()
	owing := to.out.owing()
	from.receive(Requests(protocol.EvNotify, `{"to":7,"notify":"x"}`, protocol.Exchang, `{"to":7}`))
	from.loop.wake()
	require.Equal(t, owing, to.out.owing(), "others could keep it open for ever")
	require.False(t, to.gone())
}

func TestAClippedLogLineIsStillUTF8(t *testing.T) {
	for shift := range 4 {
		text := fmt.Sprintf("%*s", shift, "")
		for range maxLogged {
			text += "好"
		}
		require.True(t, utf8.ValidString(clip([]byte(text))), "shift %d", shift)
	}
	require.Contains(t, clip(make([]byte, maxLogged+7)), "+7B")
}

func TestHungupTellsWhenAClientLeft(t *testing.T) {
	b, _ := newClientBench(t)
	s, w := b.Peer(Unlimited)
	time0 := b.Clock.Now()
	other, _ := Connect(t, b.Desk, 0)
	require.True(t, other.identify(7, []protocol.Property{{Name: "clitype", Value: "1"}}))
	b.Clock.Advance(90 * time.Second)
	other.abort("test")
	s.receive(protocol.AppendFrame(nil, protocol.Hungup, 1, []byte(`{"op":"get"}`)))
	shown := func(at time.Time) string { return at.Format("2006-01-02 15:04:05") }
	require.Contains(t, w.Got.String(), fmt.Sprintf(`"begin_time":"%s","end_time":"%s"`, shown(time0), shown(time0.Add(90*time.Second))))
}

// many is a part of a session that has so many subscriptions.
type many int

func (m many) readOn() {}
func (m many) ended()  {}

func (m many) describe(info *ClientInfo, room int) {
	info.Subscriptions = make([]SubscriptionInfo, min(int(m), room))
	info.More = int(m) - len(info.Subscriptions)
}

func TestClientsAreBounded(t *testing.T) {
	b, _ := newClientBench(t)
	s, _ := b.Peer(Unlimited)
	s.setPart(ofConfig, many(maxListed+10))
	answer := make(chan []counted, 1)
	ask := &census{next: -1, room: maxListed + 3, answer: answer}
	_, done := ask.deliver(s.loop, 100)
	require.True(t, done)
	found := <-answer
	require.Len(t, found, 1)
	require.Len(t, found[0].info.Subscriptions, maxListed)
	require.Equal(t, 10, found[0].info.More)

	b.Peer(Unlimited)
	ask = &census{next: -1, room: 5, answer: answer}
	turns := 1
	for {
		if _, done = ask.deliver(s.loop, 1); done {
			break
		}
		turns++
	}
	require.Equal(t, 2, turns, "a turn has a budget")
	list := describe(&b.Gate.registry, append(<-answer, found...))
	require.Len(t, list, 2, "who is met twice is told once")
	require.Less(t, list[0].ID, list[1].ID)
}
