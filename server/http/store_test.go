package http

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

// storeTime is when everything in these tests is written.
const storeTime = 1_700_000_000_000

// storeKit is a gateway on an engine in memory whose clock stands still.
type storeKit struct {
	*kit
	memory *memory.Store
	time   *clocktest.Fake
}

func startStore(t testing.TB, cfg memory.Config, change func(*Config)) *storeKit {
	k := &storeKit{time: clocktest.NewFake(time.UnixMilli(storeTime))}
	cfg.Clock = k.time
	k.memory = memory.New(cfg)
	t.Cleanup(func() { require.NoError(t, k.memory.Close()) })
	k.kit = start(t, func(cfg *Config, stores *Stores) {
		stores.State, stores.StateStats = k.memory, k.memory.Stats
		if change != nil {
			change(cfg)
		}
	})
	return k
}

// entryText is an entry as it must be answered.
func entryText(key, typ, value string, size, create, mod, version int, more string) string {
	return fmt.Sprintf(`{"ns":"n","key":%q,"type":%q,"value":%s,"size":%d,"create":%d,"mod":%d,"version":%d,"updated_ms":%d%s}`,
		key, typ, value, size, create, mod, version, int64(storeTime), more)
}

type exchange struct {
	method, path, body string
	header             string // one line
	status             int
	answer             string // the whole body without the line's end; of an error the code's name
	etag               string
}

func (k *kit) exchange(steps []exchange) {
	k.t.Helper()
	for i, s := range steps {
		var header []string
		if s.header != "" {
			header = []string{s.header}
		}
		got := k.do(s.method, s.path, s.body, header...)
		what := fmt.Sprintf("step %d: %s %s %s", i, s.method, s.path, s.body)
		require.Equal(k.t, s.status, got.status, "%s: %s", what, got.body)
		if got.status >= http.StatusBadRequest {
			require.Equal(k.t, s.answer, errorName(k.t, got), "%s: %s", what, got.body)
		} else {
			require.Equal(k.t, s.answer, strings.TrimSuffix(got.body, "\n"), what)
			require.Equal(k.t, "no-store", got.header.Get("Cache-Control"), what)
		}
		require.Equal(k.t, s.etag, got.header.Get("ETag"), what)
	}
}

// errorName checks the form of an error and returns its name.
func errorName(t testing.TB, a answer) string {
	t.Helper()
	require.Equal(t, "application/json", a.header.Get("Content-Type"), a.body)
	var e struct {
		Code          *int
		Error, Detail string
		Versions      map[string]int64 // of a Mismatch
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&e), a.body)
	require.NotNil(t, e.Code)
	require.NotEmpty(t, e.Detail)
	return e.Error
}

func TestStoreKeepsAllTypes(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	path := "/v1/store/key?ns=n&key=k"
	for i, c := range []struct{ body, typ, value string }{
		{`{"type":"string","value":"a\"<b>\n\u00e9"}`, "string", `"a\"<b>\né"`},
		{`{"value":"untyped"}`, "string", `"untyped"`},
		{`{"type":"int","value":"9223372036854775807"}`, "int", `"9223372036854775807"`},
		{`{"type":"int","value":9223372036854775807}`, "int", `"9223372036854775807"`},
		{`{"value":-5}`, "int", `"-5"`},
		{`{"type":"double","value":1.50}`, "double", `"1.50"`},
		{`{"type":"double","value":"-nan"}`, "double", `"-nan"`},
		{`{"value":1e3}`, "double", `"1e3"`},
		{`{"type":"bool","value":true}`, "bool", `"true"`},
		{`{"type":"bool","value":"false"}`, "bool", `"false"`},
		{`{"type":"bytes","value":"AP8="}`, "bytes", `"AP8="`},
		{`{"type":"json","value":{"a" : [1.0, null]}}`, "json", `{"a" : [1.0, null]}`},
		{`{"type":"json","value":"text"}`, "json", `"text"`},
		{`{"value":null}`, "json", `null`},
		{`{"value":[]}`, "json", `[]`},
	} {
		got := k.do("PUT", path, c.body)
		require.Equal(t, 200, got.status, "%s: %s", c.body, got.body)
		require.Contains(t, got.body, fmt.Sprintf(`"type":%q,"value":%s,"size":`, c.typ, c.value), c.body)
		require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(i+1)), got.header.Get("ETag"))
		require.Equal(t, got.body, k.get(path).body, "as it was written")
		require.Equal(t, got.header.Get("ETag"), k.get(path).header.Get("ETag"))
	}
}

