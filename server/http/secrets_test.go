package http

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
)

// secretsKit is a gateway on documents with sealed values.
func secretsKit(t *testing.T, cfg func(*Config)) *kit {
	k := start(t, func(c *Config, _ *Stores) {
		c.edge().Ring = guardtest.Ring
		if cfg != nil {
			cfg(c)
		}
	})
	for name, text := range map[string]string{
		"base.json":  guardtest.Sealed(t, "config:base.json", `{ "pw" : {"$seal":"of base"} }`),
		"heir.json":  guardtest.Sealed(t, "config:heir.json", `{"own":{"$seal":"of heir"}}`),
		"_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`,
	} {
		require.Equal(t, http.StatusOK, k.do("PUT", "/v1/config/file?name="+name, text).status)
	}
	return k
}

func TestFilesAreShownWithMarksUnlessTheyAreAskedToBeRevealed(t *testing.T) {
	k := secretsKit(t, nil)
	for _, path := range []string{"file?name=base.json", "file?name=base.json&raw=1", "resolved?name=heir.json", "search?q=of+base", "search?q=pw", "files"} {
		got := k.get(configRoot + path)
		require.Equal(t, http.StatusOK, got.status, path)
		require.NotContains(t, got.body, "of base", path)
		require.NotContains(t, got.body, "of heir", path)
	}
	raw := k.get(configRoot + "file?name=base.json&raw=1")
	require.Equal(t, `{ "pw" : "of base" }`, k.get(configRoot+"file?name=base.json&raw=1&reveal=1").body)
	require.Contains(t, k.get(configRoot+"file?name=base.json&reveal=1").body, `"text":"{ \"pw\" : \"of base\" }"`)
	require.Contains(t, k.get(configRoot+"resolved?name=heir.json&reveal=1").body, `"document":{"pw":"of base","own":"of heir"}`)

	require.Equal(t, http.StatusOK, k.do("PUT", configRoot+"file?name=base.json", raw.body).status)
	require.Equal(t, raw.body, k.get(configRoot+"file?name=base.json&raw=1").body, "what was read is written back as it was")
	require.Contains(t, k.get(configRoot+"search?q=secret:v1").body, `"base.json"`)
}

func TestOverHTTPTheOriginDecidesWhoIsRevealedWhat(t *testing.T) {
	var rights atomic.Pointer[guard.Caller]
	k := secretsKit(t, func(c *Config) {
		c.letIn(rights.Load)
	})
	for _, c := range []struct {
		rules      string
		base, heir bool
	}{
		{"read config,watch config,reveal config:heir.json", false, true},
		{"read config,watch config,reveal config:base.json", true, false},
		{"* config", true, true},
		{"* config,-reveal config:base.json", false, true},
	} {
		rights.Store(guardtest.Caller(t, strings.Split(c.rules, ",")...))
		stream := k.listen(configRoot+"revisions?name=heir.json&resolved=1&state=1&reveal=1", "")
		for _, body := range []string{
			k.get(configRoot + "resolved?name=heir.json&reveal=1").body,
			stream.take(1)[0],
		} {
			require.Equal(t, c.base, strings.Contains(body, `"pw":"of base"`), "%s %s", c.rules, body)
			require.Equal(t, c.heir, strings.Contains(body, `"own":"of heir"`), "%s %s", c.rules, body)
		}
	}
}

func TestAStreamOfRevisionsRevealsOnlyIfItIsAskedTo(t *testing.T) {
	k := secretsKit(t, nil)
	query := func(more string) string {
		return configRoot + "revisions?" + url.PathEscape("name=heir.json&resolved=1&prev=1") + more
	}
	plain, marks, part := k.listen(query("&reveal=1"), ""), k.listen(query(""), ""), k.listen(query("&reveal=1&path=/own"), "")
	for _, s := range []*eventSource{plain, marks, part} {
		s.take(1)
	}
	for _, value := range []string{"second", "third"} {
		text := guardtest.Sealed(t, "config:heir.json", `{"own":{"$seal":"`+value+`"}}`)
		require.Equal(t, http.StatusOK, k.do("PUT", configRoot+"file?name=heir.json", text).status)
		require.Contains(t, plain.take(1)[0], `"contents":{"pw":"of base","own":"`+value+`"}`)
		require.Contains(t, part.take(1)[0], `"contents":"`+value+`"`)
		got := marks.take(1)[0]
		require.NotContains(t, got, value)
		require.Contains(t, got, `$secret:`)
	}
}

func TestTroubleWithSecretsIsToldToProbes(t *testing.T) {
	k := secretsKit(t, func(c *Config) { c.Secrets = func() error { return errors.New("it was not given") } })
	ready := k.get("/readyz?verbose")
	require.Equal(t, http.StatusOK, ready.status)
	require.Contains(t, ready.body, "[!]secrets trouble: it was not given")
	require.Contains(t, k.get("/metrics").body, "\nconfcenter_secrets_trouble 1\n")
	require.Contains(t, secretsKit(t, nil).get("/metrics").body, "\nconfcenter_secrets_trouble 0\n")
}

