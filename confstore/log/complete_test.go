package log_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// who is who made a version of a document.
func (b *bed) who(name string, n int64) log.By {
	b.t.Helper()
	v, err := b.log.Version(b.t.Context(), name, n)
	require.NoError(b.t, err)
	change, err := b.log.Change(b.t.Context(), v.Seq)
	require.NoError(b.t, err)
	by, err := b.log.Who(b.t.Context(), &v, &change)
	require.NoError(b.t, err)
	return by
}

func TestACompletionSaysWhoAndChangesNothingElse(t *testing.T) {
	b := newBed(t)
	defer b.close()
	owner := log.By{Author: "owner", Origin: access.OnDisk, Time: 7}
	onDisk, by := set("a.json", "1"), log.By{Author: "bob", Origin: "tcp", Time: 8}
	onDisk.By = owner
	ofBob := set("a.json", "2")
	ofBob.By = by
	rev := b.commit(onDisk, ofBob)[0]
	before, err := b.log.Version(t.Context(), "a.json", 1)
	require.NoError(t, err)
	require.Equal(t, owner, b.who("a.json", 1))

	as, ada := owner, owner
	as.Comment, ada.Author, ada.Commit = "as in c0", "ada", "c1"
	completed := func(n int64, by log.By) {
		require.NoError(t, b.log.Complete(t.Context(), []log.Completion{{Name: "a.json", N: n, By: by}}))
	}
	completed(1, as)
	require.Equal(t, as, b.who("a.json", 1))
	completed(1, ada)
	require.Equal(t, ada, b.who("a.json", 1))
	b.commit(onDisk)
	completed(3, ada)
	completed(3, as)
	require.Equal(t, ada, b.who("a.json", 3), "a commit counts, whenever it is told")
	completed(2, ada)
	require.Equal(t, by, b.who("a.json", 2), "only what was found on disk is git's")

	v, err := b.log.Version(t.Context(), "a.json", 1)
	require.NoError(t, err)
	require.Equal(t, before, v)
	require.Equal(t, rev, v.Revision)
	d, err := b.log.Document("a.json")
	require.NoError(t, err)
	require.EqualValues(t, 3, d.N)
	b.open()
	require.Equal(t, ada, b.who("a.json", 1))
}

func TestCompletionsGoWithTheirVersions(t *testing.T) {
	b := newBed(t)
	defer b.close()
	completions := func() (list []log.Completion) {
		for n := int64(1); n <= 4; n++ {
			list = append(list, log.Completion{Name: "a.json", N: n, By: log.By{Origin: access.OnDisk, Commit: "c"}})
		}
		return list
	}
	for _, text := range []string{"1", "2", "3", "4"} {
		b.commit(set("a.json", text))
	}
	require.NoError(t, b.log.Complete(t.Context(), completions()))
	prune := func(keep int64) {
		removed, err := b.log.Remove(t.Context(), log.Retention{Keep: keep, Before: time.UnixMilli(1 << 40)})
		require.NoError(t, err)
		require.Positive(t, removed.Versions)
	}
	left := func() int {
		page, err := b.store.ListArchive(t.Context(), kv.List{NS: "@conf/completed"})
		require.NoError(t, err)
		return len(page.Entries)
	}
	prune(2)
	require.Equal(t, 2, left())
	require.NoError(t, b.log.Complete(t.Context(), completions()), "the versions that are gone are left out")
	require.Equal(t, 2, left())

	pruned := false
	b.store.refuse = func(*kv.Txn) { // versions are removed while a completion is on its way
		if !pruned {
			pruned = true
			prune(1)
		}
	}
	require.NoError(t, b.log.Complete(t.Context(), completions()))
	require.Equal(t, 1, left())
	require.Empty(t, check(b.entries(), same))
	require.Equal(t, []string{"completion a.json//0000000004/2: there is no such version", "document a.json: its newest version, 4, is missing"}, check(b.entries(), func(e *kv.Entry) *kv.Entry {
		if e.NS == "@conf/versions" {
			return nil
		}
		return e
	})[:2])
}
