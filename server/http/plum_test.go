package http

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

// plumItem is an item of a list as Plum's clients read it.
type plumItem struct {
	Namespace, Key, Value, Type string
	UpdatedAt                   int64
	Size                        int
}

func (k *kit) plumPut(path, value, kind string) {
	k.t.Helper()
	body, err := json.Marshal(map[string]string{"type": kind, "value": value})
	require.NoError(k.t, err)
	a := k.do("PUT", "/v1/kv/"+path, string(body))
	require.Equal(k.t, 200, a.status, a.body)
}

func (k *kit) plumList(path string) (items []plumItem) {
	k.t.Helper()
	a := k.get("/v1/kv/" + path)
	require.Equal(k.t, 200, a.status, a.body)
	require.True(k.t, strings.HasPrefix(a.body, "["), "the SDK takes nothing but a bare array")
	require.NoError(k.t, json.Unmarshal([]byte(a.body), &items))
	return items
}

func keysOf(items []plumItem) (keys []string) {
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

func (a answer) is(t testing.TB, status int, body string) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, body, a.body)
}

func TestP01NoNamespaces(t *testing.T) {
	k := start(t, nil)
	for _, path := range []string{"/v1/kv", "/v1/kv/"} {
		a := k.get(path)
		a.is(t, 200, "{\"namespaces\":[]}\n")
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
	}
	for _, method := range []string{"PUT", "POST", "DELETE", "HEAD"} {
		require.Equal(t, 405, k.do(method, "/v1/kv", "").status, method)
	}
	k.do("DELETE", "/v1/kv", "").is(t, 405, "method not allowed\n")
}

func TestP02PutEchoes(t *testing.T) {
	k := start(t, nil)
	a := k.do("PUT", "/v1/kv/ns/counter", `{"value":"100","type":"int"}`)
	a.is(t, 200, `{"key":"counter","namespace":"ns","type":"int","value":"100"}`+"\n")
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	k.do("PUT", "/v1/kv/ns/html", `{"value":"<a&b>\u2028\n"}`).is(t, 200,
		`{"key":"html","namespace":"ns","type":"string","value":"\u003ca\u0026b\u003e\u2028\n"}`+"\n")
}

func TestP03GetReturnsText(t *testing.T) {
	k := start(t, nil)
	before := time.Now().Unix()
	k.plumPut("ns/counter", "100", "int")
	after := time.Now().Unix()
	a := k.get("/v1/kv/ns/counter")
	var item plumItem
	require.NoError(t, json.Unmarshal([]byte(a.body), &item))
	require.LessOrEqual(t, before, item.UpdatedAt)
	require.LessOrEqual(t, item.UpdatedAt, after)
	a.is(t, 200, fmt.Sprintf(`{"namespace":"ns","key":"counter","value":"100","type":"int","updatedAt":%d}`+"\n", item.UpdatedAt))
}

func TestP04AbsentKey(t *testing.T) {
	k := start(t, nil)
	a := k.get("/v1/kv/ns/none")
	a.is(t, 404, "404 page not found\n")
	require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
}

func TestP05DeleteTwice(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/counter", "100", "int")
	for range 2 {
		k.do("DELETE", "/v1/kv/ns/counter", "").is(t, 204, "")
	}
	require.Equal(t, 404, k.get("/v1/kv/ns/counter").status)
}

func TestP06TypeIsStringByDefault(t *testing.T) {
	k := start(t, nil)
	for _, body := range []string{`{"value":"x"}`, `{"value":"x","type":""}`, `{"value":"x","type":null}`, `{"value":"x"} rest`} {
		k.do("PUT", "/v1/kv/ns/k", body).is(t, 200, `{"key":"k","namespace":"ns","type":"string","value":"x"}`+"\n")
	}
	for _, body := range []string{`{}`, `null`, `{"value":null}`} {
		k.do("PUT", "/v1/kv/ns/k", body).is(t, 200, `{"key":"k","namespace":"ns","type":"string","value":""}`+"\n")
	}
}

