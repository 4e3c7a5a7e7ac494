package kv_test

import (
	"strconv"
	"strings"
	"testing"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", " ", ".", "..", "a/b", "/", "a.b", "#", "*", `"`, `\`, "grüße", "世界", "\u00a0", "%", strings.Repeat("n", 128)} {
		require.NoError(t, kv.CheckNamespace(name), "%q", name)
		require.NoError(t, kv.CheckKey(name), "%q", name)
		require.NoError(t, kv.CheckPrefix(name), "%q", name)
		require.NoError(t, kv.CheckToken(name), "%q", name)
	}
	require.NoError(t, kv.CheckPrefix(""))
	require.NoError(t, kv.CheckPrefix("gr\xc3"), "it may end within a character")
	require.NoError(t, kv.CheckToken(""))
	for _, name := range []string{"a\x00", "\n", "a\tb", "\x7f", "\u0085", "\xff", "gr\xc3"} {
		for what, err := range map[string]error{"namespace": kv.CheckNamespace(name), "key": kv.CheckKey(name), "token": kv.CheckToken(name)} {
			require.Equal(t, codes.BadKey, codes.Of(err), "%s %q", what, name)
			require.Contains(t, err.Error(), what)
		}
	}
	for _, prefix := range []string{"\x00", "a\n"} {
		require.Equal(t, codes.BadKey, codes.Of(kv.CheckPrefix(prefix)))
	}
	require.Equal(t, codes.BadKey, codes.Of(kv.CheckNamespace("")))
	require.Equal(t, codes.BadKey, codes.Of(kv.CheckKey("")))
}

func TestNamesHaveALength(t *testing.T) {
	cases := map[string]struct {
		check func(string) error
		limit int
	}{
		"namespace": {kv.CheckNamespace, kv.MaxNamespace}, "key": {kv.CheckKey, kv.MaxKey}, "prefix": {kv.CheckPrefix, kv.MaxKey}, "token": {kv.CheckToken, kv.MaxToken},
	}
	for what, c := range cases {
		require.NoError(t, c.check(strings.Repeat("x", c.limit)))
		err := c.check(strings.Repeat("x", c.limit+1))
		require.Equal(t, codes.NameTooLong, codes.Of(err))
		require.Contains(t, err.Error(), what)
		require.Contains(t, err.Error(), strconv.Itoa(c.limit))
		require.Less(t, len(err.Error()), 150, "it is not shown whole")
		require.Error(t, c.check(strings.Repeat("ü", c.limit/2+1)), "bytes count, not characters")
	}
}

func TestFilters(t *testing.T) {
	cases := []struct {
		filter   kv.Filter
		ns, key  string
		want, ok bool
	}{
		{kv.Filter{}, "any", "key", true, true},
		{kv.Filter{NS: "a"}, "a", "key", true, true},
		{kv.Filter{NS: "a"}, "ab", "key", false, true},
		{kv.Filter{NS: "a", Text: "k"}, "a", "key", true, true},
		{kv.Filter{NS: "a", Text: "k"}, "b", "key", false, true},
		{kv.Filter{NS: "a", Text: "key", Exact: true}, "a", "key", true, true},
		{kv.Filter{NS: "a", Text: "key", Exact: true}, "a", "key2", false, true},
		{kv.Filter{NS: "a", Text: "key2"}, "a", "key", false, true},
		{kv.Filter{Text: "x"}, "a", "y", false, false},
		{kv.Filter{Exact: true}, "a", "y", false, false},
		{kv.Filter{NS: "a", Exact: true}, "a", "y", false, false},
		{kv.Filter{NS: "a\n"}, "a", "y", false, false},
	}
	for _, c := range cases {
		require.Equal(t, c.ok, c.filter.Check() == nil, "%+v", c.filter)
		if c.ok {
			require.Equal(t, c.want, c.filter.Match(c.ns, c.key), "%+v %s %s", c.filter, c.ns, c.key)
		}
	}
	events := []kv.Event{{Entry: &kv.Entry{NS: "a", Key: "1"}}, {Entry: &kv.Entry{NS: "a", Key: "12"}}, {Entry: &kv.Entry{NS: "a", Key: "2"}}, {Entry: &kv.Entry{NS: "b", Key: "1"}}}
	require.Equal(t, events[:3], kv.Filter{NS: "a"}.Select(events))
	require.Equal(t, events[:2], kv.Filter{NS: "a", Text: "1"}.Select(events))
	require.Equal(t, events[:1], kv.Filter{NS: "a", Text: "1", Exact: true}.Select(events))
	require.Equal(t, events[3:], kv.Filter{NS: "b"}.Select(events))
	require.Empty(t, kv.Filter{NS: "a", Text: "11"}.Select(events))
	require.Equal(t, &events[0], &kv.Filter{}.Select(events)[0], "nothing is copied if all match")
	require.Empty(t, kv.Filter{NS: "c"}.Select(events))
}

func TestEntriesAndNames(t *testing.T) {
	e := kv.Entry{Key: "key", Value: kv.StringValue("value"), Version: 1}
	require.False(t, e.Deleted())
	require.Equal(t, 8, e.Size())
	require.True(t, (&kv.Entry{Mod: 7}).Deleted())
	require.Equal(t, "put delete expire unknown", kv.Put.String()+" "+kv.Delete.String()+" "+kv.Expire.String()+" "+kv.EventKind(9).String())
	require.Equal(t, "changed state synced resync unknown", strings.Join([]string{kv.Changed.String(), kv.State.String(), kv.Synced.String(), kv.Resync.String(), kv.NoticeKind(0).String()}, " "))
	b := kv.Batch{Changes: []kv.Change{{Revision: 3}, {Revision: 5}}}
	require.Equal(t, kv.Revision(5), b.Last())
}
