package protocol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/protocol"
)

type exchanged struct {
	cmd            protocol.Command
	request, reply []byte
}

// landerTalk is what a lander in a process of its own says.
func landerTalk() []exchanged {
	owner := field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}
	gold := field.DirtyRow{Row: field.Row{Owner: owner, Name: "gold", Value: []byte("10"), Version: 1_700_000_000_000_020, Created: 1_700_000_000_020, Updated: 1_700_000_000_020}, Revision: 20}
	pic := field.DirtyRow{Row: field.Row{Owner: owner, Name: "pic", Value: []byte{0, 1, 255}, Version: 1_700_000_000_000_021, Removed: true, RemovedAt: 1_700_000_000_021}, Revision: 21, Noted: true}
	batch := field.Batch{Tables: 4, After: 19, Through: 21, Rows: []field.DirtyRow{gold, pic}, More: true}
	done := field.LandedAsk{Batch: batch, Fence: 31, Failed: []field.Failure{{Table: "1_1", Key: "bag:42:pic", Reason: "Data too long for column 'value'"}}}
	pic.Value = nil
	done.Rows, done.Count, done.More = []field.DirtyRow{pic}, 2, false
	fine := protocol.AppendResult(nil, 0, "success")
	return []exchanged{
		{protocol.LdSettings, []byte(`{}`), protocol.AppendReply(nil, &field.Settings{Tables: 4, Prefix: "dirtyKey", SavingSuffix: "saving", ErrorSuffix: "error", LockTime: 1000 * time.Second, Delay: 10 * time.Second, Batch: 1000})},
		{protocol.LdClaim, protocol.AppendMessage(nil, &field.ClaimAsk{Who: "lander-1"}), protocol.AppendReply(nil, &field.Claim{Fence: 31})},
		{protocol.LdClaim, protocol.AppendMessage(nil, &field.ClaimAsk{Table: 1, Who: "lander-1"}), protocol.AppendReply(nil, &field.Claim{Holder: "lander-2"})},
		{protocol.LdClaim, protocol.AppendMessage(nil, &field.ClaimAsk{Table: 2, Who: "lander-1"}), protocol.AppendReply(nil, &field.Claim{Idle: true})},
		{protocol.LdTake, protocol.AppendMessage(nil, &field.TakeAsk{Limit: 1000}), protocol.AppendReply(nil, &field.Taken{Batch: &batch})},
		{protocol.LdTake, protocol.AppendMessage(nil, &field.TakeAsk{Table: 1}), protocol.AppendReply(nil, &field.Taken{})},
		{protocol.LdLanded, protocol.AppendMessage(nil, &done), fine},
		{protocol.LdLanded, protocol.AppendMessage(nil, &done), protocol.AppendResult(nil, int(codes.FenceLost), "dirty table 0 has been claimed by another lander")},
		{protocol.LdNewer, protocol.AppendMessage(nil, &field.NewerAsk{Version: 1_700_000_000_000_099}), fine},
		{protocol.LdRelease, protocol.AppendMessage(nil, &field.ReleaseAsk{Fence: 31}), fine},
	}
}

func drawBatch(t *rapid.T, values bool) field.Batch {
	n := rapid.Int64Min(0)
	return field.Batch{
		Table: int(rapid.Int32Min(0).Draw(t, "table")), Tables: int(rapid.Int32Min(0).Draw(t, "tables")), After: kv.Revision(n.Draw(t, "after")), Through: kv.Revision(n.Draw(t, "through")),
		Count: int(rapid.Int32Min(0).Draw(t, "count")), More: rapid.Bool().Draw(t, "more"),
		Rows: some(t, "rows", func(t *rapid.T) field.DirtyRow {
			r := field.DirtyRow{
				Row: field.Row{Owner: drawOwner(t), Name: drawText(t, "name"), Version: n.Draw(t, "version"), Removed: rapid.Bool().Draw(t, "removed"),
					RemovedAt: n.Draw(t, "removed at"), Created: n.Draw(t, "created"), Updated: n.Draw(t, "updated")},
				Revision: drawRevision(t, "rev"), Noted: rapid.Bool().Draw(t, "noted"),
			}
			if values {
				r.Value = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "value")...)
			}
			return r
		}),
	}
}

// requireAsked holds that a request arrives as it was sent.
func requireAsked[Q any](t require.TestingT, want Q) {
	body := protocol.AppendMessage(nil, &want)
	got, err := protocol.Read[Q](read(t, body))
	require.NoError(t, err, "%s", body)
	require.Equal(t, want, got, "%s", body)
}

// requireTold holds that a reply arrives as it was sent.
func requireTold[A any](t require.TestingT, want A) {
	body := protocol.AppendReply(nil, &want)
	got, err := protocol.ParseReply[A](body)
	require.NoError(t, err, "%s", body)
	require.Equal(t, want, got, "%s", body)
}

func TestLanderMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := drawBatch(t, true)
		requireTold(t, field.Taken{Batch: &batch})
		requireAsked(t, field.LandedAsk{Batch: drawBatch(t, false), Fence: drawRevision(t, "fence"), Failed: some(t, "failed", func(t *rapid.T) field.Failure {
			return field.Failure{Table: drawText(t, "table"), Key: drawText(t, "key"), Reason: drawText(t, "reason")}
		})})
		table := int(rapid.Int32Min(0).Draw(t, "table"))
		requireAsked(t, field.ClaimAsk{Table: table, Who: drawText(t, "who")})
		requireAsked(t, field.ReleaseAsk{Table: table, Fence: kv.Revision(rapid.Int64().Draw(t, "fence"))})
		requireTold(t, field.Claim{Fence: kv.Revision(rapid.Int64().Draw(t, "fence")), Idle: rapid.Bool().Draw(t, "idle"), Holder: drawText(t, "holder")})
	})
	requireTold(t, field.Taken{})
	requireTold(t, field.Settings{Tables: 4, Prefix: "a", SavingSuffix: "b", ErrorSuffix: "c", LockTime: 5e6, Delay: 6e6, Batch: 7})
}