func TestP07OnlyPlumsTypes(t *testing.T) {
	k := start(t, nil)
	for _, kind := range []string{"json", "weird", "String", "deleted"} {
		k.do("PUT", "/v1/kv/ns/k", `{"value":"1","type":"`+kind+`"}`).is(t, 400, "invalid type (must be string|int|double|bool|bytes)\n")
	}
	require.Equal(t, 404, k.get("/v1/kv/ns/k").status)
	for kind, value := range map[string]string{"int": "abc", "double": "1,5", "bool": "yes", "bytes": "not base64!!"} {
		require.Equal(t, 400, k.do("PUT", "/v1/kv/ns/k", `{"value":"`+value+`","type":"`+kind+`"}`).status, kind)
	}
	require.Equal(t, 404, k.get("/v1/kv/ns/k").status)
}

// What the SDK prints with %f, and what C prints for what is no number.
func TestDoublesAsCPrintsThem(t *testing.T) {
	k := start(t, nil)
	for _, text := range []string{"75.500000", "0.000000", "-1.000000", "nan", "-nan", "inf", "-inf"} {
		k.plumPut("ns/d", text, "double")
		require.Contains(t, k.get("/v1/kv/ns/d").body, `"value":"`+text+`"`)
	}
}

func TestP08MalformedBodies(t *testing.T) {
	k := start(t, nil)
	const object = "an object is expected, with the members value, type, ttl, ttl_ms, and this is a JSON "
	for body, why := range map[string]string{
		`{"value":100}`: "value must be a string, in quotes, and is a JSON number", `{"value":{}}`: "value must be a string, in quotes, and is a JSON object",
		`{"value":"x","type":5}`: "type must be a string, in quotes, and is a JSON number",
		`[]`:                     object + "array", `"x"`: object + "string", `1`: object + "number",
		`{"value":"x"`: "the body is not valid JSON (", ``: "the body is not valid JSON (",
	} {
		a := k.do("PUT", "/v1/kv/ns/k", body)
		require.Equal(t, 400, a.status, body)
		require.True(t, strings.HasPrefix(a.body, "bad request: "+why), "%s: %s", body, a.body)
		require.Equal(t, 1, strings.Count(a.body, "\n"), a.body)
	}
	require.Equal(t, 404, k.get("/v1/kv/ns/k").status)
}

func TestP09ListIsSorted(t *testing.T) {
	k := start(t, nil)
	for _, key := range []string{"b", "a", "c"} {
		k.plumPut("ns/"+key, "v"+key, "string")
	}
	items := k.plumList("ns")
	require.Equal(t, []string{"a", "b", "c"}, keysOf(items))
	for _, item := range items {
		require.Equal(t, plumItem{"ns", item.Key, "v" + item.Key, "string", item.UpdatedAt, 2}, item)
		require.NotZero(t, item.UpdatedAt)
	}
	k.do("DELETE", "/v1/kv/ns", "").is(t, 405, "method not allowed\n")
}

func TestP10UnknownNamespace(t *testing.T) {
	k := start(t, nil)
	k.get("/v1/kv/none").is(t, 200, "[]\n")
	k.get("/v1/kv/none?prefix=").is(t, 200, "[]\n")
}

func TestP11Prefix(t *testing.T) {
	k := start(t, nil)
	for _, key := range []string{"task.b", "task.a", "other"} {
		k.plumPut("ns/"+key, "1", "int")
	}
	require.Equal(t, []string{"task.a", "task.b"}, keysOf(k.plumList("ns?prefix=task.")))
	require.Equal(t, []string{"other", "task.a", "task.b"}, keysOf(k.plumList("ns?prefix=")))
}

func TestP12PrefixIsLiteral(t *testing.T) {
	k := start(t, nil)
	for _, key := range []string{"a_b", "axb", "A_b", "a%25c"} {
		k.plumPut("ns/"+key, "1", "int")
	}
	require.Equal(t, []string{"a_b"}, keysOf(k.plumList("ns?prefix=a_")))
	require.Equal(t, []string{"a%c"}, keysOf(k.plumList("ns?prefix=a%25")))
}

func TestP13Batch(t *testing.T) {
	k := start(t, nil)
	k.do("POST", "/v1/kv/ns/batch", `{"items":[{"key":"k1","value":"v1","type":"string"},{"key":"k2","value":"100","type":"int"}]}`).
		is(t, 200, `{"count":2,"namespace":"ns"}`+"\n")
	items := k.plumList("ns")
	require.Equal(t, []string{"k1", "k2"}, keysOf(items))
	require.Equal(t, items[0].UpdatedAt, items[1].UpdatedAt)
	k.do("POST", "/v1/kv/ns/batch", `{"items":[{"key":"k","value":"1"},{"key":"k","value":"2"}]}`).is(t, 200, `{"count":2,"namespace":"ns"}`+"\n")
	require.Contains(t, k.get("/v1/kv/ns/k").body, `"value":"2"`)
}

