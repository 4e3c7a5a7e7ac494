package disk

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/kv"
	"confcenter/kvstore"
)

func anyEntry(t *rapid.T, rev kv.Revision) *kv.Entry {
	e := &kv.Entry{
		NS:  rapid.SampledFrom([]string{"a", "b/c", "namespace"}).Draw(t, "ns"),
		Key: rapid.StringOfN(rapid.RuneFrom([]rune("kü /")), 1, 20, -1).Draw(t, "key"),
		Value: kv.Value{
			Type: kv.Type(rapid.IntRange(0, 6).Draw(t, "type")),
			Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data"),
		},
		Create:  kv.Revision(rapid.Int64Range(0, int64(rev)).Draw(t, "create")),
		Mod:     rev,
		Version: rapid.Int64Range(0, 1<<40).Draw(t, "version"),
		Updated: rapid.Int64().Draw(t, "updated"),
		Expires: rapid.Int64().Draw(t, "expires"),
		Lease:   kv.LeaseID(rapid.Int64Range(0, 1<<62).Draw(t, "lease")),
	}
	e.SetLock(rapid.Bool().Draw(t, "lock"))
	return e
}

func anyCommit(t *rapid.T, rev kv.Revision) kvstore.Commit {
	c := kvstore.Commit{Change: kv.Change{Revision: rev, Time: rapid.Int64().Draw(t, "time")}}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		event := kv.Event{Kind: kv.EventKind(rapid.IntRange(1, 3).Draw(t, "kind")), Entry: anyEntry(t, rev)}
		if rapid.Bool().Draw(t, "had one") {
			event.Prev = &kv.Entry{Mod: kv.Revision(rapid.Int64Range(1, int64(rev)-1).Draw(t, "prev"))}
		}
		c.Events = append(c.Events, event)
	}
	for range rapid.IntRange(0, 2).Draw(t, "archived") {
		e := anyEntry(t, rev)
		e.NS = rapid.SampledFrom([]string{archive, archive + "/b"}).Draw(t, "archive")
		c.Archive = append(c.Archive, kv.Event{Kind: kv.EventKind(rapid.IntRange(1, 3).Draw(t, "kind")), Entry: e})
	}
	if rapid.Bool().Draw(t, "tokened") {
		c.Token = &kvstore.Token{
			NS: "ns", Name: rapid.String().Draw(t, "token"), Who: rapid.SampledFrom([]string{"", "token:a"}).Draw(t, "who"), Revision: rev, Time: rapid.Int64().Draw(t, "token time"),
			Result: rapid.SliceOf(rapid.Byte()).Draw(t, "result"),
		}
		copy(c.Token.Digest[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "digest"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "leases") {
		l := kvstore.LeaseChange{ID: kv.LeaseID(rapid.Int64Range(1, 1<<62).Draw(t, "id")), Ended: rapid.Bool().Draw(t, "ended")}
		if !l.Ended {
			l.TTL = time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ttl")) * time.Millisecond
			l.Owner = rapid.SampledFrom([]*access.Identity{nil, {Name: "token:a"}, {Name: "cert:CN=b", Groups: []string{"g", ""}}}).Draw(t, "owner")
		}
		c.Leases = append(c.Leases, l)
	}
	return c
}

func TestGroupRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prev := kv.Revision(rapid.Int64Range(1, 1<<60).Draw(t, "prev"))
		rev := prev
		var group []kvstore.Commit
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			rev += kv.Revision(rapid.Int64Range(1, 3).Draw(t, "step"))
			group = append(group, anyCommit(t, rev))
		}
		g, err := decodeGroup(appendGroup(nil, prev, group))
		require.NoError(t, err)
		require.Equal(t, prev, g.prev)
		require.Len(t, g.commits, len(group))
		n := 0
		for i, want := range group {
			got := g.commits[i]
			require.Equal(t, want.Revision, got.Revision)
			require.Equal(t, want.Time, got.Time)
			require.Equal(t, want.Leases, got.Leases)
			require.Equal(t, want.Token == nil, got.Token == nil)
			if want.Token != nil {
				require.Equal(t, string(want.Token.Result), string(got.Token.Result))
				got.Token.Result = want.Token.Result
				require.Equal(t, want.Token, got.Token)
			}
			require.Len(t, got.Archive, len(want.Archive))
			for j, event := range want.Archive {
				require.Equal(t, event.Kind, got.Archive[j].Kind)
				require.Equal(t, text(event.Entry), text(got.Archive[j].Entry))
			}
			require.Len(t, got.Events, len(want.Events))
			for j, event := range want.Events {
				require.Equal(t, event.Kind, got.Events[j].Kind)
				require.Equal(t, text(event.Entry), text(got.Events[j].Entry))
				var before kv.Revision
				if event.Prev != nil {
					before = event.Prev.Mod
				}
				require.Equal(t, before, g.prevs[n])
				n++
			}
		}
	})
}

