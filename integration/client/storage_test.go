package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// The checks H1 to H16 and H33 of player storage, which any client of the five operations can
// make.

// bag is an owner of a server of its own.
func bag(t *testing.T) (*client.Client, *client.Owner) {
	t.Helper()
	_, c := real(t, clienttest.Options{})
	return c, c.Storage().Owner("bag", "42")
}

// has requires that the owner has exactly these fields, by name and in all.
func has(t *testing.T, o *client.Owner, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	all, err := o.All(t.Context())
	require.NoError(t, err)
	var names []string
	for name, value := range all {
		got[name] = string(value)
		names = append(names, name)
	}
	require.Equal(t, want, got)
	named, err := o.Get(t.Context(), append(names, "nope")...)
	require.NoError(t, err)
	require.Equal(t, all, named)
}

func update(t *testing.T, o *client.Owner, pairs ...string) client.Changed {
	t.Helper()
	fields := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = []byte(pairs[i+1])
	}
	done, err := o.Update(t.Context(), fields)
	require.NoError(t, err)
	return done
}

func TestStorageH1ANewOwnerHasNothing(t *testing.T) {
	_, o := bag(t)
	has(t, o, map[string]string{})
}

func TestStorageH2H3UpdateIsRead(t *testing.T) {
	_, o := bag(t)
	update(t, o, "a", "1", "b", "2")
	got, err := o.Get(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("1"), "b": []byte("2")}, got)
	has(t, o, map[string]string{"a": "1", "b": "2"})
	update(t, o, "b", "3")
	has(t, o, map[string]string{"a": "1", "b": "3"})
}

func TestStorageH4H5H7NothingIsReserved(t *testing.T) {
	_, o := bag(t)
	want := map[string]string{
		"model": "1", "delay": "2", "cachedAllKey": "3", "missNum": "4", "x:delFlag": "5", "flag": ":delFlag", "zero": "a\x00b\xff\xfe", "empty": "", "007": "007", "-0": "-0", "9223372036854775808": "9223372036854775808",
	}
	for name, value := range want {
		update(t, o, name, value)
	}
	has(t, o, want)
}

func TestStorageH6IDsMayHaveAnyCharacters(t *testing.T) {
	c, _ := bag(t)
	ids := []string{"a", "b", "a:b", "b:c", "c", "&", "%", "%3A", "'", "{x}", "玩家", "a\nb", ":", "::", "_", `"`, "x y", "A"}
	for _, logic := range ids {
		for _, id := range ids {
			update(t, c.Storage().Owner(logic, id), ":k", logic+"|"+id, "k:", "v", "K", "upper", "k", "lower")
		}
	}
	for _, logic := range ids {
		for _, id := range ids {
			has(t, c.Storage().Owner(logic, id), map[string]string{":k": logic + "|" + id, "k:": "v", "K": "upper", "k": "lower"})
		}
	}
	n, err := c.Storage().CountOwners(t.Context(), "")
	require.NoError(t, err)
	require.EqualValues(t, len(ids)*len(ids), n)
	for _, logic := range ids {
		found := map[string]bool{}
		for o, err := range c.Storage().Owners(t.Context(), logic) {
			require.NoError(t, err)
			require.Equal(t, logic, o.Logic)
			found[o.ID] = true
		}
		require.Len(t, found, len(ids), "owners of %q", logic)
	}
}

func TestStorageH8H11Incr(t *testing.T) {
	_, o := bag(t)
	for i, by := range []int64{5, 5, -3} {
		done, err := o.Incr(t.Context(), map[string]int64{"n": by})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"n": []int64{5, 10, 7}[i]}, done.Values)
	}
	has(t, o, map[string]string{"n": "7"})
}

func TestStorageH9H10AnIncrementIsAtomic(t *testing.T) {
	_, o := bag(t)
	update(t, o, "s", "abc", "ok", "1", "max", fmt.Sprint(int64(math.MaxInt64)))
	_, err := o.Incr(t.Context(), map[string]int64{"ok": 1, "s": 1})
	require.ErrorIs(t, err, codes.WrongType)
	_, err = o.Incr(t.Context(), map[string]int64{"max": 1, "ok": 1})
	require.ErrorIs(t, err, codes.Overflow)
	has(t, o, map[string]string{"s": "abc", "ok": "1", "max": fmt.Sprint(int64(math.MaxInt64))})
}