func TestP14BatchIsAllOrNothing(t *testing.T) {
	k := start(t, nil)
	for body, text := range map[string]string{
		`{"items":[{"key":"a","value":"1"},{"key":"","value":"2"},{"key":"c","value":"3"}]}`:          "key required\n",
		`{"items":[{"key":"a","value":"1"},{"value":"2"}]}`:                                           "key required\n",
		`{"items":[{"key":"a","value":"1"},{"key":"b","value":2}]}`:                                   "bad request: value must be a string, in quotes, and is a JSON number\n",
		`{"items":[{"key":"a","value":"1"},{"key":"b","value":"2","type":"json"}]}`:                   "invalid type (must be string|int|double|bool|bytes)\n",
		`{"items":[{"key":"a","value":"1"},{"key":"b","value":"x","type":"int"}]}`:                    "operation 1: value \"x\" is not of type int\n",
		`{"items":[{"key":"a","value":"1"},3]}`:                                                       "bad request: an object is expected, with the members key, value, type, ttl, ttl_ms, and this is a JSON number\n",
		`{"items":[{"key":"a","value":"1"},{"key":"` + strings.Repeat("k", 1025) + `","value":"2"}]}`: "",
	} {
		a := k.do("POST", "/v1/kv/ns/batch", body)
		require.Equal(t, 400, a.status, body)
		if text != "" {
			require.Equal(t, text, a.body)
		}
	}
	require.Empty(t, k.plumList("ns"))
	many := strings.Repeat(`{"key":"k","value":"v"},`, kv.MaxOps) + `{"key":"k","value":"v"}`
	require.Equal(t, 413, k.do("POST", "/v1/kv/ns/batch", `{"items":[`+many+`]}`).status)
}

func TestP15EmptyBatch(t *testing.T) {
	k := start(t, nil)
	for _, body := range []string{`{"items":[]}`, `{}`, `{"items":null}`} {
		k.do("POST", "/v1/kv/ns/batch", body).is(t, 400, "items required\n")
	}
	k.do("POST", "/v1/kv/ns/batch", `{"items":{}}`).is(t, 400, "bad request: items must be an array of objects, and is a JSON object\n")
}

func TestP17Namespaces(t *testing.T) {
	k := start(t, nil)
	for _, ns := range []string{"c", "a", "b"} {
		k.plumPut(ns+"/k", "1", "int")
	}
	k.get("/v1/kv").is(t, 200, `{"namespaces":["a","b","c"]}`+"\n")
	k.do("DELETE", "/v1/kv/b/k", "")
	k.get("/v1/kv").is(t, 200, `{"namespaces":["a","c"]}`+"\n")
}

func TestP18Keys(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/b", "secret", "string")
	k.plumPut("ns/a", "secret", "string")
	k.get("/v1/kv/ns/keys").is(t, 200, `{"keys":["a","b"],"namespace":"ns"}`+"\n")
	k.get("/v1/kv/none/keys").is(t, 200, `{"keys":[],"namespace":"none"}`+"\n")
	k.do("POST", "/v1/kv/ns/keys", "").is(t, 405, "method not allowed\n")
}

func TestP19SlashesInKeys(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/a/b/c", "1", "int")
	raw, escaped := k.get("/v1/kv/ns/a/b/c"), k.get("/v1/kv/ns/a%2Fb%2Fc")
	require.Equal(t, 200, raw.status)
	require.Equal(t, raw.body, escaped.body)
	k.plumPut("ns/dir/", "1", "int")
	require.Equal(t, []string{"a/b/c", "dir/"}, keysOf(k.plumList("ns")), "a slash at the end is kept")
}