func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEntry(t, kv.Revision(rapid.Int64Range(1, 1<<60).Draw(t, "rev")))
		got := &kv.Entry{NS: e.NS, Key: e.Key}
		require.NoError(t, decodeEntry(got, appendEntry(nil, e)))
		require.Equal(t, text(e), text(got))

		number := rapid.Int64Range(0, 1<<60)
		m := meta{kv.Revision(number.Draw(t, "revision")), kv.Revision(number.Draw(t, "log")), kv.Revision(number.Draw(t, "history")), kv.Revision(number.Draw(t, "token"))}
		again, err := decodeMeta(m.encode())
		require.NoError(t, err)
		require.Equal(t, m, again)

		ep := epoch{last: 9, written: 9, first: rapid.Int64().Draw(t, "first"), time: rapid.Int64().Draw(t, "time"), log: number.Draw(t, "bytes")}
		ep2, err := decodeEpoch(9, ep.encode())
		require.NoError(t, err)
		require.Equal(t, ep, ep2)

		p := part{start: 9, last: kv.Revision(number.Draw(t, "last")), first: ep.first, time: ep.time, bytes: ep.log}
		p2, err := decodePart(9, p.encode())
		require.NoError(t, err)
		require.Equal(t, p, p2)

		s := markState{format: 7, born: rapid.Bool().Draw(t, "born"), sequence: rapid.Uint64().Draw(t, "sequence"), revision: m.revision}
		slot := s.encode()
		s2, ok := decodeMark(slot[:])
		require.True(t, ok)
		require.Equal(t, s, s2)
	})
}

// A log record that was changed in any bit is not taken for another one.
func TestChangedRecordsAreRecognised(t *testing.T) {
	m := newModel()
	record := appendGroup(nil, 0, []kvstore.Commit{m.commit(start, op{"ns", "key", "value"}, op{"ns", "other", "x"})})
	for i := range record {
		for bit := range 8 {
			record[i] ^= 1 << bit
			_, err := decodeGroup(record)
			require.Error(t, err)
			record[i] ^= 1 << bit
		}
		_, err := decodeGroup(record[:i])
		require.Error(t, err)
	}
	_, err := decodeGroup(record)
	require.NoError(t, err)
}

func FuzzDecodeGroup(f *testing.F) {
	m := newModel()
	c := m.commit(start, op{"ns", "key", "value"}, op{"ns", "other", "x"})
	c.Token, c.Leases = &kvstore.Token{NS: "ns", Name: "t"}, []kvstore.LeaseChange{{ID: 1, TTL: time.Second}}
	c.Archive = []kv.Event{archived("key", "value", c.Revision)}
	record := appendGroup(nil, 0, []kvstore.Commit{c})
	f.Add(record[:len(record)-4])
	f.Add([]byte{formatVersion, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := decodeGroup(appendSum(body, 0))
		if err != nil {
			return
		}
		// What can be read is written the same way again, so nothing is ambiguous.
		prevs := g.prevs
		for i := range g.commits {
			for j := range g.commits[i].Events {
				if prevs[0] != 0 {
					g.commits[i].Events[j].Prev = &kv.Entry{Mod: prevs[0]}
				}
				prevs = prevs[1:]
			}
		}
		again, err := decodeGroup(appendGroup(nil, g.prev, g.commits))
		require.NoError(t, err)
		require.Equal(t, len(g.commits), len(again.commits))
		require.Equal(t, g.prevs, again.prevs)
		require.Equal(t, g.last(), again.last())
	})
}

