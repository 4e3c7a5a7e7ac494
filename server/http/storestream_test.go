package http

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/memory"
)

func (k *storeKit) put(key, body string) {
	k.t.Helper()
	require.Equal(k.t, 200, k.do("PUT", "/v1/store/key?ns=n&key="+key, body).status)
}

func storeURL(more string) string { return "/v1/store/stream?ns=n" + more }

func TestStoreStreamTellsOfAllKinds(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	k.put("a", `{"value":"1"}`)
	k.put("other/b", `{"value":{"x" : "\n"},"type":"json"}`)
	s := k.listen(storeURL("&state=1&prev=1"), "")
	a := entryText("a", "string", `"1"`, 1, 1, 1, 1, "")
	require.Equal(t, []string{
		"put " + a[:len(a)-1] + `,"prev":null} @`,
		"put " + strings.TrimSuffix(entryText("other/b", "json", `{"x":"\n"}`, 12, 2, 2, 1, ""), "}") + `,"prev":null} @`,
		"synced {} @2",
	}, s.take(3), "a JSON value is on one line")

	k.put("a", `{"value":"2","ttl_ms":1000}`)
	require.Equal(t, 200, k.do("POST", "/v1/store/batch?ns=n", `{"items":[{"key":"c","value":1},{"key":"other/b","delete":true}]}`).status)
	got := s.take(3)
	require.Equal(t, `put `+strings.TrimSuffix(entryText("a", "string", `"2"`, 1, 1, 3, 2, `,"expires_ms":1700000001000`), "}")+`,"prev":`+a+`} @3`, got[0])
	require.Contains(t, got[1], `"key":"c"`)
	require.Regexp(t, `@3$`, got[1], "the revision goes on")
	require.Regexp(t, `^delete \{"ns":"n","key":"other/b","deleted":true,"mod":4,"updated_ms":1700000000000,"prev":\{.*\}\} @4$`, got[2])

	k.time.Advance(1_000_000_000)
	require.Regexp(t, `^expire \{"ns":"n","key":"a","deleted":true,.*@5$`, s.take(1)[0])
}

func TestStoreStreamFilters(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	k.put("seed", `{"value":0}`)
	exact, prefix, all := k.listen(storeURL("&key=a"), ""), k.listen(storeURL("&prefix=a"), ""), k.listen("/v1/store/stream", "")
	for _, s := range []*eventSource{exact, prefix, all} {
		require.Equal(t, []string{"synced {} @1"}, s.take(1), "somewhere to go on from")
	}
	k.put("ab", `{"value":1}`)
	require.Equal(t, 200, k.do("PUT", "/v1/store/key?ns=m&key=a", `{"value":1}`).status)
	k.put("a", `{"value":1}`)
	keys := func(list []string) (out []string) {
		for _, text := range list {
			var e struct{ NS, Key string }
			require.NoError(t, json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):strings.LastIndexByte(text, '@')]), &e))
			out = append(out, e.NS+"/"+e.Key)
		}
		return out
	}
	require.Equal(t, []string{"n/a"}, keys(exact.take(1)))
	require.Equal(t, []string{"n/ab", "n/a"}, keys(prefix.take(2)))
	require.Equal(t, []string{"n/ab", "m/a", "n/a"}, keys(all.take(3)))
}