// The order in which Plum looks at a path makes some keys unreachable.
func TestPlumsPaths(t *testing.T) {
	k := start(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"PUT", "/v1/kv/ns/keys", 405, "method not allowed\n"},
		{"GET", "/v1/kv/ns/a/keys", 400, "invalid path\n"},
		{"PUT", "/v1/kv/ns/a/batch", 405, "method not allowed\n"},
		{"POST", "/v1/kv/ns/a/batch", 400, "invalid path\n"},
		{"GET", "/v1/kv/ns/batch", 405, "method not allowed\n"},
		{"GET", "/v1/kv/ns/", 400, "namespace and key required\n"},
		{"PUT", "/v1/kv/ns/", 400, "namespace and key required\n"},
		{"POST", "/v1/kv/ns/k", 405, "method not allowed\n"},
		{"PATCH", "/v1/kv/ns/k", 405, "method not allowed\n"},
		{"HEAD", "/v1/kv/ns/k", 405, ""},
		{"HEAD", "/v1/kv/ns", 405, ""},
		{"PUT", "/v1/kv/keys/k", 200, `{"key":"k","namespace":"keys","type":"string","value":"x"}` + "\n"},
		{"PUT", "/v1/kv/batch/k", 200, `{"key":"k","namespace":"batch","type":"string","value":"x"}` + "\n"},
		{"GET", "/v1/kv/ns//k", 404, "404 page not found\n"},
		{"GET", "/v1/kv/ns/x/../k", 400, errPlumDots.Text + "\n"},
		{"GET", "/v1/kv/ns/a+b", 404, "404 page not found\n"},
		{"GET", "/v1/other", 404, "{\"code\":404,\"error\":\"not_found\",\"detail\":\"there is nothing at this path\"}\n"},
	} {
		a := k.do(c.method, c.path, `{"value":"x"}`)
		require.Equal(t, c.status, a.status, "%s %s", c.method, c.path)
		require.Equal(t, c.body, a.body, "%s %s", c.method, c.path)
	}
	require.Equal(t, []string{"k"}, keysOf(k.plumList("batch")))
	require.Equal(t, []string{"k"}, keysOf(k.plumList("keys")))
	k.do("PUT", "/v1/kv/ns/a+b", `{"value":"x"}`)
	require.Equal(t, []string{"a+b"}, keysOf(k.plumList("ns")), "a plus is a plus")
}

// P20 has the keys as the SDK sends them: blank, plus and what is beyond ASCII are
// escaped, other characters are not.
func TestP20KeysAsTheSDKSendsThem(t *testing.T) {
	k := start(t, nil)
	sdk := newSDK(t, k, "my ns é")
	keys := []string{"h#x", "plus+", "sp ace", "task.progress", "yes&no=1", "数据"}
	for _, key := range keys {
		require.True(t, sdk.put(key, "v", "string"), key)
	}
	require.Equal(t, keys, keysOf(k.plumList("my%20ns%20%C3%A9")))
	require.True(t, sdk.refresh())
	for _, key := range keys {
		require.Equal(t, "v", sdk.values[key])
	}
}

func TestP35CORSOnlyForOriginsThatAreNamed(t *testing.T) {
	k := start(t, nil)
	const origin = "Origin: http://ui.example:5173"
	a := k.get("/v1/kv", origin)
	require.Equal(t, 200, a.status)
	require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
	k.do("OPTIONS", "/v1/kv/ns/k", "", origin).is(t, 204, "")

	k = start(t, func(cfg *Config, _ *Stores) { cfg.CORSOrigins = []string{"http://ui.example:5173"} })
	for _, a := range []answer{k.do("OPTIONS", "/v1/kv/ns/k", "", origin, "Access-Control-Request-Method: PUT"), k.get("/v1/kv", origin),
		k.get("/v1/kv/ns/none", origin), k.do("PUT", "/v1/kv/ns/k", `{"value":"x"}`, origin, "Sec-Fetch-Site: cross-site")} {
		require.Equal(t, "http://ui.example:5173", a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "GET,POST,PUT,PATCH,DELETE,OPTIONS", a.header.Get("Access-Control-Allow-Methods"))
		require.Contains(t, a.header.Get("Access-Control-Allow-Headers"), "Content-Type, Authorization")
		require.Less(t, a.status, 405)
	}
	k.do("OPTIONS", "/v1/kv/ns/k", "", origin).is(t, 204, "")
	require.Equal(t, 200, k.get("/v1/kv/ns/k").status)
}

