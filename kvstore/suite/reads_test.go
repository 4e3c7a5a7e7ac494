package suite

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var readChecks = []check{
	{name: "GetSeesEveryAnsweredWrite", run: getSeesWrites},
	{name: "ReadsOfSeveralKeys", run: readsOfSeveral},
	{name: "ReadsOfSeveralKeysAreNeverTorn", run: readsOfSeveralAreNeverTorn},
	{name: "ListPages", run: listPages},
	{name: "ListEndsAtItsBytes", run: listEndsAtBytes},
	{name: "ListStaysInItsNamespace", run: listStays},
	{name: "NamespacesCount", run: namespacesCount},
	{name: "ViewStandsStill", run: viewStandsStill},
	{name: "ViewsAreNeverTorn", run: viewsAreNeverTorn},
	{name: "StatsTellWhatIsStored", run: statsTell},
}

func getSeesWrites(s *subject) {
	for i := range 200 {
		text := fmt.Sprint(i)
		r := s.then(putOp("ns", "key", text))
		e, revision := s.Engine.Get([]byte("ns"), []byte("key"))
		require.Equal(s, text, read(e), "what was answered is seen")
		require.GreaterOrEqual(s, revision, r.Revision)
		require.GreaterOrEqual(s, s.Engine.Revision(), r.Revision)
		require.LessOrEqual(s, e.Mod, revision)
	}
	e, revision := s.Engine.Get([]byte("ns"), []byte("none"))
	require.Nil(s, e)
	require.Equal(s, s.Engine.Revision(), revision)
}

func readsOfSeveral(s *subject) {
	var reads []kv.Read
	for i := range 100 {
		ns, key := []byte(fmt.Sprint("ns", i%3)), fmt.Append(nil, "key", i%40)
		if i%40 < 35 {
			s.put(string(ns), string(key), fmt.Sprint(i))
		}
		if i%40 == 7 {
			s.then(deleteOp(string(ns), string(key)))
		}
		stale := &kv.Entry{NS: "left", Key: "over"}
		reads = append(reads, kv.Read{NS: ns, Key: key, Entry: stale}, kv.Read{NS: []byte("none"), Key: key, Entry: stale})
	}
	rev := s.Engine.GetEach(reads)
	require.Equal(s, s.Engine.Revision(), rev)
	for _, r := range reads {
		want, _ := s.Engine.Get(r.NS, r.Key)
		require.Equal(s, want, r.Entry, "%s of %s", r.Key, r.NS)
	}
	require.Equal(s, rev, s.Engine.GetEach(nil))
}

func readsOfSeveralAreNeverTorn(s *subject) {
	const keys = 64
	write := &kv.Txn{}
	var reads []kv.Read
	for k := range keys {
		write.Then = append(write.Then, putOp("ns", fmt.Sprint(k), "x"))
		reads = append(reads, kv.Read{NS: []byte("ns"), Key: fmt.Append(nil, k)})
	}
	s.must(write)
	for range 200 {
		answer := s.start(write)
		for pending := true; pending; {
			select {
			case o := <-answer:
				require.NoError(s, o.err)
				pending = false
			default:
			}
			rev := s.Engine.GetEach(reads)
			for _, r := range reads {
				require.Equal(s, reads[0].Entry.Mod, r.Entry.Mod, "key %s", r.Key)
				require.LessOrEqual(s, int(rev-r.Entry.Mod), s.Foreign, "key %s", r.Key)
				require.LessOrEqual(s, r.Entry.Mod, rev, "key %s", r.Key)
			}
		}
	}
}

// list reads all pages of a list, each at most limit entries.
func list(s *subject, v kv.View, l kv.List) (keys []string) {
	s.Helper()
	for {
		page, err := v.List(l)
		require.NoError(s, err)
		require.Equal(s, v.Revision(), page.Revision)
		require.Equal(s, int64(len(page.Entries)), page.Count)
		if l.Limit > 0 {
			require.LessOrEqual(s, len(page.Entries), l.Limit)
		}
		for _, e := range page.Entries {
			require.Equal(s, l.NS, e.NS)
			keys = append(keys, e.Key)
		}
		if !page.More {
			return keys
		}
		require.NotEmpty(s, page.Entries)
		l.After = keys[len(keys)-1]
	}
}