func TestStorageH12ManyIncrementsUnderLoss(t *testing.T) {
	const writers, each = 50, 20
	srv, c := real(t, clienttest.Options{})
	o := c.Storage().Owner("bag", "42")
	begun, stop := shaking(srv)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if i == each-1 {
					<-begun
				}
				if _, err := insisting(func() (client.Changed, error) { return o.Incr(t.Context(), map[string]int64{"n": 1}) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop()
	got, err := insisting(func() (map[string][]byte, error) { return o.Get(t.Context(), "n") })
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(writers*each), string(got["n"]))
}

func TestStorageH13ToH16RemovedFields(t *testing.T) {
	_, o := bag(t)
	update(t, o, "a", "old", "n", "10", "stays", "1")
	done, err := o.Remove(t.Context(), []string{"a", "n", "nope"}, client.WithPrev())
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("old"), "n": []byte("10")}, done.Prev)
	has(t, o, map[string]string{"stays": "1"})
	again, err := o.Remove(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.LessOrEqual(t, again.Revision, done.Revision, "nothing changes")

	restored, err := o.Restore(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("old")}, restored.Fields)
	_, err = o.Restore(t.Context(), []string{"never"})
	require.ErrorIs(t, err, codes.NotFound)
	_, err = o.Remove(t.Context(), []string{"a"})
	require.NoError(t, err)
	update(t, o, "a", "new")
	sum, err := o.Incr(t.Context(), map[string]int64{"n": 3})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"n": 3}, sum.Values)
	has(t, o, map[string]string{"a": "new", "n": "3", "stays": "1"})
}

func TestStorageH33AppsAndRegionsAreSeparate(t *testing.T) {
	c, o := bag(t)
	places := [][2]string{{"1", "1"}, {"1", "2"}, {"2", "1"}, {"1_2", "1"}, {"1", "2_1"}, {"游戏", "eu"}}
	for _, at := range places {
		update(t, c.StorageOf(at[0], at[1]).Owner("bag", "42"), "k", fmt.Sprint(at))
	}
	for _, at := range places {
		has(t, c.StorageOf(at[0], at[1]).Owner("bag", "42"), map[string]string{"k": fmt.Sprint(at)})
		n, err := c.StorageOf(at[0], at[1]).CountOwners(t.Context(), "bag")
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
	}
	has(t, o, map[string]string{"k": fmt.Sprint(places[0])})
}

func TestStorageConditionsAndVersions(t *testing.T) {
	_, o := bag(t)
	first, err := o.Update(t.Context(), map[string][]byte{"gold": []byte("1")}, client.IfVersions(map[string]int64{"gold": 0}))
	require.NoError(t, err)
	late, err := o.Update(t.Context(), map[string][]byte{"gold": []byte("2")}, client.IfVersions(map[string]int64{"gold": 0}))
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, first.Versions, late.Versions)
	second, err := o.Incr(t.Context(), map[string]int64{"gold": 1}, client.IfVersions(first.Versions), client.WithPrev())
	require.NoError(t, err)
	require.Greater(t, second.Versions["gold"], first.Versions["gold"])
	require.Equal(t, "1", string(second.Prev["gold"]))
	fields, err := o.GetVersions(t.Context(), "gold", "none")
	require.NoError(t, err)
	require.Equal(t, []client.StorageField{{Name: "gold", Value: []byte("2"), Version: second.Versions["gold"]}}, fields)
}

func TestStorageTokensMakeRepetitionsHarmless(t *testing.T) {
	_, o := bag(t)
	once := client.WithToken("t-1")
	var done [2]client.Changed
	for i := range done {
		var err error
		done[i], err = o.Incr(t.Context(), map[string]int64{"n": 5}, once)
		require.NoError(t, err)
	}
	require.Equal(t, done[0], done[1])
	_, err := o.Incr(t.Context(), map[string]int64{"n": 6}, once)
	require.ErrorIs(t, err, codes.TokenReused)
	has(t, o, map[string]string{"n": "5"})
}