func TestP36LargeValues(t *testing.T) {
	k := start(t, nil)
	value := strings.Repeat("0123456789abcdef", kv.MaxValue/16)
	k.plumPut("ns/large", value, "string")
	var item plumItem
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/kv/ns/large").body), &item))
	require.Equal(t, value, item.Value)
	octets := base64.StdEncoding.EncodeToString([]byte(value))
	k.plumPut("ns/octets", octets, "bytes")
	items := k.plumList("ns")
	require.Equal(t, octets, items[1].Value)
	require.Equal(t, kv.MaxValue, items[1].Size)

	a := k.do("PUT", "/v1/kv/ns/more", `{"value":"`+value+`x"}`)
	require.Equal(t, 413, a.status)
	require.Equal(t, "value has 1048577 bytes, the limit is 1048576\n", a.body)
	a = k.do("PUT", "/v1/kv/ns/more", `{"value":"`+strings.Repeat(value, 9)+`"}`)
	require.Equal(t, 413, a.status)
	require.Contains(t, a.body, "the limit of 8388608 bytes")
	require.Equal(t, 404, k.get("/v1/kv/ns/more").status)
}

// A list has a page's worth of memory, not its own.
func TestListsOfManyPages(t *testing.T) {
	k := start(t, nil)
	const keys = 3000
	value := strings.Repeat("v", 1000)
	var items []string
	for i := range keys {
		items = append(items, fmt.Sprintf(`{"key":"k%04d","value":"%s"}`, i, value))
	}
	require.Equal(t, 200, k.do("POST", "/v1/kv/ns/batch", `{"items":[`+strings.Join(items, ",")+`]}`).status)
	list := k.plumList("ns")
	require.Len(t, list, keys)
	for i, item := range list {
		require.Equal(t, fmt.Sprintf("k%04d", i), item.Key)
	}
}

// Bytes come back from a list as they were, where Plum shows how many they are.
func TestBytesSurviveLists(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/raw", "AQID/wA=", "bytes")
	require.Equal(t, []plumItem{{"ns", "raw", "AQID/wA=", "bytes", k.plumList("ns")[0].UpdatedAt, 5}}, k.plumList("ns"))
	k.plumPut("ns/raw", "", "bytes")
	require.Equal(t, "", k.plumList("ns")[0].Value)
	entry, _ := k.state.Get([]byte("ns"), []byte("raw"))
	require.Equal(t, kv.Bytes, entry.Value.Type)
}

// A json value is text to Plum's clients, which know five types.
func TestJSONIsAStringToPlum(t *testing.T) {
	k := start(t, nil)
	_, err := k.commit(kv.PutTxn("ns", "doc", kv.JSONValue([]byte(`{"a":[1]}`))))
	require.NoError(t, err)
	require.Equal(t, plumItem{"ns", "doc", `{"a":[1]}`, "string", k.plumList("ns")[0].UpdatedAt, 9}, k.plumList("ns")[0])
}

// refusing is a store whose writes fail.
type refusing struct {
	kv.Store
	err error
}

func (r refusing) CommitEach(kv.Caller, []*kv.Write) (int, error) { return 0, r.err }

func TestStoreTrouble(t *testing.T) {
	for _, code := range []codes.Code{codes.Storage, codes.Quota, codes.Busy, codes.Closed, codes.Internal} {
		k := start(t, func(cfg *Config, stores *Stores) {
			_, cfg.Log = logged()
			stores.State = refusing{stores.State, code}
		})
		text := "db error: " + code.Error() + "\n"
		k.do("PUT", "/v1/kv/ns/k", `{"value":"x"}`).is(t, 500, text)
		k.do("DELETE", "/v1/kv/ns/k", "").is(t, 500, text)
		k.do("POST", "/v1/kv/ns/batch", `{"items":[{"key":"k"}]}`).is(t, 500, text)
	}
}

func TestPlumIgnoresContentTypes(t *testing.T) {
	k := start(t, nil)
	require.Equal(t, http.StatusOK, k.do("PUT", "/v1/kv/ns/k", `{"value":"x"}`, "Content-Type: text/html").status)
}

// A parameter that cannot be read is not one that is absent: the SDK would take keys
// of other namespaces for its own.
func TestPlumRefusesQueriesThatCannotBeRead(t *testing.T) {
	k := start(t, nil)
	k.plumPut("ns/a", "1", "int")
	for _, path := range []string{"/v1/stream?namespace=100%", "/v1/stream?namespace=a;b", "/v1/kv/ns?prefix=%zz", "/v1/kv/ns?prefix=b;c"} {
		k.get(path).is(t, 400, "bad request: the query cannot be read: escape what stands in it, % as %25 and ; as %3B\n")
	}
}

