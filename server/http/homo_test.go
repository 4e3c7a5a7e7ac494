package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kvstore/memory"
	"confcenter/player"
)

// startRealStorage is a gateway on player storage as it is, without a database.
func startRealStorage(t testing.TB) *storeKit {
	t.Helper()
	k := startStore(t, memory.Config{}, nil)
	real, err := player.Open(player.Config{Store: k.memory, Clock: k.time})
	require.NoError(t, err)
	t.Cleanup(func() {
		k.stop()
		require.NoError(t, real.Close())
	})
	k.stores.Storage = real
	return k
}

func TestAPageOfANewStoreHasARevision(t *testing.T) {
	k := startRealStorage(t)
	require.Equal(t, "{\"fields\":{},\"revision\":0}\n", k.get(ownerPath("1", "1", "player", "7")).body)
}

// The checks of homo that are about operations, over HTTP. Each owner begins new. A step's
// answer is part of the reply's body, or the name of its error.
func TestH1ToH16OverHTTP(t *testing.T) {
	k := startRealStorage(t)
	type step struct{ method, path, body, want string }
	const get, patch, post = http.MethodGet, http.MethodPatch, http.MethodPost
	for name, steps := range map[string][]step{
		"H1_a_new_owner_is_empty": {{get, "?names=a,b", "", `{"fields":{}}`}, {get, "", "", `{"fields":{},"revision"`}},
		"H2_H3_exactly_what_was_set": {
			{patch, "", `{"fields":{"a":"1","b":"2"}}`, `"versions":{"a":`},
			{get, "?names=a,b,c", "", `{"fields":{"a":"1","b":"2"}}`},
			{get, "", "", `{"fields":{"a":"1","b":"2"},"revision"`},
		},
		"H4_names_of_the_old_marks": {
			{patch, "", `{"fields":{"model":"1","delay":"2","cachedAllKey":"3","missNum":"4","x:delFlag":"5"}}`, `"revision"`},
			{get, "", "", `{"fields":{"cachedAllKey":"3","delay":"2","missNum":"4","model":"1","x:delFlag":"5"}`},
		},
		"H5_a_value_like_the_old_mark": {{patch, "", `{"fields":{"a":":delFlag"}}`, `"revision"`}, {get, "?names=a", "", `{"fields":{"a":":delFlag"}}`}},
		"H7_bytes":                     {{patch, "", `{"bytes":{"a":"AAH/AA=="},"fields":{"z":"\u0000"}}`, `"revision"`}, {get, "?names=a,z", "", `{"fields":{"z":"\u0000"},"bytes":{"a":"AAH/AA=="}}`}},
		"H8_increments_begin_at_0": {
			{post, "/incr", `{"deltas":{"n":5}}`, `"values":{"n":5}`}, {post, "/incr", `{"deltas":{"n":5}}`, `"values":{"n":10}`}, {get, "?names=n", "", `{"fields":{"n":"10"}}`},
		},
		"H9_one_text_refuses_all": {
			{patch, "", `{"fields":{"s":"abc"}}`, `"revision"`}, {post, "/incr", `{"deltas":{"ok":1,"s":1}}`, `wrong_type`}, {get, "", "", `{"fields":{"s":"abc"},`},
		},
		"H10_overflow": {
			{patch, "", `{"fields":{"n":"9223372036854775807"}}`, `"revision"`}, {post, "/incr", `{"deltas":{"n":1}}`, `overflow`}, {get, "?names=n", "", `{"fields":{"n":"9223372036854775807"}}`},
		},
		"H11_down":                {{patch, "", `{"fields":{"n":"5"}}`, `"revision"`}, {post, "/incr", `{"deltas":{"n":-3}}`, `"values":{"n":2}`}},
		"H13_H14_remove_twice":    {{patch, "", `{"fields":{"a":"1","b":"2"}}`, `"revision"`}, {post, "/remove", `{"names":["a","nope"]}`, `"revision"`}, {get, "?names=a", "", `{"fields":{}}`}, {get, "", "", `{"fields":{"b":"2"},`}, {post, "/remove", `{"names":["a"]}`, `"revision"`}, {get, "", "", `{"fields":{"b":"2"},`}},
		"H15_set_after_remove":    {{patch, "", `{"fields":{"a":"1"}}`, `"revision"`}, {post, "/remove", `{"names":["a"]}`, `"revision"`}, {patch, "", `{"fields":{"a":"new"}}`, `"revision"`}, {get, "?names=a", "", `{"fields":{"a":"new"}}`}},
		"H16_incr_after_remove":   {{patch, "", `{"fields":{"n":"10"}}`, `"revision"`}, {post, "/remove", `{"names":["n"]}`, `"revision"`}, {post, "/incr", `{"deltas":{"n":3}}`, `"values":{"n":3}`}},
		"restore":                 {{patch, "", `{"fields":{"a":"1"}}`, `"revision"`}, {post, "/remove", `{"names":["a"]}`, `"revision"`}, {post, "/restore", `{"names":["a"]}`, `"fields":{"a":"1"}`}, {get, "?names=a", "", `{"fields":{"a":"1"}}`}, {post, "/restore", `{"names":["none"]}`, `not_found`}},
		"a_token_is_applied_once": {{post, "/incr", `{"deltas":{"n":1},"token":"t"}`, `"values":{"n":1}`}, {post, "/incr", `{"deltas":{"n":1},"token":"t"}`, `"replayed":true`}, {post, "/incr", `{"deltas":{"n":2},"token":"t"}`, `token_reused`}, {get, "?names=n", "", `{"fields":{"n":"1"}}`}},
		"nothing_to_do":           {{patch, "", `{}`, `bad_request`}, {post, "/incr", `{"deltas":{}}`, `bad_request`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range steps {
				a := k.do(s.method, ownerPath("1", "1", "player", name)+s.path, s.body)
				if !strings.ContainsAny(s.want, `{"`) {
					require.Equal(t, s.want, errorName(t, a), "%s %s %s", s.method, s.path, s.body)
					continue
				}
				require.Equal(t, 200, a.status, "%s %s %s: %s", s.method, s.path, s.body, a.body)
				require.Contains(t, a.body, s.want, "%s %s %s", s.method, s.path, s.body)
			}
		})
	}
}