// A reader that breaks off again and again, in the middle of whatever comes, sees
// what one that does not sees: every revision, once it has seen one of its events
// with an id never again, in order.
func TestStoreStreamResumesWithoutGapOrDuplicate(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	k.put("first", `{"value":0}`)
	const rounds, keys = 150, 3
	var writer sync.WaitGroup
	s := k.listen(storeURL(""), "")
	s.until("synced")
	writer.Go(func() {
		for i := range rounds {
			var items []string
			for j := range keys {
				items = append(items, fmt.Sprintf(`{"key":"k%d","value":%d}`, j, i))
			}
			_ = k.do("POST", "/v1/store/batch?ns=n", `{"items":[`+strings.Join(items, ",")+`]}`)
		}
	})
	seen := map[int64]int{} // events of each revision, of the connection that finished it
	var part int
	finished := int64(1)
	for n := 0; finished < rounds+1; n++ {
		if n%7 == 6 {
			s.closeNow()
			s = k.listen(storeURL("&state=1"), s.last) // a browser asks for the same URL again
			part = 0
		}
		m, ok := s.next()
		require.True(t, ok)
		require.Equal(t, "put", m.event)
		var e struct{ Mod int64 }
		require.NoError(t, json.Unmarshal([]byte(m.data), &e))
		require.Greater(t, e.Mod, finished, "never again")
		part++
		if m.last == k.id(uint64(e.Mod)) {
			seen[e.Mod], finished, part = part, e.Mod, 0
		}
	}
	writer.Wait()
	require.Equal(t, int64(rounds+1), finished)
	last := k.get("/v1/store/key?ns=n&key=k0").body
	require.Contains(t, last, fmt.Sprintf(`"value":"%d"`, rounds-1))
	for _, n := range seen {
		require.LessOrEqual(t, n, keys)
	}
}

// Nothing is left out where the reader is not behind.
func TestStoreStreamResumeTellsEachRevision(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	for i := range 5 {
		k.put(fmt.Sprintf("k%d", i), `{"value":1}`)
	}
	for _, how := range []func() *eventSource{
		func() *eventSource { return k.listen(storeURL("&state=1"), k.id(2)) },
		func() *eventSource { return k.listen(storeURL("&last="+k.id(2)), "") },
		func() *eventSource { return k.listen(storeURL("&last="+k.id(5)), k.id(2)) },
	} {
		s := how()
		var ids []string
		for range 3 {
			m, _ := s.next()
			require.Equal(t, "put", m.event)
			ids = append(ids, m.last)
		}
		require.Equal(t, []string{k.id(3), k.id(4), k.id(5)}, ids)
	}
}

func TestStoreStreamWithAnUnknownIDGetsTheWholeState(t *testing.T) {
	k := startStore(t, memory.Config{LogBytes: 64}, nil)
	for i := range 50 {
		k.put("k", fmt.Sprintf(`{"value":%d}`, i))
	}
	_, err := k.memory.Changes(t.Context(), 1, 1<<20)
	require.Error(t, err, "revision 1 is compacted")
	want := []string{"resync {} @", "put " + entryText("k", "int", `"49"`, 2, 1, 50, 50, "") + " @", "synced {} @50"}
	for _, id := range []string{k.id(1), k.id(999), "abc", "-5"} {
		got := k.listen(storeURL(""), id).take(3)
		for i := range got[:2] {
			got[i] = got[i][:strings.LastIndexByte(got[i], '@')+1]
		}
		require.Equal(t, want, got, id)
	}
}

// Who has seen the empty store goes on from there.
func TestStoreStreamResumesFromTheEmptyStore(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	s := k.listen(storeURL(""), "")
	require.Equal(t, []string{"synced {} @0"}, s.take(1))
	s.closeNow()
	k.put("a", `{"value":"x"}`)
	s = k.listen(storeURL(""), s.last)
	require.Equal(t, []string{"put " + entryText("a", "string", `"x"`, 1, 1, 1, 1, "") + " @0", "synced {} @1"}, s.take(2))
	k.put("b", `{"value":"x"}`)
	require.Regexp(t, `^put .*"key":"b".* @2$`, s.take(1)[0])
}

// A resumed stream carries on live, and its last state is the store's.
func TestStoreStreamStateOfManyKeys(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const n = 3000
	txn := &kv.Txn{}
	for i := range n {
		txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: "n", Key: fmt.Sprintf("%05d", i), Value: kv.IntValue(int64(i))})
	}
	_, err := k.commit(txn)
	require.NoError(t, err)
	all := k.listen(storeURL("&state=1"), "").until("synced")
	require.Len(t, all, n+1)
	for _, m := range all[:n] {
		require.Empty(t, m.last, "one cannot go on from a part of the state")
	}
	require.Equal(t, k.id(1), all[n].last)
}
