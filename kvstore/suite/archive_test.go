package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var archiveChecks = []check{
	{name: "IdentityIsKept", run: identityIsKept},
	{name: "ConfigurationsAreNotCounted", run: configurationsAreNotCounted},
	{name: "ArchivedIsFoundInTheArchiveOnly", run: archivedIsApart},
	{name: "ArchiveIsPutAndDeletedUnseen", run: archiveIsUnseen},
	{name: "ArchiveIsOneWithTheRestOfATransaction", run: archiveIsOne},
	{name: "ArchivePages", run: archivePages},
	{name: "ArchiveAgreesWithAMap", run: archiveAgrees},
}

// archive and shelf are archived namespaces.
const archive, shelf = kv.ConfigNamespace + "/archive", kv.ConfigNamespace + "/shelf"

// archived lists an archive.
func (s *subject) archived(l kv.List) kv.Page {
	s.Helper()
	page, err := s.Engine.ListArchive(s.Context(), l)
	require.NoError(s, err)
	require.EqualValues(s, len(page.Entries), page.Count)
	return page
}

func identityIsKept(s *subject) {
	identity := s.Engine.Identity()
	require.Regexp(s, "^[0-9a-zA-Z]{16,64}$", identity)
	s.restart()
	require.Equal(s, identity, s.Engine.Identity())
	s.put("ns", "key", "1")
	s.kill()
	require.Equal(s, identity, s.Engine.Identity())
}

// What users count is what they have put there.
func configurationsAreNotCounted(s *subject) {
	s.must(system(putOp(kv.ConfigNamespace, "doc/a", "1"), putOp("ns", "key", "22")))
	for range 2 {
		require.Equal(s, []kv.Namespace{{Name: "ns", Keys: 1, Bytes: int64(s.get("ns", "key").Size())}}, s.namespaces())
		stats := s.Engine.Stats()
		require.EqualValues(s, 1, stats.Keys)
		require.EqualValues(s, 1, stats.Namespaces)
		require.EqualValues(s, s.get("ns", "key").Size(), stats.Bytes)
		require.NotNil(s, s.get(kv.ConfigNamespace, "doc/a"))
		s.restart()
	}
	s.must(system(kv.Op{Kind: kv.OpDelete, NS: "ns", Key: "key"}))
	require.Empty(s, s.namespaces())
	require.Zero(s, s.Engine.Stats().Namespaces)
}

func archivedIsApart(s *subject) {
	before, feed := s.Engine.Stats(), s.follow()
	r := s.must(system(putOp(archive, "key", "1"), putOp(archive, "other", "2"), putOp(shelf, "key", "3")))
	require.Equal(s, before.Revision+1+kv.Revision(s.Foreign), r.Revision)
	want := []string{"key 1", "other 2"}
	for range 2 {
		page := s.archived(kv.List{NS: archive})
		require.Equal(s, want, keysAndTexts(page.Entries))
		e := page.Entries[0]
		require.Equal(s, kv.Entry{NS: archive, Key: "key", Value: value(kv.String, "1"), Create: r.Revision, Mod: r.Revision, Version: 1, Updated: e.Updated}, *e)
		require.Equal(s, s.Engine.Revision(), page.Revision)

		require.Nil(s, s.get(archive, "key"))
		require.Empty(s, s.namespaces())
		view := s.Engine.View()
		listed, err := view.List(kv.List{NS: archive})
		require.NoError(s, err)
		require.Empty(s, listed.Entries)
		view.Close()
		stats := s.Engine.Stats()
		require.Zero(s, stats.Keys)
		require.Zero(s, stats.Bytes)
		changes, err := s.Engine.Changes(s.Context(), before.Revision, 1<<20)
		require.NoError(s, err)
		require.Len(s, changes, 1+s.Foreign)
		require.Empty(s, withEvents(changes, 0))
		past, err := s.Engine.History(s.Context(), archive, "key", 0, 0)
		require.NoError(s, err)
		require.Empty(s, past.Entries)
		s.pass(time.Minute) // it may go elsewhere on the disk
	}
	require.Empty(s, feed.changesAfter(before.Revision))

	s.restart()
	require.Equal(s, want, keysAndTexts(s.archived(kv.List{NS: archive}).Entries))
	s.kill()
	require.Equal(s, want, keysAndTexts(s.archived(kv.List{NS: archive}).Entries))
	require.Nil(s, s.get(archive, "key"))
	require.Zero(s, s.Engine.Stats().Keys)

	_, err := s.Engine.ListArchive(s.Context(), kv.List{NS: "ns"})
	require.Equal(s, codes.BadRequest, codes.Of(err), "%v", err)
	_, err = s.Engine.ListArchive(s.Context(), kv.List{NS: archive, Limit: -1})
	require.Equal(s, codes.BadRequest, codes.Of(err), "%v", err)
}

func keysAndTexts(entries []*kv.Entry) (list []string) {
	for _, e := range entries {
		list = append(list, e.Key+" "+read(e))
	}
	return list
}