func TestStoreCRUD(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const key = "/v1/store/key?ns=n&key=k"
	k.exchange([]exchange{
		{"GET", key, "", "", 404, "not_found", ""},
		{"DELETE", key, "", "", 200, `{"deleted":false,"revision":0}`, ""},
		{"PUT", key, `{"type":"string","value":"1","if_absent":true}`, "", 200, entryText("k", "string", `"1"`, 1, 1, 1, 1, ""), `"1"`},
		{"PUT", key, `{"value":"2","if_absent":true}`, "", 412, "conflict", `"1"`},
		{"PUT", key, `{"value":"2"}`, `If-None-Match: *`, 412, "conflict", `"1"`},
		{"PUT", key, `{"value":"2"}`, `If-Match: "1"`, 200, entryText("k", "string", `"2"`, 1, 1, 2, 2, ""), `"2"`},
		{"PUT", key, `{"value":"3"}`, `If-Match: "1"`, 412, "conflict", `"2"`},
		{"PUT", key, `{"value":"3"}`, `If-Match: W/"2"`, 412, "conflict", `"2"`},
		{"PUT", key, `{"value":"3"}`, `If-Match: "abc"`, 412, "conflict", `"2"`},
		{"PUT", key, `{"value":"3"}`, `If-Match: 2`, 400, "bad_request", ""},
		{"PUT", key, `{"value":"3"}`, `If-Match: "1", "2"`, 400, "bad_request", ""},
		{"PUT", key, `{"value":"3"}`, `If-None-Match: "2"`, 400, "bad_request", ""},
		{"PUT", key, `{"value":"3","ttl_ms":1500}`, `If-Match: *`, 200, entryText("k", "string", `"3"`, 1, 1, 3, 3, `,"expires_ms":1700000001500`), `"3"`},
		{"PUT", key, `{"value":"4","expires_ms":1700000009000}`, "", 200, entryText("k", "string", `"4"`, 1, 1, 4, 4, `,"expires_ms":1700000009000`), `"4"`},
		{"GET", key, "", `If-None-Match: "4"`, 304, "", `"4"`},
		{"GET", key, "", `If-None-Match: "1", W/"4"`, 304, "", `"4"`},
		{"GET", key, "", `If-None-Match: "1"`, 200, entryText("k", "string", `"4"`, 1, 1, 4, 4, `,"expires_ms":1700000009000`), `"4"`},
		{"GET", key + "&revision=2", "", "", 200, entryText("k", "string", `"2"`, 1, 1, 2, 2, ""), `"2"`},
		{"GET", key + "&revision=99", "", "", 400, "future_revision", ""},
		{"HEAD", key, "", "", 200, "", `"4"`},
		{"DELETE", key, "", `If-Match: "3"`, 412, "conflict", `"4"`},
		{"DELETE", key, "", `If-Match: "4"`, 200, `{"deleted":true,"revision":5}`, ""},
		{"DELETE", key, "", `If-Match: *`, 412, "conflict", ""},
		{"GET", key, "", "", 404, "not_found", ""},
		{"GET", "/v1/store/history?ns=n&key=k&limit=2", "", "", 200,
			`{"versions":[{"ns":"n","key":"k","deleted":true,"mod":5,"updated_ms":1700000000000},` +
				entryText("k", "string", `"4"`, 1, 1, 4, 4, `,"expires_ms":1700000009000`) + `],"more":true,"floor":0}`, ""},
		{"GET", "/v1/store/history?ns=n&key=k&before=2", "", "", 200, `{"versions":[` + entryText("k", "string", `"1"`, 1, 1, 1, 1, "") + `],"more":false,"floor":0}`, ""},
		{"POST", "/v1/store/restore?ns=n&key=k", `{"revision":2}`, "", 200, entryText("k", "string", `"2"`, 1, 6, 6, 1, ""), `"6"`},
		{"POST", "/v1/store/restore?ns=n&key=k", `{"revision":5}`, "", 404, "not_found", ""},
		{"POST", "/v1/store/restore?ns=n&key=k", `{}`, "", 400, "bad_request", ""},
		{"POST", "/v1/store/restore?ns=n&key=k", `{"revision":1}`, `If-Match: "1"`, 412, "conflict", `"6"`},
	})
}

