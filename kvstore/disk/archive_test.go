package disk

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore"
)

const archive = kv.ConfigNamespace + "/a"

// archived is what a transaction does to an archived key; text "": it deletes it.
func archived(key, text string, rev kv.Revision) kv.Event {
	e := &kv.Entry{NS: archive, Key: key, Mod: rev}
	if text == "" {
		return kv.Event{Kind: kv.Delete, Entry: e}
	}
	e.Create, e.Version, e.Value = rev, 1, kv.StringValue(text)
	return kv.Event{Kind: kv.Put, Entry: e}
}

// shelve commits archived entries and nothing else.
func (s *store) shelve(keysAndTexts ...string) {
	s.t.Helper()
	c := s.commit(s.clock.Now())
	for i := 0; i < len(keysAndTexts); i += 2 {
		c.Archive = append(c.Archive, archived(keysAndTexts[i], keysAndTexts[i+1], c.Revision))
	}
	slices.SortFunc(c.Archive, func(a, b kv.Event) int { return strings.Compare(a.Entry.Key, b.Entry.Key) })
	require.NoError(s.t, s.disk.Append([]kvstore.Commit{c}))
}

func (s *store) listed(prefix string) string {
	s.t.Helper()
	page, err := s.disk.ListArchive(kv.List{NS: archive, Prefix: prefix, Limit: kv.MaxList, MaxBytes: kv.MaxPage})
	require.NoError(s.t, err)
	var b strings.Builder
	for _, e := range page.Entries {
		b.WriteString(e.Key + "=" + string(e.Value.Data) + " ")
	}
	return b.String()
}

// An opening of the store calls s's loader, which knows nothing of archived entries: reopen
// fails if it is given one.
func TestArchivedEntriesAreNotLoaded(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "key", "1"})
	s.shelve("a", "1", "b", "1", "c", "1")
	s.tables()
	require.Equal(t, 3, s.rows(archiveKind))
	require.Equal(t, 1, s.rows(currentKind))
	s.shelve("b", "2", "c", "", "ba", "1")
	for range 2 {
		require.Equal(t, "a=1 b=2 ba=1 ", s.listed(""))
		require.Equal(t, "b=2 ba=1 ", s.listed("b"))
		s.reopen()
		s.tables()
	}
	require.Equal(t, 3, s.rows(archiveKind))
	require.Zero(t, s.rows(historyKind))
	s.crash()
	require.Equal(t, "a=1 b=2 ba=1 ", s.listed(""))
}

// What is recent is remembered for those who follow; contents that they are never told are not.
func TestArchivedEntriesLeaveMemoryWithTheirTables(t *testing.T) {
	s := newStore(t, nil)
	s.shelve("large", strings.Repeat("x", 100_000))
	require.Greater(t, s.disk.holding, int64(100_000))
	s.tables()
	require.Zero(t, s.disk.holding)
	require.Less(t, s.disk.ring.bytes, int64(1000))
	changes, err := s.disk.Changes(0, 1<<20)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Empty(t, changes[0].Events)
	require.Contains(t, s.listed(""), "xxx")
}

// A version before has read the log of this one, and knew nothing of archives.
func TestArchivedEntriesAmongTheCurrentOnesAreMoved(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "key", "1"})
	s.shelve("a", "1", "b", "1")
	s.tables()
	require.NoError(t, s.disk.db.Set(nameKey(nil, currentKind, archive, "c"), appendEntry(nil, archived("c", "1", 2).Entry), pebble.Sync))
	for range 2 {
		s.reopen()
		require.Equal(t, "a=1 b=1 c=1 ", s.listed(""))
		require.Equal(t, 3, s.rows(archiveKind))
		require.Equal(t, 1, s.rows(currentKind))
	}
}
