package player

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

// needed has for each command on fields, with a body that names 1/1/bag/42, the rights that it
// needs: all of them, and no others. A command that is missing here fails the test.
var needed = map[protocol.Command][]struct{ body, rights string }{
	protocol.StGet: {
		{getting("gold"), "read storage:1/1/bag/42"},
		{getting(slices.Repeat([]string{"gold"}, loopFields+1)...), "read storage:1/1/bag/42"}, // which no run takes
	},
	protocol.StAll:    {{`{` + owner + `}`, "read storage:1/1/bag/42"}},
	protocol.StOwners: {{`{"logicType":"bag"}`, "read storage:1/1/bag/*"}, {`{"count":1}`, "read storage:1/1/*"}},
	protocol.StUpdate: {
		{`{` + owner + `,"fields":{"a":"1"}}`, "write storage:1/1/bag/42"},
		{`{` + owner + `,"fields":{"a":"1"},"prev":1}`, "write storage:1/1/bag/42,read storage:1/1/bag/42"},
		{`{` + owner + `,"fields":{"a":"1"},"expect":{"b":0}}`, "write storage:1/1/bag/42,read storage:1/1/bag/42"},
	},
	protocol.StIncr:    {{`{` + owner + `,"deltas":{"a":1}}`, "write storage:1/1/bag/42,read storage:1/1/bag/42"}},
	protocol.StRemove:  {{`{` + owner + `,"names":["a"]}`, "write storage:1/1/bag/42"}},
	protocol.StRestore: {{`{` + owner + `,"names":["a"]}`, "write storage:1/1/bag/42,read storage:1/1/bag/42"}},
}

func TestEachCommandNeedsTheRightsToTheOwnerItNames(t *testing.T) {
	for _, row := range protocol.Commands {
		if !row.ID.IsStorage() || row.Role != protocol.Served || !strings.HasPrefix(row.Right.String(), "storage:") {
			continue
		}
		require.NotEmpty(t, needed[row.ID], "say what %s needs", row.Name)
		for _, c := range needed[row.ID] {
			rights := strings.Split(c.rights, ",")
			require.False(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, rights...)), "%s %s with %s", row.Name, c.body, c.rights)
			for i, without := range rights {
				rest := append([]string{"* storage", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)
				require.True(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, rest...)), "%s %s without %s", row.Name, c.body, without)
			}
			require.True(t, isForbidden(t, row.ID, c.body, guardtest.Caller(t, "* storage:1/1/bag/43")), "%s %s", row.Name, c.body)
			require.True(t, isForbidden(t, row.ID, c.body, new(guard.Caller)), "%s %s", row.Name, c.body)
		}
	}
}

// isForbidden sends a request twice, so that it is also looked up together with another, and
// reports whether both were refused for want of a right. Nothing refused reaches the store.
func isForbidden(t *testing.T, cmd protocol.Command, body string, rights *guard.Caller) bool {
	k := newKit(t)
	k.player.outcome = &field.Outcome{}
	k.Rights = rights
	k.Receive(gatetest.Requests(cmd, body, cmd, body))
	for _, done := range k.player.held {
		done()
	}
	k.Loop.Wake()
	answers := k.asks()
	require.Len(t, answers, 2)
	count := 0
	for _, answer := range answers {
		if strings.Contains(answer, `"code":1025`) {
			count++
		}
		require.NotContains(t, answer, `"code":400`, "%s was not understood", body)
	}
	require.Contains(t, []int{0, 2}, count, "%v", answers)
	if count == 2 {
		require.Empty(t, k.player.wrote)
	}
	return count == 2
}

// Whether an owner has fields, and whether these are in memory, makes no difference to a refusal.
func TestARefusalDoesNotTellWhichFieldsThereAre(t *testing.T) {
	var told []string
	for _, change := range []func(*fakeStore){
		func(*fakeStore) {}, func(p *fakeStore) { p.fields = nil }, func(p *fakeStore) { p.cold = true },
		func(p *fakeStore) { p.err = codes.Errorf(codes.Busy, "the database does not answer") },
	} {
		k := newKit(t)
		change(k.player)
		k.Rights = guardtest.Caller(t, "* storage:1/1/bag/43")
		told = append(told, k.ask(protocol.StGet, getting("gold"))+k.ask(protocol.StAll, `{`+owner+`}`)+k.ask(protocol.StOwners, `{}`))
		require.Equal(t, told[0], told[len(told)-1])
	}
	require.Equal(t, 3, strings.Count(told[0], `"code":1025`))
}