func TestStoreTokensMakeAWriteHappenOnce(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const key = "/v1/store/key?ns=n&key=k"
	first := entryText("k", "json", `{"a":1}`, 7, 1, 1, 1, "")
	k.exchange([]exchange{
		{"PUT", key, `{"value":{"a":1},"token":"t"}`, "", 200, first, `"1"`},
		{"PUT", key, `{"value":"between"}`, "", 200, entryText("k", "string", `"between"`, 7, 1, 2, 2, ""), `"2"`},
		{"PUT", key, `{"value":{"a":1},"token":"t"}`, "", 200, first, `"1"`},
		{"PUT", key, `{"value":"other","token":"t"}`, "", 409, "token_reused", ""},
	})
}

func TestStoreIncrAndCas(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const incr, cas = "/v1/store/incr?ns=n&key=i", "/v1/store/cas?ns=n&key=c"
	k.exchange([]exchange{
		{"POST", incr, ``, "", 200, entryText("i", "int", `"1"`, 1, 1, 1, 1, ""), `"1"`},
		{"POST", incr, `{"by":"9","initial":100,"max":10}`, "", 200, entryText("i", "int", `"10"`, 2, 1, 2, 2, ""), `"2"`},
		{"POST", incr, `{"by":1,"max":10}`, "", 409, "out_of_bounds", ""},
		{"POST", incr, `{"by":-11,"min":0}`, "", 409, "out_of_bounds", ""},
		{"POST", incr, `{"by":9223372036854775807}`, "", 409, "overflow", ""},
		{"POST", incr, `{"by":1.5}`, "", 400, "bad_request", ""},
		{"POST", incr, `{"by":1}`, `If-Match: "1"`, 412, "conflict", `"2"`},
		{"POST", cas, `{"expect":null,"type":"string","value":"a"}`, "", 200, entryText("c", "string", `"a"`, 1, 3, 3, 1, ""), `"3"`},
		{"POST", cas, `{"expect":null,"type":"string","value":"b"}`, "", 412, "conflict", `"3"`},
		{"POST", cas, `{"expect":{"type":"string","value":"a"},"value":true}`, "", 200, entryText("c", "bool", `"true"`, 4, 3, 4, 2, ""), `"4"`},
		{"POST", cas, `{"expect":{"value":"true"},"value":"c"}`, "", 200, entryText("c", "string", `"c"`, 1, 3, 5, 3, ""), `"5"`},
		{"POST", cas, `{"expect":{"type":"int","value":"c"},"value":"d"}`, "", 400, "bad_value", ""},
		{"POST", cas, `{"value":"d"}`, "", 400, "bad_request", ""},
		{"POST", cas, `{"expect":{"value":"c","more":1},"value":"d"}`, "", 400, "bad_request", ""},
		{"POST", "/v1/store/incr?ns=n&key=c", ``, "", 409, "wrong_type", ""},
	})
}

func TestStoreListsAndNamespaces(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	a, b := entryText("a/1", "string", `"x"`, 1, 1, 1, 1, ""), entryText("a/2", "int", `"2"`, 1, 1, 1, 1, "")
	bare := strings.Replace(a, `"value":"x",`, "", 1)
	k.exchange([]exchange{
		{"GET", "/v1/store/namespaces", "", "", 200, `{"namespaces":[],"more":false,"revision":0}`, ""},
		{"POST", "/v1/store/batch?ns=n", `{"items":[{"key":"a/1","type":"string","value":"x"},{"key":"a/2","value":2},{"key":"b","value":"y"},{"key":"c","delete":true}]}`, "", 200, `{"revision":1,"count":4}`, ""},
		{"GET", "/v1/store/keys?ns=n&prefix=a/", "", "", 200, `{"entries":[` + a + "," + b + `],"count":2,"more":false,"revision":1}`, ""},
		{"GET", "/v1/store/keys?ns=n&prefix=a/&limit=1", "", "", 200, `{"entries":[` + a + `],"count":1,"more":true,"revision":1}`, ""},
		{"GET", "/v1/store/keys?ns=n&prefix=a/&after=a/1", "", "", 200, `{"entries":[` + b + `],"count":1,"more":false,"revision":1}`, ""},
		{"GET", "/v1/store/keys?ns=n&limit=1&keys_only=1", "", "", 200, `{"entries":[` + bare + `],"count":1,"more":true,"revision":1}`, ""},
		{"GET", "/v1/store/keys?ns=n&count=1&limit=1", "", "", 200, `{"entries":[],"count":3,"more":false,"revision":1}`, ""},
		{"GET", "/v1/store/keys?ns=none", "", "", 200, `{"entries":[],"count":0,"more":false,"revision":1}`, ""},
		{"PUT", "/v1/store/key?ns=other&key=k", `{"value":"1"}`, "", 200, strings.Replace(entryText("k", "string", `"1"`, 1, 2, 2, 1, ""), `"ns":"n"`, `"ns":"other"`, 1), `"2"`},
		{"GET", "/v1/store/namespaces", "", "", 200, `{"namespaces":[{"name":"n","keys":3,"bytes":10},{"name":"other","keys":1,"bytes":2}],"more":false,"revision":2}`, ""},
		{"GET", "/v1/store/namespaces?after=n", "", "", 200, `{"namespaces":[{"name":"other","keys":1,"bytes":2}],"more":false,"revision":2}`, ""},
		{"GET", "/v1/store/namespaces?limit=1", "", "", 200, `{"namespaces":[{"name":"n","keys":3,"bytes":10}],"more":true,"revision":2}`, ""},
		{"DELETE", "/v1/store/namespace?ns=n&confirm=n", "", "", 200, `{"deleted":3,"more":false}`, ""},
		{"DELETE", "/v1/store/namespace?ns=n&confirm=n", "", "", 200, `{"deleted":0,"more":false}`, ""},
		{"GET", "/v1/store/namespaces", "", "", 200, `{"namespaces":[{"name":"other","keys":1,"bytes":2}],"more":false,"revision":3}`, ""},
	})
}

