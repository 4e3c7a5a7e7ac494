package protocol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/storage/field"
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
	done := protocol.LanderLanded{Batch: batch, Fence: 31, Failed: []field.Failure{{Table: "1_1", Key: "bag:42:pic", Reason: "Data too long for column 'value'"}}}
	pic.Value = nil
	done.Rows, done.Count, done.More = []field.DirtyRow{pic}, 2, false
	fine := protocol.AppendResult(nil, 0, "success")
	return []exchanged{
		{protocol.LdSettings, []byte(`{}`), protocol.AppendLanderSettings(nil, field.Settings{Tables: 4, Prefix: "dirtyKey", SavingSuffix: "saving", ErrorSuffix: "error", LockTime: 1000 * time.Second, Delay: 10 * time.Second, Batch: 1000})},
		{protocol.LdClaim, protocol.AppendLanderClaim(nil, protocol.LanderClaim{Who: "lander-1"}), protocol.AppendLanderClaimed(nil, field.Claim{Fence: 31})},
		{protocol.LdClaim, protocol.AppendLanderClaim(nil, protocol.LanderClaim{Table: 1, Who: "lander-1"}), protocol.AppendLanderClaimed(nil, field.Claim{Holder: "lander-2"})},
		{protocol.LdClaim, protocol.AppendLanderClaim(nil, protocol.LanderClaim{Table: 2, Who: "lander-1"}), protocol.AppendLanderClaimed(nil, field.Claim{Idle: true})},
		{protocol.LdTake, protocol.AppendLanderTake(nil, protocol.LanderTake{Limit: 1000}), protocol.AppendLanderBatch(nil, &batch)},
		{protocol.LdTake, protocol.AppendLanderTake(nil, protocol.LanderTake{Table: 1}), protocol.AppendLanderBatch(nil, nil)},
		{protocol.LdLanded, protocol.AppendLanderLanded(nil, done), fine},
		{protocol.LdLanded, protocol.AppendLanderLanded(nil, done), protocol.AppendResult(nil, int(codes.FenceLost), "dirty table 0 has been claimed by another lander")},
		{protocol.LdNewer, protocol.AppendLanderVersion(nil, 1_700_000_000_000_099), fine},
		{protocol.LdRelease, protocol.AppendLanderClaim(nil, protocol.LanderClaim{Fence: 31}), fine},
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

func TestLanderMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := drawBatch(t, true)
		gotBatch, err := protocol.ParseLanderBatch(protocol.AppendLanderBatch(nil, &batch))
		require.NoError(t, err)
		require.Equal(t, &batch, gotBatch)

		done := protocol.LanderLanded{Batch: drawBatch(t, false), Fence: drawRevision(t, "fence"), Failed: some(t, "failed", func(t *rapid.T) field.Failure {
			return field.Failure{Table: drawText(t, "table"), Key: drawText(t, "key"), Reason: drawText(t, "reason")}
		})}
		gotDone, err := read(t, protocol.AppendLanderLanded(nil, done)).LanderLanded()
		require.NoError(t, err)
		require.Equal(t, done, gotDone)

		claim := protocol.LanderClaim{Table: int(rapid.Int32Min(0).Draw(t, "table")), Who: drawText(t, "who"), Fence: kv.Revision(rapid.Int64().Draw(t, "fence"))}
		gotClaim, err := read(t, protocol.AppendLanderClaim(nil, claim)).LanderClaim()
		require.NoError(t, err)
		require.Equal(t, claim, gotClaim)
		claimed := field.Claim{Fence: kv.Revision(rapid.Int64().Draw(t, "fence")), Idle: rapid.Bool().Draw(t, "idle"), Holder: drawText(t, "holder")}
		gotClaimed, err := protocol.ParseLanderClaimed(protocol.AppendLanderClaimed(nil, claimed))
		require.NoError(t, err)
		require.Equal(t, claimed, gotClaimed)
	})
	none, err := protocol.ParseLanderBatch(protocol.AppendLanderBatch(nil, nil))
	require.NoError(t, err)
	require.Nil(t, none)
	set := field.Settings{Tables: 4, Prefix: "a", SavingSuffix: "b", ErrorSuffix: "c", LockTime: 5e6, Delay: 6e6, Batch: 7}
	got, err := protocol.ParseLanderSettings(protocol.AppendLanderSettings(nil, set))
	require.NoError(t, err)
	require.Equal(t, set, got)
}
