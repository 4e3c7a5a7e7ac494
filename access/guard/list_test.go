package guard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/op"
)

// listed is a store with the keys of one namespace that a test lists, and something in others.
func listed(t *testing.T, keys ...string) kv.Store {
	ops := []kv.Op{put("m", "k"), put("nn", "k")}
	for _, key := range keys {
		ops = append(ops, put("n", key))
	}
	return storing(t, ops...)
}

// storing is a store in which a test has done this.
func storing(t *testing.T, ops ...kv.Op) kv.Store {
	store := memory.New(memory.Config{})
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	_, err := kv.Commit(t.Context(), store, &kv.Txn{System: true, Then: ops})
	require.NoError(t, err)
	return store
}

// TestKeysAreListedAsFarAsTheyMayBeRead: of a namespace of which the caller may read a part a list, a
// count and the list of namespaces have this part, and there is no sign of the rest.
func TestKeysAreListedAsFarAsTheyMayBeRead(t *testing.T) {
	store := listed(t, "a", "b", "b/1", "b/2", "b/3", "c", "é", "z")
	view := store.View()
	defer view.Close()
	for _, c := range []struct {
		rules, prefix, want string // want "": it is refused
	}{
		{"read kv:n", "", "a b b/1 b/2 b/3 c z é"},
		{"read kv:n/b*", "", "b b/1 b/2 b/3"},
		{"read kv:n/b/*", "", "b/1 b/2 b/3"},
		{"read kv:n/b/*", "b/2", "b/2"},
		{"read kv:n/b/*", "b/4", "-"},
		{"read kv:n/b", "", "b"},
		{"read kv:n,-read kv:n/b", "", "a b/1 b/2 b/3 c z é"},
		{"read kv:n,-read kv:n/b*", "", "a c z é"},
		{"read kv:n,-read kv:n/b/2", "b", "b b/1 b/3"},
		{"read kv:n,-read kv:n/a,-read kv:n/z", "", "b b/1 b/2 b/3 c é"},
		{"read kv:n/none", "", "-"},
		{"read kv:n/none*,read kv:n/é", "", "é"},
		{"read kv,-read kv:n/*,-read kv:m/k", "", ""},
		{"read kv:n/b/*", "c", ""},
		{"read kv:n/b/*,-read kv:n/b*", "b", ""},
		{"write kv:n", "", ""},
		{"read kv:nn,read kv:m", "", ""},
	} {
		caller := guardtest.Caller(t, strings.Split(c.rules, ",")...)
		want := strings.Fields(strings.Trim(c.want, "-"))
		l := kv.List{NS: "n", Prefix: c.prefix}
		if c.want == "" {
			require.Equal(t, codes.Forbidden, codes.Of(caller.Needs(op.Keys(policy.Read, op.Any, l.NS, l.Prefix))), c.rules)
			continue
		}
		require.NoError(t, caller.Needs(op.Keys(policy.Read, op.Any, l.NS, l.Prefix)), c.rules)
		l.CountOnly, l.After = true, "c"
		page, err := caller.Page(view, l)
		require.NoError(t, err)
		require.EqualValues(t, len(want), page.Count, c.rules)
		require.Equal(t, view.Revision(), page.Revision)
		l.CountOnly = false
		for _, limit := range []int{0, 1, 2, kv.MaxList + 1} {
			l.Limit, l.After = limit, ""
			got := []string{}
			for more := true; more; more = page.More {
				page, err = caller.Page(view, l)
				require.NoError(t, err)
				require.EqualValues(t, len(page.Entries), page.Count)
				require.False(t, page.More && len(page.Entries) == 0, "there is something to go on behind")
				for _, e := range page.Entries {
					got, l.After = append(got, e.Key), e.Key
				}
			}
			require.Equal(t, strings.Join(want, " "), strings.Join(got, " "), "%s %d", c.rules, limit)
		}
		if c.prefix == "" {
			list, more, err := caller.Namespaces(store, "m", 1)
			require.NoError(t, err)
			require.False(t, more)
			there, err := caller.Namespace(view, "n")
			require.NoError(t, err)
			require.Equal(t, len(want) > 0, there, c.rules)
			if len(want) == 0 {
				require.Empty(t, list, c.rules)
				continue
			}
			require.Len(t, list, 1, c.rules)
			require.Equal(t, kv.Namespace{Name: "n", Keys: int64(len(want)), Bytes: int64(len(strings.Join(want, "")) + len(want))}, list[0], c.rules)
		}
	}
}

// seen counts what is read of a view.
type seen struct {
	kv.View
	entries, lists int
}

func (s *seen) List(l kv.List) (kv.Page, error) {
	page, err := s.View.List(l)
	s.entries, s.lists = s.entries+len(page.Entries), s.lists+1
	return page, err
}

// TestWhatIsHiddenIsNotReadToBeLeftOut: it makes a page neither slower nor shorter, however much there is.
func TestWhatIsHiddenIsNotReadToBeLeftOut(t *testing.T) {
	var keys []string
	for i := range 4000 {
		keys = append(keys, fmt.Sprintf("h%05d", i))
	}
	store := listed(t, append(keys, "a", "z1", "z2", "z3")...)
	view := &seen{View: store.View()}
	defer view.Close()
	caller := guardtest.Caller(t, "read kv:n", "-read kv:n/h*", "read kv:n/h00500", "-read kv:n/z2")
	page, err := caller.Page(view, kv.List{NS: "n", Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2)
	require.True(t, page.More)
	page, err = caller.Page(view, kv.List{NS: "n", Limit: 2, After: page.Entries[0].Key})
	require.NoError(t, err)
	require.Equal(t, []string{"z1", "z3"}, []string{page.Entries[0].Key, page.Entries[1].Key})
	require.False(t, page.More)
	page, err = caller.Page(view, kv.List{NS: "n", CountOnly: true})
	require.NoError(t, err)
	require.EqualValues(t, 3, page.Count)
	require.Less(t, view.entries, 300)
	require.Less(t, view.lists, 30)
}
