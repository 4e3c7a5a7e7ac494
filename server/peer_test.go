package server

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/protocol"
)

// breaking is a transport whose connection is reset between two writes.
type breaking struct{ *wire }

func (b breaking) Send([]byte) { b.Close() }

func TestAConnectionThatBreaksBetweenTwoWritesIsOnlyGone(t *testing.T) {
	s, w := newWire(t, Config{})
	s.t = breaking{w}
	w.room = 5
	s.out.sendFrame(make([]byte, 100))
	require.Equal(t, dead, s.state)
	require.Zero(t, s.srv.memory.used.Load())
}

func TestNothingIsRoutedToAConnectionThatIsBeingClosed(t *testing.T) {
	from, _ := newStoreWire(t, nil)
	to, w := addWire(t, from.srv, from.loop)
	to.receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":7}`)))
	w.room = 0
	to.out.sendFrame(make([]byte, 2*armSize))
	to.finish()
	owing := to.out.owing()
	from.receive(requests(protocol.EvNotify, `{"to":7,"notify":"x"}`, protocol.Exchang, `{"to":7}`))
	from.loop.turn(wakeBudget, bulkTurn)
	require.Equal(t, owing, to.out.owing(), "others could keep it open for ever")
	require.NotEqual(t, dead, to.state)
}

func TestSentOutputIsForgottenAlsoIfThePeerNeverReadsAll(t *testing.T) {
	s, w := newWire(t, Config{})
	frame := make([]byte, armSize)
	for range 4 {
		s.out.sendFrame(frame)
	}
	for range 10_000 {
		w.read(len(frame))
		w.read(len(frame))
		w.room = 0
		s.out.pumpAgain()
		s.out.sendFrame(frame)
		require.False(t, s.out.empty())
	}
	require.Less(t, len(s.out.pieces), 64)
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

// fullStore takes as many writes as it has room for.
type fullStore struct {
	Store
	room, tries int
}

func (f *fullStore) Set(confstore.SetRequest, func(confstore.SetResult, error)) error {
	if f.tries++; f.room == 0 {
		return codes.Errorf(codes.Busy, "full")
	}
	f.room--
	return nil
}

func TestOneFreePlaceInTheStoreIsNotTriedByEverybody(t *testing.T) {
	first, _ := newWire(t, Config{})
	srv, l := first.srv, first.loop
	store := &fullStore{}
	srv.store = store
	const peers = 100
	for i := range peers {
		s, _ := addWire(t, srv, l)
		s.client = srv.registry.identify(s, 0, nil)
		s.receive(protocol.AppendFrame(nil, protocol.SetConfig, uint16(i), []byte(`{"filename":"a.json","contents":1}`)))
	}
	require.Len(t, l.hungry.list, peers)

	for n := 1; n <= peers; n++ {
		store.room, store.tries = 1, 0
		l.hungry.tryAgain()
		require.LessOrEqual(t, store.tries, 2)
		require.Len(t, l.hungry.list, peers-n, "everybody gets a place in turn")
	}
}

func TestPartsLookedUpCountInTheTurn(t *testing.T) {
	s, _ := newStoreWire(t, map[string]string{"a.json": `{"k":1}`})
	const parts = 1000
	for i := range parts {
		s.receive(protocol.AppendFrame(nil, protocol.BookCfgChange, 1, fmt.Appendf(nil, `{"file_pattern":"a.json","key_pattern":"/p%d"}`, i)))
	}
	require.Len(t, s.subs, parts)

	snap := s.srv.store.Snapshot()
	node := snap.Node("a.json")
	f := &fanOut{batch: &confstore.Batch{Seq: snap.Seq() + 1, Snapshot: snap, Changes: []confstore.Change{{Name: "a.json", Node: node, Prev: node, Own: true}}}}
	turns := 1
	for {
		if _, done := f.deliver(s.loop, 100); done {
			break
		}
		turns++
	}
	require.Equal(t, parts/100, turns)
}