// Any name works, because names are query parameters.
func TestStoreTakesAnyName(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	for _, name := range []string{"a/b/../c", "..", "a b+c", "x?y=z&w#f", "é/batch", "%2F", `"<script>`, "stream"} {
		path := "/v1/store/key?ns=" + url.QueryEscape(name) + "&key=" + url.QueryEscape(name)
		require.Equal(t, 200, k.do("PUT", path, `{"value":"v"}`).status, name)
		var e struct{ NS, Key, Value string }
		require.NoError(t, json.Unmarshal([]byte(k.get(path).body), &e))
		require.Equal(t, name, e.Key)
		require.Equal(t, name, e.NS)
	}
}

func TestStoreTransactions(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const txn = "/v1/store/txn"
	order := entryText("order", "json", `{"item":7}`, 10, 2, 2, 1, "")
	k.exchange([]exchange{
		{"PUT", "/v1/store/key?ns=stock&key=n", `{"value":5}`, "", 200, strings.Replace(entryText("n", "int", `"5"`, 1, 1, 1, 1, ""), `"ns":"n"`, `"ns":"stock"`, 1), `"1"`},
		{"POST", txn, `{"ns":"n","if":[{"key":"order","target":"version","number":0},{"ns":"stock","key":"n","target":"value","op":">","value":0}],
			"then":[{"op":"put","key":"order","value":{"item":7},"prev":true},{"op":"incr","ns":"stock","key":"n","by":-1},{"op":"get","key":"none"},{"op":"delete","key":"none"}],
			"else":[{"op":"get","key":"order"}]}`, "", 200,
			`{"held":true,"revision":2,"results":[` + order[:len(order)-1] + `,"prev":null},` +
				strings.Replace(entryText("n", "int", `"4"`, 1, 1, 2, 2, ""), `"ns":"n"`, `"ns":"stock"`, 1) + `,null,{"deleted":0}]}`, ""},
		{"POST", txn, `{"ns":"n","if":[{"key":"order","target":"version","number":"0"}],"else":[{"op":"get","key":"order"}]}`, "", 200,
			`{"held":false,"revision":2,"results":[` + order + `]}`, ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"grant","ttl":5000}],"token":"g"}`, "", 200, `{"held":true,"revision":3,"results":[{"lease":3,"ttl_ms":5000}]}`, ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"grant","ttl":5000}],"token":"g"}`, "", 200, `{"held":true,"revision":3,"replayed":true,"results":[{"lease":3,"ttl_ms":5000}]}`, ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"put","key":"l","value":"x","lease":3}]}`, "", 200, `{"held":true,"revision":4,"results":[` + entryText("l", "string", `"x"`, 1, 4, 4, 1, `,"lease":3`) + `]}`, ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"revoke","lease":3}]}`, "", 200, `{"held":true,"revision":5,"results":[{"deleted":1}]}`, ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"delete_prefix","prefix":"or","limit":1}]}`, "", 200, `{"held":true,"revision":6,"results":[{"deleted":1,"more":false}]}`, ""},
		{"POST", txn, `{"then":[{"op":"put","ns":"n","key":"x","value":1}],"if_fence":{"ns":"n","key":"lock","fence":7}}`, "", 412, "fence_lost", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"put","key":"x","value":1}],"if_fence":[{"key":"lock"}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"jump","key":"x"}]}`, "", 400, "bad_op", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"put","key":"x"}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"get","key":"x","value":1}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","if":[{"key":"x","target":"size"}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","if":[{"key":"x","target":"mod"}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","if":[{"key":"x","target":"mod","op":">=","number":1}]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","than":[]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","then":[1]}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","then":{}}`, "", 400, "bad_request", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"put","key":"x","value":1,"ttl":5,"ttl_ms":6}]}`, "", 400, "bad_ttl", ""},
		{"POST", txn, `{"ns":"n","then":[{"op":"put","key":"e","value":"x","ttl_ms":5000},{"op":"put","key":"f","value":"x","expires":1800000000000,"expires_ms":"1800000000000"}]}`, "", 200,
			`{"held":true,"revision":7,"results":[` + entryText("e", "string", `"x"`, 1, 7, 7, 1, `,"expires_ms":1700000005000`) + `,` +
				entryText("f", "string", `"x"`, 1, 7, 7, 1, `,"expires_ms":1800000000000`) + `]}`, ""},
		{"POST", txn, `[]`, "", 400, "bad_json", ""},
		{"POST", txn, `{"ns":"n",`, "", 400, "bad_json", ""},
		{"POST", txn + "?ns=n", `{}`, "", 400, "bad_request", ""},
	})
	got := k.do("POST", txn, `{"ns":"n","then":[`+strings.Repeat(`{"op":"get","key":"k"},`, kv.MaxOps)+`{"op":"get","key":"k"}]}`)
	require.Equal(t, 413, got.status)
	require.Equal(t, "too_many_ops", errorName(t, got))
}

