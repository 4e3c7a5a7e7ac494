package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

func TestConfigWatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(rt, name) }
		q := protocol.ConfigWatch{
			Filter: kv.Filter{NS: protocol.OwnConfig, Text: rapid.StringMatching(`[a-z/]{1,9}\.json`).Draw(rt, "name"), Exact: flag("exact")},
			Path:   rapid.SampledFrom([]string{"", "/a/0"}).Draw(rt, "path"), Prev: flag("prev"), Changes: flag("changes"),
		}
		if flag("resolved") {
			q.Filter.NS = protocol.ResolvedConfig
		}
		if q.State = flag("state"); !q.State {
			q.Past = flag("past")
		}
		if q.Past {
			q.From = kv.Revision(rapid.IntRange(0, 99).Draw(rt, "from"))
		}
		got, err := parsed(t, protocol.AppendConfigWatch(nil, q)).ConfigWatch()
		require.NoError(t, err)
		require.Equal(t, q, got)
	})
}

func TestConfigWatchRefusals(t *testing.T) {
	for body, code := range map[string]codes.Code{
		`{"name":"a.json","prefix":"a"}`: codes.BadRequest,
		`{"name":""}`:                    codes.BadKey,
		`{"from":1,"state":1}`:           codes.BadRequest,
		`{"from":-1}`:                    codes.BadRequest,
		`{"name":7}`:                     codes.BadRequest,
		fmt.Sprintf(`{"name":"a","path":%q}`, strings.Repeat("/a", 3000)): codes.TooLarge,
	} {
		_, err := parsed(t, []byte(body)).ConfigWatch()
		require.Equal(t, code, codes.Of(err), "%s: %v", body, err)
	}
}

func documentEvents() protocol.KVEvents {
	entry := func(name, text string) *kv.Entry {
		return &kv.Entry{Key: name, Value: kv.JSONValue([]byte(text)), Create: 9, Mod: 9, Version: 1, Updated: 77000}
	}
	return protocol.KVEvents{Watch: 3, Revision: 9, More: true, Events: []kv.Event{
		{Kind: kv.Put, Entry: entry("a.json", `{"x":[1,null]}`), Prev: &kv.Entry{Key: "a.json", Version: 1, Value: kv.JSONValue([]byte(`{"x":[2,null],"a/b":1}`))}},
		{Kind: kv.Delete, Entry: &kv.Entry{Key: "b.json", Create: 9, Mod: 9, Updated: 78000}},
		{Kind: kv.Put, Entry: entry("c.json", `null`)},
	}}
}

func TestConfigEventsRoundTrip(t *testing.T) {
	want := documentEvents()
	got, err := protocol.ParseConfigEvents(protocol.AppendConfigEvents(nil, want, true, false))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for i := range want.Events {
		want.Events[i].Prev = nil
	}
	got, err = protocol.ParseConfigEvents(protocol.AppendConfigEvents(nil, want, false, false))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestConfigEventsTellPaths(t *testing.T) {
	ev := documentEvents()
	ev.Events = ev.Events[:2]
	require.Equal(t, `{"watch":         3,"rev":9,"more":1,"events":[{"op":"put","name":"a.json","mod":9,"mtime":77,"changes":[`+
		`{"path":"/x/0","old":2,"new":1},{"path":"/a~1b","old":1}]},{"op":"delete","name":"b.json","mod":9,"mtime":78}]}`,
		string(protocol.AppendConfigEvents(nil, ev, false, true)))
	require.Equal(t, `{"watch":         3,"rev":12}`, string(protocol.AppendConfigEvents(nil, protocol.KVEvents{Watch: 3, Revision: 12}, false, false)), "a bookmark")
}

// The bodies that the specification shows can be read as what they are.
func TestSpecificationConfigWatchBodies(t *testing.T) {
	_, text, _ := strings.Cut(readSpecification(t), "\n## Watching documents\n")
	text, _, _ = strings.Cut(text, "\n## ")
	read := 0
	for _, section := range strings.Split(text, "\n### CF")[1:] {
		for _, body := range strings.Split(strings.TrimSpace(strings.Join(fenced(section, "json"), "\n")), "\n") {
			var err error
			r := parsed(t, []byte(body))
			_, reply := r.Int("code")
			switch {
			case strings.HasPrefix(section, "EVENT") && strings.Contains(body, `"changes"`):
			case strings.HasPrefix(section, "EVENT"):
				_, err = protocol.ParseConfigEvents([]byte(body))
			case reply:
			case strings.HasPrefix(section, "WATCH"):
				_, err = r.ConfigWatch()
			default:
				_, err = r.KVUnwatch()
			}
			require.NoError(t, err, body)
			read++
		}
	}
	require.Equal(t, 8, read)
}

func FuzzConfigEvents(f *testing.F) {
	f.Add(protocol.AppendConfigEvents(nil, documentEvents(), true, false))
	f.Fuzz(func(t *testing.T, body []byte) {
		want, err := protocol.ParseConfigEvents(body)
		if err != nil {
			return
		}
		got, err := protocol.ParseConfigEvents(protocol.AppendConfigEvents(nil, want, true, false))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
