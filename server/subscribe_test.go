package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/protocol"
)

// book subscribes and returns what was answered, pushes included.
func book(s *session, w *wire, body string) string {
	w.got.Reset()
	s.receive(protocol.AppendFrame(nil, protocol.BookCfgChange, 1, []byte(body)))
	return string(protocol.Printer{Style: protocol.BodyWhole}.AppendStream(nil, w.got.Bytes()))
}

// change writes a.json and returns the batch, which is not yet told to anybody.
func change(t *testing.T, s *session, contents string) *confstore.Batch {
	batch := make(chan *confstore.Batch, 8)
	store := s.srv.store.(*confstore.Store)
	store.Subscribe(func(b *confstore.Batch) {
		select {
		case batch <- b:
		default:
		}
	})
	done := make(chan error, 1)
	require.NoError(t, store.Set(confstore.SetRequest{Name: "a.json", Contents: []byte(contents)},
		func(_ confstore.SetResult, err error) { done <- err }))
	require.NoError(t, <-done)
	return <-batch
}

func TestARepeatedSubscriptionLosesNoPushThatIsOnItsWay(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	book(s, w, `{"file_pattern":"a.json"}`)
	s.loop.post(&fanOut{batch: change(t, s, `{"n":2}`)})
	require.NotContains(t, book(s, w, `{"file_pattern":"a.json"}`), "EVNOTIFY")
	s.loop.turn(wakeBudget, 0)
	require.Contains(t, w.got.String(), `"filename":"a.json"`)
}

func TestCatchingUpTellsOnceAndNeverGoesBack(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	book(s, w, `{"file_pattern":"a.json"}`)
	s.loop.post(&fanOut{batch: change(t, s, `{"n":2}`)})
	s.loop.post(&fanOut{batch: change(t, s, `{"n":3}`)})
	require.Contains(t, book(s, w, `{"file_pattern":"a.json","mtime":1}`), "EVNOTIFY", "told at once")
	w.got.Reset()
	s.loop.turn(wakeBudget, 0)
	require.Zero(t, w.got.Len(), "both changes are older than what it was told")
}

func TestASubscribedPathHasALimit(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	long := strings.Repeat("p", maxPath+1)
	require.Contains(t, book(s, w, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":%q}`, long)), `"code":400`)
	require.Contains(t, book(s, w, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":%q}`, long[1:])), `"code":0`)
}

func TestSubscriptionsCountAgainstTheMemory(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	before := s.srv.memory.used.Load()
	for i := range 10 {
		require.Contains(t, book(s, w, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":"/%d"}`, i)), `"code":0`)
	}
	require.Greater(t, s.srv.memory.used.Load(), before+10*192)
	s.srv.memory.limit = s.srv.memory.used.Load()
	require.Contains(t, book(s, w, `{"file_pattern":"a.json","key_pattern":"/more"}`), `"code":1005`)
	s.hangUp()
	require.Equal(t, before, s.srv.memory.used.Load())
}

func TestIfMtimeOfAnotherTypeWritesNothing(t *testing.T) {
	s, w := newStoreWire(t, map[string]string{"a.json": `{"n":1}`})
	w.got.Reset()
	s.receive(protocol.AppendFrame(nil, protocol.SetConfig, 1, []byte(`{"filename":"a.json","if_mtime":"5","contents":{"n":2}}`)))
	require.Contains(t, w.got.String(), `"code":400`)
}