func TestStorageRefusesBadRequestsByName(t *testing.T) {
	c, o := bag(t)
	ctx := t.Context()
	try := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"update of no fields":    try(o.Update(ctx, nil)),
		"increment of no fields": try(o.Incr(ctx, nil)),
		"lease":                  try(o.Update(ctx, map[string][]byte{"a": nil}, client.WithTTL(1))),
		"IfVersions":             try(o.Update(ctx, map[string][]byte{"a": nil}, client.IfAbsent())),
		"use IfMod":              try(c.KV("n").PutInt(ctx, "k", 1, client.IfVersions(map[string]int64{}))),
		"owner":                  try(c.Storage().Owner("bag", "").All(ctx)),
		"@storage/1_1":           try(c.KV("@storage/1_1").PutInt(ctx, "bag:42:gold", 1)),
		"\"@landing\"":           try(c.KV("@landing").Drop(ctx)),
		"beyond":                 errors.Join(try(o.Update(ctx, map[string][]byte{"a": make([]byte, kv.MaxValue+1)})), errors.New("beyond")),
	} {
		require.ErrorContains(t, err, what)
		require.NotEqual(t, codes.Internal, codes.Of(err), what)
	}
	has(t, o, map[string]string{})
	update(t, o, "gold", "1")
	e, err := c.KV("@storage/1_1").Get(ctx, "bag:42:gold")
	require.NoError(t, err, "everybody may read it")
	require.Equal(t, "1", string(e.Value.Data))
}

// An owner larger than a page is read as it is at one moment, no matter who writes.
func TestStorageAllIsOfOneMoment(t *testing.T) {
	_, c := real(t, clienttest.Options{})
	o := c.Storage().Owner("bag", "large")
	const fields = 300
	pad := fmt.Sprintf("%020000d", 0)
	write := func(ctx context.Context, n int) error {
		m := make(map[string][]byte, fields/2)
		for i := range fields / 2 {
			m[fmt.Sprintf("%03d", i*2)] = fmt.Appendf(nil, "%d%s", n, pad)
		}
		_, err := o.Update(ctx, m)
		return err
	}
	require.NoError(t, write(t.Context(), 0))
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for n := 1; err == nil; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = write(t.Context(), n)
			}
		}
		stopped <- err
	}()
	for range 10 {
		all, err := o.All(t.Context())
		require.NoError(t, err)
		require.Len(t, all, fields/2)
		first := all["000"]
		for name, value := range all {
			require.Equal(t, string(first), string(value), name)
		}
	}
	close(stop)
	require.NoError(t, <-stopped)
}

// A server without a database has nothing for a lander, and says so.
func TestStorageLandersOfAServerWithoutADatabase(t *testing.T) {
	c, o := bag(t)
	update(t, o, "gold", "1")
	l := c.Lander()
	set, err := l.Settings(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, set.Tables)
	try := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"claim":   try(l.Claim(t.Context(), 0, "lander")),
		"batch":   try(l.Dirty(t.Context(), 0, 0)),
		"landing": l.Landed(t.Context(), 1, &field.Batch{}, nil),
	} {
		require.ErrorContains(t, err, what)
		require.NotEqual(t, codes.Internal, codes.Of(err), what)
	}
	_, more, err := c.Landing().Errors(t.Context(), client.FieldName{}, 10)
	require.NoError(t, err)
	require.False(t, more)
	_, err = c.Landing().Status(t.Context())
	require.NoError(t, err)
}

// H36: also a value that is a text of characters with long names in JSON.
func TestStorageH36AMebibyteOfAnyBytesIsWritten(t *testing.T) {
	_, o := bag(t)
	for _, letter := range []string{"\x00", "\x01", "\"", "\\", "é", "\xff"} {
		whole := strings.Repeat(letter, kv.MaxValue/len(letter))
		_, err := o.Update(t.Context(), map[string][]byte{"a": []byte(whole), "short": []byte(letter)})
		require.NoError(t, err, "%q", letter)
		got, err := o.Get(t.Context(), "a", "short")
		require.NoError(t, err, "%q", letter)
		require.True(t, whole == string(got["a"]), "%q", letter)
		require.Equal(t, letter, string(got["short"]))
		all, err := o.All(t.Context())
		require.NoError(t, err, "%q", letter)
		require.Len(t, all, 2)
	}
}
