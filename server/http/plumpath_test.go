package http

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// raw sends a request with the path exactly as it is written.
func (k *kit) raw(method, path, body string) answer {
	k.t.Helper()
	r, err := http.NewRequest(method, k.url, strings.NewReader(body))
	require.NoError(k.t, err)
	r.URL.Opaque = "//" + k.Addr().String() + path
	got, err := k.client.Do(r)
	require.NoError(k.t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	require.NoError(k.t, err)
	return answer{got.StatusCode, got.Header, string(text)}
}

// What a path names is what was sent: a cleaned path would be another key, or one of another namespace.
func TestPlumPathsAreReadAsSent(t *testing.T) {
	k := start(t, nil)
	for path, want := range map[string][2]string{
		"ns/a//b":           {"ns", "a//b"},
		"ns//b":             {"ns", "/b"},
		"ns//":              {"ns", "/"},
		"ns/a/":             {"ns", "a/"},
		"ns/a///":           {"ns", "a///"},
		"ns/a%2Fb":          {"ns", "a/b"},
		"ns/%2F":            {"ns", "/"},
		"ns%2Fx/k":          {"ns/x", "k"},
		"%2F/k":             {"/", "k"},
		"%2f%2F/%2f":        {"//", "/"},
		"ns%2Fx/a//b/%2F":   {"ns/x", "a//b//"},
		"ns%2F..%2Fvault/k": {"ns/../vault", "k"},
		"ns/%2e%2e":         {"ns", ".."},
		"ns/%2E":            {"ns", "."},
		"ns/%2e%2e/vault/k": {"ns", "../vault/k"},
		"%2e%2e/k":          {"..", "k"},
		"ns/.%2e/k":         {"ns", "../k"},
		"ns/...":            {"ns", "..."},
		"ns/.a/b.":          {"ns", ".a/b."},
		"ns/%6beys":         {"ns", "keys"},
		"ns/a%2Fkeys":       {"ns", "a/keys"},
		"ns/%62atch":        {"ns", "batch"},
		"ns/a+b":            {"ns", "a+b"},
		"ns%2Fx/h#x":        {"ns/x", "h#x"},
		"ns%2Fx/é|":         {"ns/x", "é|"},
		`ns/7%2F..%2F8"<`:   {"ns", `7/../8"<`},
		"ns/a%25%32%46b":    {"ns", "a%2Fb"},
	} {
		ns, key := want[0], want[1]
		stored := func() string {
			entry, _ := k.state.Get([]byte(ns), []byte(key))
			if entry == nil {
				return ""
			}
			return string(entry.Value.Data)
		}
		a := k.raw("PUT", "/v1/kv/"+path, `{"value":"`+kv.String.String()+`"}`)
		require.Equal(t, 200, a.status, "%s: %s", path, a.body)
		require.Equal(t, "string", stored(), path)
		require.Contains(t, k.raw("GET", "/v1/kv/"+path, "").body, `"value":"string"`, path)
		revision := k.state.Revision()
		require.Equal(t, 204, k.raw("DELETE", "/v1/kv/"+path, "").status, path)
		require.Empty(t, stored(), path)
		require.Equal(t, revision+1, k.state.Revision(), path)
		require.Contains(t, k.raw("GET", "/v1/kv", "").body, `"namespaces":[]`, "%s: nothing else was written", path)
	}
	require.Equal(t, 200, k.raw("PUT", "/v1/kv/a%2Fb/k", `{"value":"x"}`).status)
	require.Equal(t, []string{"k"}, keysOf(k.plumList("a%2Fb")))
	k.raw("GET", "/v1/kv/a%2Fb/keys", "").is(t, 200, `{"keys":["k"],"namespace":"a/b"}`+"\n")
	k.raw("POST", "/v1/kv/a%2Fb/batch", `{"items":[{"key":"l","value":""}]}`).is(t, 200, `{"count":1,"namespace":"a/b"}`+"\n")
}

// A path that programs on the way may resolve to another one is refused, and no answer is a redirect.
func TestNoPathIsRedirectedToAnother(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/a/b", "old", "string")
	k.plumPut("vault/k", "old", "string")
	before := k.state.Revision()
	paths := []string{
		"/v1/kv/ns/x/../a/b", "/v1/kv/ns/../vault/k", "/v1/kv/./vault/k", "/v1/kv/../kv/vault/k", "/v1/kv/ns/./a/b", "/v1/kv/ns/a/b/.", "/v1/kv/ns/a/b/..", "/v1/kv/..", "/v1/kv/.",
		"/v1/kv/../store/key?ns=vault&key=k", "/v1/kv/ns/x/..//a/b", "/v1/kv//../vault/k", "/v1/store/../kv/vault/k", "/v1/../v1/kv/vault/k", "/../v1/kv/vault/k",
		"/v1/store/./key?ns=vault&key=k", "/v1/config/./file?name=a", "/v1/config/../config/file?name=a", "/v1/storage/1/1/bag/7/../8", "/v1/storage/1/../1/bag/7",
	}
	for _, path := range paths {
		for _, method := range []string{"PUT", "DELETE", "GET"} {
			a := k.raw(method, path, `{"value":"new"}`)
			require.Equal(t, 400, a.status, "%s %s: %s", method, path, a.body)
			require.Contains(t, a.body, "..", "%s %s", method, path)
		}
	}
	empty := []string{
		"/v1//kv/vault/k", "//v1/kv/vault/k", "/v1//store/key?ns=vault&key=k", "/v1/store//key?ns=vault&key=k", "/v1/config//file?name=a", "/v1/storage/1//bag/7", "/v1/storage//1/1/bag/7",
		"/v1/kv//k", "/v1/kv//", "/v1/kv//vault/k", "/v1/kv///", "/v1/kv//keys", "/v1", "/v1/store/key/?ns=vault&key=k", "/v1/storage/1/1/bag/7%2F..%2F8#",
	}
	for _, method := range []string{"PUT", "DELETE", "GET", "HEAD", "POST", "PATCH", "TRACE", "CONNECT", "FOO"} {
		for _, path := range append(paths, empty...) {
			a := k.raw(method, path, `{"value":"new"}`)
			require.False(t, a.status >= 300 && a.status < 400, "%s %s: %d %s", method, path, a.status, a.header.Get("Location"))
		}
	}
	for _, path := range []string{"/v1/kv//k", "/v1/kv//", "/v1/kv//vault/k"} {
		k.raw("PUT", path, `{"value":"x"}`).is(t, 400, "namespace and key required\n")
	}
	require.Contains(t, k.raw("PUT", "//v1/kv/vault/k", `{"value":"x"}`).body, "//")
	require.Equal(t, before, k.state.Revision(), "nothing was written")
}