func FuzzDecodeRows(f *testing.F) {
	f.Add(appendEntry(nil, &kv.Entry{Create: 1, Mod: 2, Version: 3, Value: kv.StringValue("v")}))
	f.Add(meta{1, 2, 3, 4}.encode())
	f.Add(appendTokenRow(nil, &kvstore.Token{NS: "ns", Name: "t", Result: []byte("r")}))
	f.Add(appendTokenRow(nil, &kvstore.Token{NS: "ns", Name: "t", Who: "token:a"}))
	slot := markState{format: 1, born: true, sequence: 9, revision: 10}.encode()
	f.Add(slot[:])
	f.Fuzz(func(t *testing.T, row []byte) {
		var e kv.Entry
		if decodeEntry(&e, row) == nil {
			var again kv.Entry
			require.NoError(t, decodeEntry(&again, appendEntry(nil, &e)))
			require.Equal(t, text(&e), text(&again))
		}
		if m, err := decodeMeta(row); err == nil {
			again, err := decodeMeta(m.encode())
			require.NoError(t, err)
			require.Equal(t, m, again)
		}
		_, _ = decodeEpoch(1, row)
		_, _ = decodePart(1, row)
		_, _ = decodeToken(1, row)
		_, _ = decodeLease(1, row)
		if s, ok := decodeMark(row); ok {
			slot := s.encode()
			_, ok = decodeMark(slot[:])
			require.True(t, ok)
		}
	})
}

// TestOnlyWhatSaysWhoseLeasesAreIsOfANewFormat, as what says that a key is a lock: an older build reads everything else, and knows
// what it does not understand.
func TestOnlyWhatSaysWhoseLeasesAreIsOfANewFormat(t *testing.T) {
	lease := kvstore.LeaseChange{ID: 7, TTL: time.Second}
	group := []kvstore.Commit{{Change: kv.Change{Revision: 2}, Leases: []kvstore.LeaseChange{lease}}}
	require.EqualValues(t, formatVersion, appendGroup(nil, 1, group)[0])
	require.EqualValues(t, formatVersion, appendLeaseRow(nil, lease)[0])
	e := &kv.Entry{NS: "ns", Key: "k", Mod: 2, Version: 1, Value: kv.StringValue("v")}
	held := []kvstore.Commit{{Change: kv.Change{Revision: 2, Events: []kv.Event{{Kind: kv.Put, Entry: e}}}}}
	for _, version := range []int{formatVersion, marksVersion} {
		e.SetLock(version == marksVersion)
		require.EqualValues(t, version, appendGroup(nil, 1, held)[0])
		require.EqualValues(t, version, appendEntry(nil, e)[0])
	}
	lease.Owner = &access.Identity{Name: "token:a"}
	group[0].Leases[0] = lease
	record := appendGroup(nil, 1, group)
	require.EqualValues(t, ownersVersion, record[0])
	require.EqualValues(t, ownersVersion, appendLeaseRow(nil, lease)[0])

	changed := func(at int, b byte) error {
		body := slices.Clone(record[:len(record)-4])
		body[at] = b
		_, err := decodeGroup(appendSum(body, 0))
		return err
	}
	require.NoError(t, changed(0, formatVersion))
	require.ErrorContains(t, changed(0, marksVersion+1), "its format is 5, this version reads up to 4")
	require.ErrorContains(t, changed(3, 0x80), "does not know")

	group[0].Token = &kvstore.Token{NS: "ns", Name: "t", Result: []byte("r")}
	require.EqualValues(t, ownersVersion, appendGroup(nil, 1, group)[0])
	require.EqualValues(t, formatVersion, appendTokenRow(nil, group[0].Token)[0])
	group[0].Token.Who = "token:a"
	require.EqualValues(t, askersVersion, appendGroup(nil, 1, group)[0])
	row := appendTokenRow(nil, group[0].Token)
	require.EqualValues(t, askersVersion, row[0])
	token, err := decodeToken(1, row)
	require.NoError(t, err)
	require.Equal(t, group[0].Token, token)
}