func (s *subject) view() kv.View {
	v := s.Engine.View()
	s.hooks = append(s.hooks, v.Close)
	return v
}

func listPages(s *subject) {
	var want []string
	for _, key := range []string{"p", "p/", "p/1", "p/10", "p/2", "p/\u00e9", "p/é/x", "p0", "o", "q", "世"} {
		s.put("ns", key, "x")
		if strings.HasPrefix(key, "p/") {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	v := s.view()
	for limit := range 8 {
		require.Equal(s, want, list(s, v, kv.List{NS: "ns", Prefix: "p/", Limit: limit}))
	}
	require.Len(s, list(s, v, kv.List{NS: "ns"}), 11)
	require.Empty(s, list(s, v, kv.List{NS: "ns", Prefix: "x"}))
	require.Empty(s, list(s, v, kv.List{NS: "none"}))
	require.Equal(s, want[2:], list(s, v, kv.List{NS: "ns", Prefix: "p/", After: want[1]}))
	require.Equal(s, want, list(s, v, kv.List{NS: "ns", Prefix: "p/", After: "a"}), "after a key before the prefix")
	require.Empty(s, list(s, v, kv.List{NS: "ns", Prefix: "p/", After: "q"}))
	require.Equal(s, []string{"p/é/x"}, list(s, v, kv.List{NS: "ns", Prefix: "p/", After: "p/é"}))
	require.Equal(s, want[3:], list(s, v, kv.List{NS: "ns", Prefix: "p/", After: "p/11"}), "after a key that does not exist")

	page, err := v.List(kv.List{NS: "ns", Prefix: "p/", Limit: len(want)})
	require.NoError(s, err)
	require.False(s, page.More, "a full page that is the last one")
	page, err = v.List(kv.List{NS: "ns", Prefix: "p/", Limit: 2, After: "p/1", CountOnly: true})
	require.NoError(s, err)
	require.Equal(s, kv.Page{Revision: v.Revision(), Count: int64(len(want))}, page)
}

func listEndsAtBytes(s *subject) {
	for i := range 10 {
		s.put("ns", fmt.Sprint("key", i), strings.Repeat("x", 96))
	}
	v := s.view()
	for bytes, want := range map[int]int{1: 1, 99: 1, 100: 1, 101: 2, 250: 3, 0: 10, 1000: 10} {
		page, err := v.List(kv.List{NS: "ns", MaxBytes: bytes})
		require.NoError(s, err)
		require.Len(s, page.Entries, want, "%d bytes", bytes)
		require.Equal(s, want < 10, page.More)
	}
}

func listStays(s *subject) {
	spaces := []string{"a", "ab", "a/b", "b", "a b"}
	for _, ns := range spaces {
		s.put(ns, "b", ns)
		s.put(ns, "b/c", ns)
		s.put(ns, "x", ns)
	}
	v := s.view()
	for _, ns := range spaces {
		require.Equal(s, []string{"b", "b/c", "x"}, list(s, v, kv.List{NS: ns}))
		require.Equal(s, []string{"b", "b/c"}, list(s, v, kv.List{NS: ns, Prefix: "b"}))
		page, err := v.List(kv.List{NS: ns, CountOnly: true})
		require.NoError(s, err)
		require.Equal(s, int64(3), page.Count)
		e, err := v.Get(ns, "b")
		require.NoError(s, err)
		require.Equal(s, ns, string(e.Value.Data))
	}
}

func namespacesCount(s *subject) {
	list, more := s.Engine.Namespaces("", 0)
	require.Empty(s, list)
	require.False(s, more)
	s.put("b", "key", "four")
	s.put("b", "key2", "")
	s.put("a", "k", "1")
	s.put("c/d", "k", "1")
	s.put("b", "key", "1")
	s.then(deleteOp("b", "key2"), deleteOp("c/d", "k"))
	s.put("c/d", "k", "12")
	a, b, cd := kv.Namespace{Name: "a", Keys: 1, Bytes: 2}, kv.Namespace{Name: "b", Keys: 1, Bytes: 4}, kv.Namespace{Name: "c/d", Keys: 1, Bytes: 3}
	page := func(after string, limit int, wantMore bool, want ...kv.Namespace) {
		s.Helper()
		list, more := s.Engine.Namespaces(after, limit)
		require.Equal(s, want, append([]kv.Namespace(nil), list...))
		require.Equal(s, wantMore, more)
	}
	page("", 0, false, a, b, cd)
	page("", 2, true, a, b)
	page("", 3, false, a, b, cd)
	page("a", 0, false, b, cd)
	page("aa", 1, true, b)
	page("c/d", 0, false)
	s.then(deleteOp("b", "key"))
	page("", 0, false, a, cd)
}

func viewStandsStill(s *subject) {
	s.put("ns", "a", "1")
	s.put("ns", "b", "1")
	s.put("ns", "c", "1")
	v := s.view()
	want := s.Engine.Revision()
	s.put("ns", "a", "2")
	s.then(deleteOp("ns", "b"), putOp("ns", "d", "2"))
	s.then(deleteOp("ns", "c"))
	s.put("ns", "c", "2")
	s.put("other", "x", "2")
	require.Equal(s, want, v.Revision())
	require.Equal(s, []string{"a", "b", "c"}, list(s, v, kv.List{NS: "ns"}))
	require.Empty(s, list(s, v, kv.List{NS: "other"}))
	for _, key := range []string{"a", "b", "c"} {
		e, err := v.Get("ns", key)
		require.NoError(s, err)
		require.Equal(s, "1", string(e.Value.Data), key)
	}
	e, err := v.Get("ns", "d")
	require.NoError(s, err)
	require.Nil(s, e)
	page, err := v.List(kv.List{NS: "ns", CountOnly: true})
	require.NoError(s, err)
	require.Equal(s, int64(3), page.Count)
	require.Equal(s, []string{"a", "c", "d"}, list(s, s.view(), kv.List{NS: "ns"}))
}

// viewsAreNeverTorn writes the same number to several keys of two namespaces, over
// and over, and reads them together.
func viewsAreNeverTorn(s *subject) {
	const keys = 5
	write := func(i int) *kv.Txn {
		txn := &kv.Txn{}
		for k := range keys {
			txn.Then = append(txn.Then, putOp("a", fmt.Sprint(k), fmt.Sprint(i)), putOp("b", fmt.Sprint(k), fmt.Sprint(i)))
		}
		return txn
	}
	s.must(write(0))
	for i := 1; i <= 200; i++ {
		answer := s.start(write(i))
		v := s.Engine.View()
		first, err := v.Get("a", "0")
		require.NoError(s, err)
		want := string(first.Value.Data)
		if i%4 == 0 {
			soon(s, answer, "a put")
		}
		for _, ns := range []string{"b", "a"} {
			page, err := v.List(kv.List{NS: ns})
			require.NoError(s, err)
			require.Len(s, page.Entries, keys)
			for _, e := range page.Entries {
				require.Equal(s, want, string(e.Value.Data), "of one revision")
				require.Equal(s, first.Mod, e.Mod)
				again, err := v.Get(ns, e.Key)
				require.NoError(s, err)
				require.Equal(s, e, again)
			}
		}
		v.Close()
	}
	s.barrier()
}

func statsTell(s *subject) {
	s.put("a", "key", "12345")
	s.put("b", "key", "12345")
	s.put("b", "gone", "12345")
	s.then(deleteOp("b", "gone"))
	s.grant(minute)
	s.must(&kv.Txn{Token: "token", TokenNS: "a", Then: []kv.Op{putOp("a", "key", "1234567")}})
	v := s.view()
	stats := s.Engine.Stats()
	require.Equal(s, s.Engine.Revision(), stats.Revision)
	require.Equal(s, v.Revision(), stats.Revision)
	require.Equal(s, int64(2), stats.Namespaces)
	require.Equal(s, int64(2), stats.Keys)
	require.Equal(s, int64(18), stats.Bytes)
	require.Equal(s, int64(1), stats.Leases)
	require.Equal(s, int64(1), stats.Tokens)
	require.Equal(s, int64(1), stats.Views)
	require.Equal(s, uint64(6*(1+s.Foreign)), stats.Commits)
	require.Zero(s, stats.Queue)
}
