package tcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

// served are the commands that a client may send.
var served = slices.DeleteFunc(slices.Clone(protocol.Commands), func(row protocol.Row) bool {
	return row.Role != protocol.Served && row.Role != protocol.Routed && row.Role != protocol.Accepted || row.ID == protocol.Whoami
})

// examples are bodies with the members that a row names: as texts, as what they may be for a key, and as that with
// each of them of another kind.
func examples(row protocol.Row) []string {
	names := strings.FieldsFunc(row.Request, func(r rune) bool { return strings.ContainsRune(" ,;:–…[]", r) })
	texts := map[string]any{}
	likely := map[string]any{"value": 1, "limit": 2, "ttl": 1000, "by": 1, "rev": 1, "names": []string{"a"}, "keys": []string{"a"}}
	for _, name := range names {
		texts[name] = "a"
		if likely[name] == nil {
			likely[name] = "a"
		}
	}
	list := []string{`{}`, `[]`, ``, `{"ns":"a","key":"a"}`, object(texts), object(likely), object(likely) + "a"}
	for _, name := range names {
		usual := likely[name]
		for _, other := range []any{-1, nil, []any{map[string]any{}}} {
			likely[name] = other
			list = append(list, object(likely))
		}
		likely[name] = usual
	}
	return list
}

func object(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// FuzzCommand sends any body as any command, to a session on real stores. It gets one answer, none that says that the server
// is at fault, and the session can be used after it or is closed.
func FuzzCommand(f *testing.F) {
	for i, row := range served {
		for _, body := range examples(row) {
			f.Add(uint8(i), []byte(body))
		}
	}
	store := gatetest.Documents(f, map[string]string{"a.json": `{"a":1}`, "_meta.json": `{"conf_inherit":{"a.json":"b.json"}}`})
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		row := served[int(i)%len(served)]
		c := converse(t, store)
		defer c.close()
		c.s.Receive(protocol.AppendFrame(nil, row.ID, 1, body))
		c.settle()
		require.Zero(t, c.s.Group().Readings().Get("server_panics_total"), "%s %q", row.Name, body)
		answers := 0
		for _, frame := range gatetest.Frames(t, c.w) {
			name, rest, _ := strings.Cut(frame, "/")
			if name != row.Name+"_RSP" {
				continue
			}
			answers++
			_, text, _ := strings.Cut(rest, " ")
			if res, err := protocol.ParseResult([]byte(text)); err == nil {
				require.NotEqual(t, int32(codes.Internal), res.Code, "%s %q: %s", row.Name, body, text)
			}
		}
		require.LessOrEqual(t, answers, 1)
		if c.w.Closed || c.w.HalfShut {
			return
		}
		c.s.Receive(protocol.AppendFrame(nil, protocol.KVStat, 2, nil))
		require.Eventually(t, func() bool { // locks are given by a goroutine of their own
			c.settle()
			return strings.Contains(strings.Join(gatetest.Frames(t, c.w), "\n"), "KVSTAT_RSP/2 ")
		}, time.Minute, time.Millisecond, "%s %q", row.Name, body)
	})
}