func TestPlumMembersInOtherCases(t *testing.T) {
	k := start(t, nil)
	k.do("PUT", "/v1/kv/ns/a", `{"Value":"5","TYPE":"int"}`).is(t, 200, `{"key":"a","namespace":"ns","type":"int","value":"5"}`+"\n")
	k.do("PUT", "/v1/kv/ns/b", `{"Value":"5","value":"6"}`).is(t, 200, `{"key":"b","namespace":"ns","type":"string","value":"6"}`+"\n")
	k.do("PUT", "/v1/kv/ns/c", `{"Value":5}`).is(t, 400, "bad request: value must be a string, in quotes, and is a JSON number\n")
	k.do("POST", "/v1/kv/ns/batch", `{"Items":[{"Key":"d","VALUE":"7"}]}`).is(t, 200, `{"count":1,"namespace":"ns"}`+"\n")
	require.Equal(t, "7", k.plumList("ns?prefix=d")[0].Value)
}

// Plum has no time to live and takes no notice of one. Here it is kept.
func TestPlumPutsTakeATimeToLive(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	for body, ttl := range map[string]int64{
		`"ttl":1`: 1000, `"ttl_ms":1`: 1, `"ttl":"2"`: 2000, `"TTL":3`: 3000, `"ttl":1,"ttl_ms":1000`: 1000,
		`"ttl":null`: 0,
	} {
		item := `{"key":"k","value":"x",` + body + `}`
		for path, body := range map[string]string{"PUT /v1/kv/n/k": item, "POST /v1/kv/n/batch": `{"items":[` + item + `]}`} {
			method, path, _ := strings.Cut(path, " ")
			require.Equal(t, 200, k.do(method, path, body).status, body)
			entry, _ := k.memory.Get([]byte("n"), []byte("k"))
			want := int64(0)
			if ttl != 0 {
				want = storeTime + ttl
			}
			require.Equal(t, want, entry.Expires, "%s %s", path, body)
		}
	}
	k.do("PUT", "/v1/kv/n/k", `{"value":"x","ttl":1}`).is(t, 200, `{"key":"k","namespace":"n","type":"string","value":"x"}`+"\n")
	s := k.listen(storeURL(""), "")
	s.until("synced")
	k.time.Advance(time.Second)
	s.until("expire")
	for _, body := range []string{`"ttl":0`, `"ttl_ms":"0"`, `"ttl":0,"ttl_ms":0`, `"TTL":0`, `"ttl":-1`, `"ttl":1.5`, `"ttl":"soon"`, `"ttl":true`, `"ttl_ms":9223372036854775807`, `"ttl":3153600001`, `"ttl":1,"ttl_ms":1`, `"ttl":0,"ttl_ms":1`} {
		a := k.do("PUT", "/v1/kv/n/k", `{"value":"x",`+body+`}`)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.body, "ttl")
		require.Equal(t, 400, k.do("POST", "/v1/kv/n/batch", `{"items":[{"key":"k","value":"x",`+body+`}]}`).status, body)
	}
	require.Equal(t, 404, k.get("/v1/kv/n/k").status)
}

// What means nothing is taken, as Plum does, and named.
func TestPlumPutsNameMembersTheyIgnore(t *testing.T) {
	k := start(t, nil)
	k.do("PUT", "/v1/kv/ns/k", `{"Value":"x","expires_at":1,"\u003c":2,"expires_at":3} rest`).is(t, 200,
		`{"key":"k","namespace":"ns","type":"string","value":"x","ignored":["expires_at","\u003c"]}`+"\n")
	k.do("POST", "/v1/kv/ns/batch", `{"ttl":1,"items":[{"key":"a","value":"x","tll":1},{"key":"b","value":"x","tll":1,"if":2}]}`).is(t, 200,
		`{"count":2,"namespace":"ns","ignored":["ttl","tll","if"]}`+"\n")
	many := `{"value":"x"`
	for i := range 100 {
		many += fmt.Sprintf(`,"%02d%s":1`, i, strings.Repeat("é", 1000))
	}
	a := k.do("PUT", "/v1/kv/ns/k", many+"}")
	var reply struct{ Ignored []string }
	require.NoError(t, json.Unmarshal([]byte(a.body), &reply))
	require.Len(t, reply.Ignored, 16)
	require.Equal(t, "00"+strings.Repeat("é", 31), reply.Ignored[0])
}