func TestH6IDsOfAnyCharactersOverHTTP(t *testing.T) {
	k := startRealStorage(t)
	ids := []string{"a&b", "a:b", "a%b", "a'b", "a{b}", "玩家", "a", "b", "a/b"}
	for i, logic := range ids {
		for j, id := range ids {
			require.Equal(t, 200, k.do("PATCH", ownerPath(logic, id, logic, id), fmt.Sprintf(`{"fields":{%q:"%d.%d"}}`, id, i, j)).status)
		}
	}
	for i, logic := range ids {
		for j, id := range ids {
			var got struct{ Fields map[string]string }
			require.NoError(t, json.Unmarshal([]byte(k.get(ownerPath(logic, id, logic, id)).body), &got))
			require.Equal(t, map[string]string{id: fmt.Sprintf("%d.%d", i, j)}, got.Fields)
			require.Equal(t, "{\"count\":1}\n", k.get(ownerPath(logic, id)+"?count").body, "H33: nobody else is in that region")
		}
	}
}

func TestH12FiftyClientsCountTogetherOverHTTP(t *testing.T) {
	k := startRealStorage(t)
	p := ownerPath("1", "1", "player", "7")
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			for range 20 {
				_ = k.do("POST", p+"/incr", `{"deltas":{"n":10}}`)
			}
		})
	}
	running.Wait()
	require.Equal(t, "{\"fields\":{\"n\":\"10000\"}}\n", k.get(p+"?names=n").body)
}

// Pages of an owner are of one state, and together all of it.
func TestPagesOfAnOwnerAreOfOneState(t *testing.T) {
	k := startRealStorage(t)
	p := ownerPath("1", "1", "player", "7")
	fields := map[string]string{}
	for i := range 25 {
		fields[fmt.Sprint(i)] = "old" // names that a browser sorts as numbers
	}
	fields[":x"], fields["a\nb"] = "old", "old" // names that are escaped in the store
	body, err := json.Marshal(map[string]any{"fields": fields})
	require.NoError(t, err)
	require.Equal(t, 200, k.do("PATCH", p, string(body)).status)
	got, query := map[string]string{}, "?limit=4"
	for pages := 0; ; pages++ {
		require.Less(t, pages, 8)
		var page struct {
			Fields   map[string]string
			Revision int64
			More     bool
			Next     string
		}
		a := k.get(p + query)
		require.Equal(t, 200, a.status, a.body)
		require.NoError(t, json.Unmarshal([]byte(a.body), &page))
		for name, value := range page.Fields {
			require.NotContains(t, got, name)
			got[name] = value
		}
		if !page.More {
			break
		}
		require.Equal(t, 200, k.do("PATCH", p, `{"fields":{"24":"new","9":"new"}}`).status)
		query = fmt.Sprintf("?limit=4&revision=%d&after=%s", page.Revision, strings.ReplaceAll(strings.ReplaceAll(page.Next, "\n", "%0A"), ":", "%3A"))
	}
	require.Equal(t, fields, got)
}
