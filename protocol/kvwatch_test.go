package protocol_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
	"confcenter/protocol"
)

func TestWatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		q := protocol.KVWatchRequest{State: flag("state"), Prev: flag("prev"), Coalesce: flag("coalesce"), Raw: flag("raw"), Reveal: flag("reveal")}
		switch rapid.IntRange(0, 3).Draw(t, "filter") {
		case 1:
			q.Filter = kv.Filter{NS: drawName(t, "ns")}
		case 2:
			q.Filter = kv.Filter{NS: drawName(t, "ns"), Text: drawName(t, "prefix")}
		case 3:
			q.Filter = kv.Filter{NS: drawName(t, "ns"), Text: drawName(t, "key"), Exact: true}
		}
		if !q.State {
			q.From = kv.Revision(rapid.Int64Min(0).Draw(t, "from"))
			q.Past = q.From > 0 || flag("past")
		}
		got, err := parsed(t, protocol.AppendKVWatch(nil, q)).KVWatch()
		require.NoError(t, err)
		require.Equal(t, q, got)

		rev, id := drawRevision(t, "rev"), rapid.Uint32Min(1).Draw(t, "watch")
		at, watch, err := protocol.ParseKVWatching(protocol.AppendKVWatching(nil, rev, id))
		require.NoError(t, err)
		require.Equal(t, rev, at)
		require.Equal(t, id, watch)
		watch, err = parsed(t, protocol.AppendKVUnwatch(nil, id)).KVUnwatch()
		require.NoError(t, err)
		require.Equal(t, id, watch)
	})
}

func drawEvents(t *rapid.T, prev bool) protocol.KVEvents {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	ev := protocol.KVEvents{
		Watch: rapid.Uint32Min(1).Draw(t, "watch"), Revision: drawRevision(t, "rev"),
		State: flag("state"), Synced: flag("synced"), Resync: flag("resync"), More: flag("more"),
	}
	ev.Events = some(t, "events", func(t *rapid.T) kv.Event {
		e := kv.Event{Kind: rapid.SampledFrom([]kv.EventKind{kv.Put, kv.Delete, kv.Expire}).Draw(t, "op")}
		ns, key := drawName(t, "ns"), drawName(t, "key")
		if e.Entry = drawEntry(t, ns, key); e.Kind != kv.Put {
			e.Entry = drawTombstone(t, ns, key)
		}
		if prev {
			e.Prev = maybeEntry(t, ns, key)
		}
		return e
	})
	return ev
}

func TestEventsRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		want := drawEvents(t, true)
		body := protocol.AppendKVEvents(nil, want, true, raw)
		got, err := protocol.ParseKVEvents(body)
		require.NoError(t, err, "%s", body)
		require.Equal(t, want, got)
		watch, err := protocol.KVEventWatch(body[:protocol.KVEventStart])
		require.NoError(t, err)
		require.Equal(t, want.Watch, watch)

		for i := range want.Events {
			want.Events[i].Prev = nil
		}
		got, err = protocol.ParseKVEvents(protocol.AppendKVEvents(nil, drop(want), false, raw))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// drop gives every event an entry before, which is not to be told.
func drop(ev protocol.KVEvents) protocol.KVEvents {
	events := append([]kv.Event(nil), ev.Events...)
	for i := range events {
		events[i].Prev = found
	}
	ev.Events = events
	return ev
}

// A frame made once tells each watcher its own number, and nothing else of it
// changes.
func TestOneFrameForManyWatchers(t *testing.T) {
	ev := protocol.KVEvents{Watch: 1, Revision: 17, Events: []kv.Event{{Kind: kv.Put, Entry: found}}}
	start := []byte("what came before")
	frame := protocol.BeginFrame(start, protocol.KVEvent, 9)
	frame = protocol.FinishFrame(protocol.AppendKVEvents(frame, ev, false, false), len(start))[len(start):]
	length := len(frame)
	for _, watch := range []uint32{1, 9, 10, 12345, math.MaxUint32, 3} {
		protocol.SetKVWatch(frame, watch)
		ev.Watch = watch
		require.Equal(t, string(protocol.AppendKVEvents(nil, ev, false, false)), string(frame[protocol.HeaderSize:]))
		got, err := protocol.ParseKVEvents(frame[protocol.HeaderSize:])
		require.NoError(t, err)
		require.Equal(t, ev, got)
		require.Len(t, frame, length)
	}
	require.True(t, bytes.HasPrefix(frame[protocol.HeaderSize:], []byte(`{"watch":         3,"rev":17,`)))
}

