package http

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
)

func TestStorageRoutesNeedTheRightsToTheOwnerTheyName(t *testing.T) {
	var rights atomic.Pointer[guard.Caller]
	k := start(t, func(cfg *Config, stores *Stores) {
		stores.Storage = newFakeStorage()
		cfg.letIn(rights.Load)
	})
	with := func(rules ...string) { rights.Store(guardtest.Caller(t, rules...)) }
	const read, write = "read storage:1/1/bag/7", "write storage:1/1/bag/7"
	place, p := ownerPath("1", "1"), ownerPath("1", "1", "bag", "7")
	for _, c := range []struct{ method, path, body, rights string }{
		{"PATCH", p, `{"fields":{"a":"1"}}`, write},
		{"PATCH", p, `{"fields":{"a":"1"},"prev":true}`, write + "," + read},
		{"PATCH", p, `{"fields":{"a":"1"},"expect":{"none":0}}`, write + "," + read},
		{"POST", p + "/incr", `{"deltas":{"a":1}}`, write + "," + read},
		{"POST", p + "/remove", `{"names":["a"]}`, write},
		{"POST", p + "/restore", `{"names":["a"]}`, write + "," + read},
		{"GET", p, "", read},
		{"GET", p + "?names=a", "", read},
		{"GET", p + "?dirty", "", read},
		{"GET", place, "", "read storage:1/1"},
		{"GET", place + "?count", "", "read storage:1/1"},
		{"GET", place + "?logicType=bag", "", "read storage:1/1/bag"},
	} {
		needs := strings.Split(c.rights, ",")
		for i, without := range needs {
			with(append([]string{"* storage", "-" + without}, append(append([]string{}, needs[:i]...), needs[i+1:]...)...)...)
			got := k.do(c.method, c.path, c.body)
			require.Equal(t, http.StatusForbidden, got.status, "%s %s without %s: %s", c.method, c.path, without, got.body)
		}
		with("* storage:1/1/bag/8")
		require.Equal(t, http.StatusForbidden, k.do(c.method, c.path, c.body).status, "%s %s", c.method, c.path)
		with(needs...)
		got := k.do(c.method, c.path, c.body)
		require.Equal(t, http.StatusOK, got.status, "%s %s with %s: %s", c.method, c.path, c.rights, got.body)
	}
	with("* storage:1/1/bag/8")
	require.Equal(t, `{"regions":[]}`, strings.TrimSpace(k.get(storageRoot).body))
	with("read storage:1/1")
	require.Contains(t, k.get(storageRoot).body, `"regionId":"1"`)
	with("* storage:1/1/bag/8")
	there, none := k.get(p), k.get(ownerPath("1", "1", "bag", "9"))
	require.Equal(t, there.status, none.status)
	require.Equal(t, there.body, strings.ReplaceAll(none.body, "bag/9", "bag/7"))
}