func TestAKeysSecretIsToldOnlyToWhoAsksAndMayKnowIt(t *testing.T) {
	var rights atomic.Pointer[guard.Caller]
	k := start(t, func(c *Config, _ *Stores) {
		c.edge().Ring = guardtest.Ring
		c.letIn(rights.Load)
	})
	rights.Store(guardtest.Caller(t, "* kv", "-reveal kv"))
	const body = `{"type":"json","value":{"pw":{"$seal":"hunter2"}}}`
	for _, c := range [][3]string{
		{"PUT", "/v1/store/key?ns=game&key=k", body},
		{"GET", "/v1/store/key?ns=game&key=k", ""}, {"GET", "/v1/store/key?ns=game&key=k&reveal=1", ""}, {"GET", "/v1/store/keys?ns=game", ""},
		{"GET", "/v1/store/keys?ns=game&contains=hunter&values=1", ""}, {"GET", "/v1/store/history?ns=game&key=k", ""},
	} {
		got := k.do(c[0], c[1], c[2])
		require.Equal(t, http.StatusOK, got.status, "%v %s", c, got.body)
		require.NotContains(t, got.body, "hunter2", c)
	}
	rights.Store(guardtest.Caller(t, "read kv", "reveal kv:game/k"))
	require.Contains(t, k.get("/v1/store/key?ns=game&key=k&reveal=1").body, `{"pw":"hunter2"}`)
	require.NotContains(t, k.get("/v1/store/key?ns=game&key=k").body, "hunter2")
	e, _ := k.state.Get([]byte("game"), []byte("k"))
	require.NotContains(t, string(e.Value.Data), "hunter2")
}

// What an origin decides for one key it decides wherever the key is read.
func TestKeysAreRevealedOverHTTPKeyByKey(t *testing.T) {
	var rights atomic.Pointer[guard.Caller]
	k := start(t, func(c *Config, _ *Stores) {
		c.edge().Ring = guardtest.Ring
		c.letIn(rights.Load)
	})
	rights.Store(guardtest.Caller(t, "* kv", "-reveal kv:game/b"))
	streams := map[string]*eventSource{}
	for _, query := range []string{"ns=game", "ns=game&reveal=1", "ns=game&prev=1&reveal=1", "ns=game&prev=1"} {
		streams[query] = k.listen("/v1/store/stream?"+query, "")
		streams[query].take(1)
	}
	for _, key := range []string{"a", "b"} {
		for range 2 {
			got := k.do("PUT", "/v1/store/key?ns=game&key="+key, `{"value":"of `+key+`","seal":true}`)
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Contains(t, got.body, `"type":"json","value":"$secret:v2:`)
		}
	}
	told := func(body string, a, b bool) {
		t.Helper()
		require.Equal(t, a, strings.Contains(body, `"type":"string","value":"of a"`), body)
		require.Equal(t, b, strings.Contains(body, `"type":"string","value":"of b"`), body)
	}
	for query, s := range streams {
		told(strings.Join(s.take(4), ""), strings.Contains(query, "reveal"), false)
	}
	const both = `{"ns":"game","then":[{"op":"get","key":"a"},{"op":"get","key":"b"},{"op":"put","key":"c","value":"of c","seal":true},{"op":"delete","key":"c","prev":true}],"token":"t"}`
	for _, c := range [][3]string{
		{"GET", "/v1/store/keys?ns=game", ""}, {"GET", "/v1/store/keys?ns=game&contains=secret&values=1", ""}, {"GET", "/v1/store/key?ns=game&key=a", ""},
		{"GET", "/v1/store/history?ns=game&key=a", ""}, {"POST", "/v1/store/txn?", both}, {"POST", "/v1/store/txn?", both}, {"GET", "/v1/store/key?ns=game&key=a&revision=1", ""},
	} {
		told(k.do(c[0], c[1]+"&reveal=1", c[2]).body, true, false)
		told(k.do(c[0], c[1], c[2]).body, false, false)
		require.NotContains(t, k.do(c[0], c[1], c[2]).body, `"of b"`)
	}
	told(k.get("/v1/store/key?ns=game&key=b&reveal=1").body, false, false)
	told(k.get("/v1/store/history?ns=game&key=b&reveal=1").body, false, false)
	require.NotContains(t, k.get("/v1/store/keys?ns=game&contains=of+a&values=1&reveal=1").body, `"a"`, "a search does not find what is sealed")
	for _, body := range []string{`{"value":"hunter2","type":"int","seal":true}`, `{"value":1,"seal":"perhaps"}`} {
		got := k.do("PUT", "/v1/store/key?ns=game&key=c", body)
		require.Equal(t, http.StatusBadRequest, got.status)
		require.NotContains(t, got.body, "hunter2")
	}
	require.Contains(t, k.do("POST", "/v1/store/incr?ns=game&key=a", `{"by":1}`).body, "sealed")
}