func TestEventsAllocateNothing(t *testing.T) {
	octets := *found
	octets.Value = kv.BytesValue([]byte{1, 2, 3})
	out := make([]byte, 0, 4096)
	for name, e := range map[string]*kv.Entry{"text": found, "base64": &octets} {
		ev := protocol.KVEvents{Watch: 1, Revision: 17, Events: []kv.Event{{Kind: kv.Put, Entry: e, Prev: e}}}
		require.Zero(t, testing.AllocsPerRun(100, func() { out = protocol.AppendKVEvents(out[:0], ev, true, false) }), name)
	}
}

func TestBrokenEvents(t *testing.T) {
	for _, body := range []string{
		``, `{}`, `{"watch":1}`, `{"watch":0,"rev":1}`, `{"watch":4294967296,"rev":1}`, `{"watch":1,"rev":1,"events":{}}`, `{"watch":1,"rev":1,"events":[1]}`,
		`{"watch":1,"rev":1,"events":[{"op":"put","ns":"a","key":"k"}]}`,
		`{"watch":1,"rev":1,"events":[{"op":"put","ns":"a","key":"k","deleted":1,"mod":1}]}`,
		`{"watch":1,"rev":1,"events":[{"op":"delete","ns":"a","key":"k","mod":1,"version":1}]}`,
		`{"watch":1,"rev":1,"events":[{"op":"odd","ns":"a","key":"k","mod":1,"version":1}]}`,
		`{"watch":1,"rev":1,"events":[{"op":"put","ns":"a","key":"k","raw":2,"mod":1,"version":1}]}x`,
		`{"watch":1,"rev":1,"events":[{"op":"put","ns":"a","key":"k","mod":1,"version":1,"prev":[]}]}`, `{"watch":1,"rev":1}x`,
	} {
		_, err := protocol.ParseKVEvents([]byte(body))
		require.Error(t, err, body)
	}
	for _, start := range []string{``, `{"watch":`, `{"watch":        1,`, `{"watch":         0`, `{"watch":4294967296`, `{"watch":        1 `, `{"rev":1,"watch":         1`} {
		_, err := protocol.KVEventWatch([]byte(start))
		require.Error(t, err, start)
	}
}

func FuzzKVEvents(f *testing.F) {
	ev := protocol.KVEvents{Watch: 7, Revision: 17, More: true, Events: []kv.Event{{Kind: kv.Put, Entry: found, Prev: found}}}
	f.Add(protocol.AppendKVEvents(nil, ev, true, false))
	f.Add([]byte(`{"watch":7,"rev":3,"state":1,"events":[{"op":"put","ns":"a","key":"k","raw":1,"mod":1,"version":1,"prev":{"raw":2,"mod":1,"version":1}}]}abc`))
	f.Add([]byte(`{"watch":7,"rev":3,"resync":1,"synced":1,"events":[{"op":"expire","ns":"a","key":"k","deleted":1,"mod":1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		want, err := protocol.ParseKVEvents(body)
		if err != nil {
			return
		}
		for _, raw := range []bool{false, true} {
			got, err := protocol.ParseKVEvents(protocol.AppendKVEvents(nil, want, true, raw))
			require.NoError(t, err)
			require.Len(t, got.Events, len(want.Events))
			for i := range want.Events {
				require.Equal(t, want.Events[i].Kind, got.Events[i].Kind)
				requireSameEntry(t, want.Events[i].Entry, got.Events[i].Entry)
				requireSameEntry(t, want.Events[i].Prev, got.Events[i].Prev)
			}
		}
	})
}