func archiveIsUnseen(s *subject) {
	s.refused(&kv.Txn{Then: []kv.Op{putOp(archive, "key", "1")}}, codes.Reserved)
	s.refused(&kv.Txn{Then: []kv.Op{getOp(archive, "key")}}, codes.BadOp)
	s.refused(&kv.Txn{If: []kv.Compare{kv.Absent(archive, "key")}}, codes.BadOp)
	s.refused(&kv.Txn{Fences: []kv.Fence{{NS: archive, Key: "key", Token: 1}}}, codes.BadOp)
	put := putOp(archive, "key", "1")
	for _, change := range []func(op *kv.Op){
		func(op *kv.Op) { op.TTL = time.Second },
		func(op *kv.Op) { op.Expires = 1 },
		func(op *kv.Op) { op.Lease = 1 },
		func(op *kv.Op) { op.WantPrev = true },
		func(op *kv.Op) { *op = incrOp(archive, "key", 1) },
		func(op *kv.Op) { *op = dropOp(archive) },
		func(op *kv.Op) { *op = deleteOp(archive, "key"); op.WantPrev = true },
	} {
		op := put
		change(&op)
		s.refused(system(op), codes.BadOp)
	}
	require.Empty(s, s.archived(kv.List{NS: archive}).Entries)
}

func archiveIsOne(s *subject) {
	failing := system(putOp(archive, "key", "1"), putOp("ns", "key", "1"))
	failing.If, failing.Must = []kv.Compare{{NS: "ns", Key: "none", Target: kv.CompareVersion, Relation: kv.Equal, Number: 1}}, true
	s.refused(failing, codes.Conflict)
	wrong := system(putOp(archive, "key", "1"), incrOp("ns", "n", 1))
	s.put("ns", "n", "no number")
	s.refused(wrong, codes.WrongType)
	require.Empty(s, s.archived(kv.List{NS: archive}).Entries)

	feed, before := s.follow(), s.Engine.Revision()
	txn := system(putOp(archive, "key", "1"), putOp("ns", "key", "2"), deleteOp(archive, "key"), putOp(archive, "key", "3"), putOp(archive, "gone", "1"), deleteOp(archive, "gone"))
	txn.Token, txn.TokenNS = "token", "ns"
	first := s.must(txn)
	again := *txn
	requireReplay(s, first, s.must(&again))
	require.Equal(s, []string{"key 3"}, keysAndTexts(s.archived(kv.List{NS: archive}).Entries), "the last of a key counts")
	told := feed.changesAfter(before)
	require.Len(s, told, 1)
	require.Equal(s, []string{"put ns key 2"}, eventTexts(told[0].Events))
	s.must(system(deleteOp(archive, "key"), deleteOp(archive, "never")))
	require.Empty(s, s.archived(kv.List{NS: archive}).Entries)
}

func archivePages(s *subject) {
	var want []string
	for i := range 40 {
		s.must(system(putOp(archive, fmt.Sprintf("a/%02d", i), strings.Repeat("x", 100)), putOp(archive, fmt.Sprintf("b/%02d", i), "")))
		want = append(want, fmt.Sprintf("a/%02d", i))
		if i%10 == 9 {
			s.pass(time.Minute)
		}
	}
	for _, l := range []kv.List{{Limit: 7}, {MaxBytes: 350}, {Limit: 1}, {}} {
		l.NS, l.Prefix = archive, "a/"
		var got []string
		for more := true; more; {
			page := s.archived(l)
			for _, e := range page.Entries {
				got = append(got, e.Key)
			}
			if more = page.More; more {
				require.NotEmpty(s, page.Entries)
				l.After = got[len(got)-1]
			}
		}
		require.Equal(s, want, got)
	}
	for after, n := range map[string]int{"a": 40, "a/38": 1, "a/39": 0, "b": 0, "c": 0} {
		require.Len(s, s.archived(kv.List{NS: archive, Prefix: "a/", After: after}).Entries, n, after)
	}
	require.Len(s, s.archived(kv.List{NS: archive}).Entries, 80)
	require.Empty(s, s.archived(kv.List{NS: shelf}).Entries)
}

// archivist is one run of random writes, restarts and kills, beside maps that do the same.
type archivist struct {
	subject
	t   *rapid.T
	now map[[2]string]string
}

func archiveAgrees(s *subject) {
	rapid.Check(s.TB, func(t *rapid.T) {
		a := &archivist{subject: subject{TB: propertyTB{s.TB, t}, open: s.open, patience: s.patience}, t: t, now: map[[2]string]string{}}
		a.begin(options{})
		defer func() { _ = a.Engine.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write":  func(*rapid.T) { a.write() },
			"write2": func(*rapid.T) { a.write() },
			"write3": func(*rapid.T) { a.write() },
			"end": func(t *rapid.T) { // which costs the most time by far
				rapid.SampledFrom([]func(){func() { a.pass(time.Minute) }, a.restart, a.kill}).Draw(t, "how")()
			},
			"": func(*rapid.T) { a.compare() },
		})
	})
}

func (a *archivist) write() {
	var ops []kv.Op
	for i := range rapid.IntRange(1, 4).Draw(a.t, "ops") {
		name := [2]string{rapid.SampledFrom([]string{archive, shelf}).Draw(a.t, "ns"), rapid.SampledFrom([]string{"a", "b", "ba", "c"}).Draw(a.t, "key")}
		if rapid.Bool().Draw(a.t, "delete") {
			ops = append(ops, deleteOp(name[0], name[1]))
			delete(a.now, name)
			continue
		}
		text := fmt.Sprint(a.Engine.Revision(), i)
		ops = append(ops, putOp(name[0], name[1], text))
		a.now[name] = text
	}
	a.must(system(ops...))
}

func (a *archivist) compare() {
	for _, ns := range []string{archive, shelf} {
		for _, prefix := range []string{"", "b"} {
			var want []string
			for name, text := range maps.All(a.now) {
				if name[0] == ns && strings.HasPrefix(name[1], prefix) {
					want = append(want, name[1]+" "+text)
				}
			}
			slices.Sort(want)
			require.Equal(a, want, keysAndTexts(a.archived(kv.List{NS: ns, Prefix: prefix}).Entries))
		}
	}
}