func TestStoreRefusals(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	const key = "/v1/store/key?ns=n&key=k"
	long := strings.Repeat("k", kv.MaxKey+1)
	k.exchange([]exchange{
		{"GET", "/v1/store/key?ns=n", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/key?ns=&key=k", "", "", 400, "bad_key", ""},
		{"GET", "/v1/store/key?ns=n&key=a%00", "", "", 400, "bad_key", ""},
		{"GET", "/v1/store/key?ns=n&key=" + long, "", "", 400, "name_too_long", ""},
		{"GET", "/v1/store/key?ns=n&key=%zz", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/key?ns=n&key=k&key=l", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/key?ns=n&key=k&rev=5", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/keys", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/keys?ns=n&limit=-1", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/keys?ns=n&limit=x", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/keys?ns=n&keys_only=yes", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/history?ns=n", "", "", 400, "bad_request", ""},
		{"DELETE", "/v1/store/namespace", "", "", 400, "bad_request", ""},
		{"DELETE", "/v1/store/namespace?ns=n", "", "", 400, "unconfirmed", ""},
		{"DELETE", "/v1/store/namespace?ns=n&confirm=", "", "", 400, "unconfirmed", ""},
		{"DELETE", "/v1/store/namespace?ns=n&confirm=m", "", "", 400, "unconfirmed", ""},
		{"DELETE", "/v1/store/namespace?ns=n&confirm=m&confirm=n", "", "", 400, "bad_request", ""},
		{"POST", "/v1/store/txn", `{"ns":"n","then":[{"op":"delete_prefix","prefix":""}]}`, "", 400, "unconfirmed", ""},
		{"POST", "/v1/store/txn", `{"ns":"n","then":[{"op":"put","key":"k","value":1}],"else":[{"op":"delete_prefix","ns":"m","prefix":"","confirm":"n"}]}`, "", 400, "unconfirmed", ""},
		{"POST", "/v1/store/txn", `{"ns":"n","confirm":"n","then":[{"op":"delete_prefix","prefix":""}]}`, "", 400, "bad_request", ""},
		{"POST", "/v1/store/txn", `{"ns":"n","then":[{"op":"delete","key":"k","confirm":"n"}]}`, "", 400, "bad_request", ""},
		{"PUT", key, ``, "", 400, "bad_request", ""},
		{"PUT", key, `{"type":"text","value":"x"}`, "", 400, "bad_type", ""},
		{"PUT", key, `{"type":"int","value":"x"}`, "", 400, "bad_value", ""},
		{"PUT", key, `{"type":"int","value":true}`, "", 400, "bad_value", ""},
		{"PUT", key, `{"type":"string","value":5}`, "", 400, "bad_value", ""},
		{"PUT", key, `{"type":"bytes","value":"AP8"}`, "", 400, "bad_value", ""},
		{"PUT", key, `{"value":"x","ttl":5}`, "", 400, "bad_request", ""},
		{"PUT", key, `{"value":"x","ttl_ms":-1}`, "", 400, "bad_ttl", ""},
		{"PUT", key, `{"value":"x","ttl_ms":0}`, "", 400, "bad_ttl", ""},
		{"POST", storeRoot + "batch?ns=n", `{"items":[{"key":"k","value":"x","ttl_ms":0}]}`, "", 400, "bad_ttl", ""},
		{"POST", storeRoot + "txn", `{"ns":"n","then":[{"op":"put","key":"k","value":"x","ttl":0,"ttl_ms":0}]}`, "", 400, "bad_ttl", ""},
		{"PUT", key, `{"value":"x","ttl_ms":"soon"}`, "", 400, "bad_request", ""},
		{"PUT", key, `{"value":"x","ttl_ms":1,"expires_ms":5}`, "", 400, "bad_ttl", ""},
		{"PUT", key, `{"value":"x","lease":5}`, "", 404, "lease_gone", ""},
		{"PUT", key, `{"value":"x","if_absent":"yes"}`, "", 400, "bad_request", ""},
		{"PUT", key, `{"value":"x","if_absent":true}`, `If-Match: "1"`, 400, "bad_request", ""},
		{"PUT", key, `{"value":"` + strings.Repeat("x", kv.MaxValue+1) + `"}`, "", 413, "too_large", ""},
		{"POST", "/v1/store/batch?ns=n", `{"items":[]}`, "", 400, "bad_request", ""},
		{"POST", "/v1/store/batch?ns=n", `{"items":[{"key":"a","value":1},{"key":"","value":1}]}`, "", 400, "bad_key", ""},
		{"POST", "/v1/store/batch?ns=n", `{"items":[{"key":"a","delete":true,"value":1}]}`, "", 400, "bad_request", ""},
		{"GET", "/v1/store/stream?ns=n&key=a&prefix=b", "", "", 400, "bad_request", ""},
		{"GET", "/v1/store/stream?key=a", "", "", 400, "bad_key", ""},
		{"GET", "/v1/store/nothing", "", "", 404, "not_found", ""},
		{"PATCH", key, "", "", 405, "bad_method", ""},
	})
	require.EqualValues(t, 0, k.memory.Revision(), "nothing was changed")

	k.memory.SetFull(true)
	got := k.do("PUT", key, `{"value":"x"}`)
	require.Equal(t, 507, got.status)
	require.Equal(t, "storage", errorName(t, got))
}

// A namespace of more keys than a transaction deletes says that there are more.
func TestStoreDropsALargeNamespaceInParts(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	for from := 0; from <= kv.MaxDeletePrefix; from += kv.MaxOps {
		var items []string
		for i := from; i < min(from+kv.MaxOps, kv.MaxDeletePrefix+1); i++ {
			items = append(items, fmt.Sprintf(`{"key":"%d","value":1}`, i))
		}
		require.Equal(t, 200, k.do("POST", "/v1/store/batch?ns=n", `{"items":[`+strings.Join(items, ",")+`]}`).status)
	}
	require.Contains(t, k.do("DELETE", "/v1/store/namespace?ns=n", "").body, `give the name of the namespace again as confirm; nothing was deleted (keys in the namespace: 10001)`)
	const drop = "/v1/store/namespace?ns=n&confirm=n"
	require.Equal(t, `{"deleted":10000,"more":true}`+"\n", k.do("DELETE", drop, "").body)
	require.Equal(t, `{"deleted":1,"more":false}`+"\n", k.do("DELETE", drop, "").body)
}

// ttl is ms on the wire and seconds in Plum's part, so that neither would do here.
func TestStoreWritesRefuseTTLAndNameTTLMs(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	for path, body := range map[string]string{
		"PUT /v1/store/key?ns=n&key=k":   `{"value":1,"ttl":1}`,
		"POST /v1/store/incr?ns=n&key=k": `{"ttl":1}`,
		"POST /v1/store/batch?ns=n":      `{"items":[{"key":"k","value":1,"ttl":1}]}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		a := k.do(method, path, body)
		require.Equal(t, 400, a.status, path)
		require.Contains(t, a.body, "give ttl_ms, in milliseconds", path)
	}
}
