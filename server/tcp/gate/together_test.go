package gate_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// echoes answers requests with their bodies, those that are looked up together in capitals. It
// takes no body that begins with 'X'.
type echoes struct {
	seen   *[]int // how many were looked up together
	bodies [loop.MaxGathered][]byte
}

func (e *echoes) Add(i int, req *protocol.Request, body []byte) bool {
	e.bodies[i] = body
	return body[0] != 'X'
}

func (e *echoes) LookUp(n int) {
	*e.seen = append(*e.seen, n)
	for i := range n {
		e.bodies[i] = bytes.ToUpper(e.bodies[i])
	}
}

func (e *echoes) Answer(s *gate.Session, h protocol.Header, i int) {
	s.Reply(h, e.bodies[i])
	e.Forget(i)
}

func (e *echoes) Forget(i int) { e.bodies[i] = nil }

// echoing is a gate at which requests of two commands are looked up together, each for itself.
func echoing(t *testing.T) (b *gatetest.Bench, seen *[]int) {
	b = gatetest.NewBench(t, loop.Limits{})
	seen = new([]int)
	r := gate.Route{Raw: true, Together: func(*gate.Local) gate.Together { return &echoes{seen: seen} }, Handle: func(s *gate.Session, h protocol.Header, body []byte) bool {
		s.Reply(h, body)
		return true
	}}
	b.Gate.Add(map[protocol.Command]gate.Route{protocol.KVGet: r, protocol.StGet: r})
	b.Open()
	return b, seen
}

func TestAPipelineIsLookedUpTogetherUpToWhatIsDifferent(t *testing.T) {
	b, seen := echoing(t)
	s, w := b.Peer(gatetest.Unlimited)
	s.Receive(gatetest.Requests(protocol.KVGet, "a", protocol.KVGet, "b", protocol.StGet, "c", protocol.StGet, "Xd", protocol.StGet, "e", protocol.KVGet, "f"))
	require.Equal(t, []string{"KVGET_RSP/1 A", "KVGET_RSP/2 B", "STGET_RSP/3 C", "STGET_RSP/4 Xd", "STGET_RSP/5 E", "KVGET_RSP/6 F"}, gatetest.Frames(t, w))
	require.Equal(t, []int{2, 1, 1, 1}, *seen)
}

// What cannot be answered at once is read again when its turn comes.
func TestAPipelineThatIsLookedUpTogetherIsShort(t *testing.T) {
	b, seen := echoing(t)
	s, _ := b.Peer(gatetest.Unlimited)
	s.Receive(bytes.Repeat(gatetest.Requests(protocol.KVGet, "a"), 2*loop.MaxGathered+1))
	require.Equal(t, []int{loop.MaxGathered, loop.MaxGathered, 1}, *seen)
	*seen = nil
	long := gatetest.Requests(protocol.KVGet, string(bytes.Repeat([]byte("a"), 10_000)))
	s.Receive(bytes.Repeat(long, 6))
	require.Greater(t, (*seen)[0], 1)
	require.Less(t, (*seen)[0]*len(long), loop.WholeFrame+len(long))
}

// Of each command the requests of several peers are looked up together, and no request twice.
func TestRequestsOfSeveralPeersAreLookedUpTogether(t *testing.T) {
	b, seen := echoing(t)
	for range 3 {
		*seen = nil
		var wires []*looptest.Wire
		for i, cmd := range []protocol.Command{protocol.KVGet, protocol.StGet, protocol.StGet, protocol.KVGet, protocol.StGet} {
			s, w := b.Peer(gatetest.Unlimited)
			s.Arrive(gatetest.Requests(cmd, string(rune('a'+i))))
			wires = append(wires, w)
		}
		b.Local.Loop.Wake()
		require.ElementsMatch(t, []int{2, 3}, *seen)
		for i, want := range []string{"KVGET_RSP/1 A", "STGET_RSP/1 B", "STGET_RSP/1 C", "KVGET_RSP/1 D", "STGET_RSP/1 E"} {
			require.Equal(t, []string{want}, gatetest.Frames(t, wires[i]))
		}
	}
}

// Only what an identified peer may ask is looked up before it passes the gate.
func TestNothingButWholeRequestsIsForeseen(t *testing.T) {
	b, _ := echoing(t)
	stranger, _ := gatetest.Connect(t, b.Local, gatetest.Unlimited)
	whole := gatetest.Requests(protocol.KVGet, "a")
	require.False(t, stranger.Foresee(whole))
	require.True(t, stranger.Gathers(whole))
	require.False(t, stranger.Gathers(whole[:protocol.HeaderSize-1]))
	require.False(t, stranger.Gathers(gatetest.Requests(protocol.GetConfig, "a")))
	s, _ := b.Peer(gatetest.Unlimited)
	require.True(t, s.Foresee(whole))
	for name, input := range map[string][]byte{
		"half a header":           whole[:protocol.HeaderSize-1],
		"half a body":             whole[:len(whole)-1],
		"two requests":            append(whole[:len(whole):len(whole)], whole...),
		"a reply":                 gatetest.Requests(protocol.KVGet.Reply(), "a"),
		"another command":         gatetest.Requests(protocol.GetConfig, "a"),
		"another protocol":        []byte("GET / HTTP/1.1\r\n"),
		"a body that is refused":  gatetest.Requests(protocol.KVGet, "X"),
		"a body that is too long": gatetest.Requests(protocol.KVGet, string(make([]byte, protocol.MaxBody+1))),
	} {
		require.False(t, s.Foresee(input), name)
	}
}
