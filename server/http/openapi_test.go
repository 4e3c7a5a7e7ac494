package http

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/memory"
)

// dict is a JSON object.
type dict = map[string]any

func openapiDocument(t testing.TB) dict {
	t.Helper()
	var doc dict
	require.NoError(t, json.Unmarshal(openapi, &doc))
	return doc
}

// resolve follows a $ref.
func resolve(t testing.TB, doc dict, v any) dict {
	t.Helper()
	d, ok := v.(dict)
	require.True(t, ok, "%v is no object", v)
	path, is := d["$ref"].(string)
	if !is {
		return d
	}
	var at any = doc
	for _, part := range strings.Split(strings.TrimPrefix(path, "#/"), "/") {
		at = at.(dict)[part]
		require.NotNil(t, at, path)
	}
	return resolve(t, doc, at)
}

// description is one operation of the document.
type description struct {
	path, method string
	operation    dict
}

func operations(t testing.TB, doc dict) map[string]description {
	t.Helper()
	all := map[string]description{}
	for path, item := range doc["paths"].(dict) {
		for method, o := range item.(dict) {
			operation := o.(dict)
			id := operation["operationId"].(string)
			require.NotContains(t, all, id)
			all[id] = description{path, strings.ToUpper(method), operation}
		}
	}
	return all
}

// stream reports whether the answer has no end.
func (d description) stream() bool {
	answer, _ := d.operation["responses"].(dict)["200"].(dict)
	content, _ := answer["content"].(dict)
	return content["text/event-stream"] != nil
}

// somewhere is the path with names in place of its parameters.
func (d description) somewhere() string { return pathParameter.ReplaceAllString(d.path, "x") }

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// documented is a mux's pattern as OpenAPI writes it.
func documented(pattern string) string {
	return strings.ReplaceAll(strings.TrimSuffix(pattern, "{$}"), "...}", "}")
}

// Every route is in the document as it is, and the document has nothing else.
func TestOpenAPIDescribesTheRoutes(t *testing.T) {
	doc := openapiDocument(t)
	left := operations(t, doc)
	for _, rt := range start(t, nil).table {
		if len(rt.uses) == 0 {
			d, found := left[rt.name]
			require.True(t, found, "%s is not described", rt.name)
			delete(left, rt.name)
			require.Equal(t, documented(rt.pattern), d.path, rt.name)
			require.Contains(t, rt.allowed(), d.method, rt.name)
			checkOperation(t, doc, d, &rt)
			continue
		}
		for _, use := range rt.uses {
			d, found := operations(t, doc)[use.name]
			require.True(t, found, "%s is not described", use.name)
			delete(left, use.name)
			require.True(t, strings.HasPrefix(d.path+"/", strings.TrimSuffix(rt.pattern, "/")+"/"), use.name)
			require.True(t, rt.pattern != d.path || slices.Contains(rt.methods, d.method), use.name)
			whole := *use
			if whole.method = d.method; d.method == http.MethodPut || d.method == http.MethodPost {
				whole.body = rt.body
			}
			checkOperation(t, doc, d, &whole)
		}
	}
	require.Empty(t, left, "there is no such route")
}

func checkOperation(t testing.TB, doc dict, d description, rt *route) {
	t.Helper()
	require.NotEmpty(t, d.operation["summary"], rt.name)
	require.NotEmpty(t, d.operation["tags"], rt.name)
	var inPath []string
	for _, p := range list(d.operation["parameters"]) {
		p := resolve(t, doc, p)
		require.NotEmpty(t, p["description"], "%s: %v", rt.name, p["name"])
		require.NotEmpty(t, p["schema"], "%s: %v", rt.name, p["name"])
		if p["in"] == "path" {
			inPath = append(inPath, p["name"].(string))
		}
	}
	var wanted []string
	for _, m := range pathParameter.FindAllStringSubmatch(d.path, -1) {
		wanted = append(wanted, m[1])
	}
	require.ElementsMatch(t, wanted, inPath, rt.name)

	responses := d.operation["responses"].(dict)
	limit, _ := d.operation["x-max-body"].(float64)
	require.EqualValues(t, rt.body, limit, "%s: the limit of the body", rt.name)
	require.Equal(t, rt.body > 0, d.operation["requestBody"] != nil, rt.name)
	require.Equal(t, rt.body > 0, responses["413"] != nil, rt.name)
	form := "application/json"
	if rt.plain {
		form = "text/plain"
	}
	for status, r := range responses {
		content, _ := resolve(t, doc, r)["content"].(dict)
		require.NotEmpty(t, resolve(t, doc, r)["description"], rt.name)
		if status == "default" || status == "412" || status == "413" {
			require.Contains(t, content, form, "%s: errors %s", rt.name, status)
		}
		if strings.HasPrefix(status, "2") {
			require.Equal(t, rt.stream, content["text/event-stream"] != nil || content["application/octet-stream"] != nil, rt.name)
		}
	}
	require.Contains(t, responses, "default", "%s: its errors", rt.name)
}

func list(v any) []any { l, _ := v.([]any); return l }

func TestOpenAPIListsTheOperations(t *testing.T) {
	schemas := openapiDocument(t)["components"].(dict)["schemas"].(dict)
	want := []any{}
	for _, kind := range kv.OpKinds() {
		want = append(want, kind.String())
	}
	require.Equal(t, want, schemas["Operation"].(dict)["properties"].(dict)["op"].(dict)["enum"])
}

func TestOpenAPIRefersToWhatIsThere(t *testing.T) {
	doc := openapiDocument(t)
	used := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case dict:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				resolve(t, doc, v)
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(doc)
	for kind, all := range doc["components"].(dict) {
		for name := range all.(dict) {
			require.True(t, used["#/components/"+kind+"/"+name] || name == "Type", "%s %s is not used", kind, name)
		}
	}
}

// Every route says by which method, with how long a body and with which form of
// errors it is asked, and that is how it behaves.
func TestRoutesDeclareWhatTheyTake(t *testing.T) {
	k := start(t, nil)
	names, places := map[string]bool{}, map[string]bool{}
	bodies := []string{http.MethodPut, http.MethodPost, http.MethodPatch}
	for _, rt := range k.table {
		require.NotEmpty(t, rt.name, rt.pattern)
		require.False(t, names[rt.name], "%s is there twice", rt.name)
		names[rt.name] = true
		require.NotEmpty(t, rt.allowed(), rt.name)
		require.Equal(t, rt.method == "", len(rt.methods) > 0, rt.name)
		require.Equal(t, rt.method == "", len(rt.uses) > 0, rt.name)
		require.NotNil(t, rt.handle, rt.name)
		require.True(t, strings.HasPrefix(rt.pattern, "/"), rt.name)
		for _, method := range rt.allowed() {
			require.Contains(t, append(bodies, http.MethodGet, http.MethodDelete), method, rt.name)
			place := method + " " + rt.pattern
			require.False(t, places[place], place)
			places[place] = true
		}
		if rt.method != "" {
			require.Equal(t, slices.Contains(bodies, rt.method), rt.body > 0, "%s: the limit of its body", rt.name)
		}
		require.LessOrEqual(t, rt.body, k.cfg.MaxBody, rt.name)
		for _, use := range rt.uses {
			require.NotEmpty(t, use.name, rt.name)
			require.Equal(t, rt.plain, use.plain, use.name)
		}
	}
	for _, rt := range k.table {
		path := pathParameter.ReplaceAllString(documented(rt.pattern), "x")
		checkErrorForm(t, &rt, send(k, "REPORT", path, 0), http.StatusMethodNotAllowed)
		for _, method := range rt.allowed() {
			if rt.body > 0 && slices.Contains(bodies, method) {
				checkErrorForm(t, &rt, send(k, method, path, rt.body+1), http.StatusRequestEntityTooLarge)
			}
		}
	}
}

// send asks without a connection; size is what the header says of the body.
func send(k *kit, method, path string, size int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.Host, r.ContentLength = "127.0.0.1", size
	w := httptest.NewRecorder()
	k.handler.ServeHTTP(w, r)
	return w
}

func checkErrorForm(t testing.TB, rt *route, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	require.Equal(t, status, w.Code, "%s: %s", rt.name, w.Body)
	if rt.plain {
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"), rt.name)
		return
	}
	errorName(t, answer{w.Code, w.Header(), w.Body.String()})
}

// A body that does not say how long it is is cut off at the limit.
func TestBodiesWithoutALengthHaveTheLimitToo(t *testing.T) {
	k := start(t, nil)
	for path, limit := range map[string]int{"PUT /v1/config/file?name=a.json": 8 << 20, "PUT /v1/store/key?ns=n&key=k": 8 << 20, "POST /v1/store/incr?ns=n&key=k": smallBody} {
		method, path, _ := strings.Cut(path, " ")
		r, err := http.NewRequest(method, k.url+path, struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", limit+1))})
		require.NoError(t, err)
		require.EqualValues(t, 0, r.ContentLength)
		reply, err := k.client.Do(r)
		require.NoError(t, err)
		require.Equal(t, 413, reply.StatusCode, path)
		require.NoError(t, reply.Body.Close())
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	k := start(t, nil)
	a := k.get("/v1/openapi.json")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Equal(t, string(openapi), a.body)
}

// What the document says of our own REST is what the handlers do: they know the
// parameters and members that it lists, and answer in its schemas.
func TestOpenAPIIsTrue(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	doc := openapiDocument(t)
	all := operations(t, doc)
	k.put("k", `{"value":1}`)
	require.Equal(t, 200, k.do("PUT", fileQuery("a.json"), `{"a":{"b":1}}`).status)
	asked := map[string]bool{}
	type ask struct{ id, query, body string }
	asks := []ask{
		{"config.files", "", ""},
		{"config.get", "name=a.json", ""},
		{"config.put", "name=b.json", "[]"},
		{"config.delete", "name=b.json", ""},
		{"config.resolved", "name=a.json", ""},
		{"config.search", "q=b", ""},
		{"store.namespaces", "", ""},
		{"store.keys", "ns=n", ""},
		{"store.get", "ns=n&key=k", ""},
		{"store.put", "ns=n&key=k2", `{"value":{"a":1},"type":"json","ttl_ms":100000}`},
		{"store.cas", "ns=n&key=k3", `{"expect":null,"value":"x"}`},
		{"store.delete", "ns=n&key=k3", ""},
		{"store.history", "ns=n&key=k3", ""},
		{"store.restore", "ns=n&key=k", `{"revision":1}`},
		{"store.batch", "ns=n", `{"items":[{"key":"a","value":1},{"key":"b","delete":true}]}`},
		{"store.txn", "", `{"ns":"n","if":[{"key":"k","target":"mod","op":">","number":0}],"then":[{"op":"get","key":"k"},{"op":"get","key":"none"},{"op":"put","key":"k","value":1,"prev":true},
			{"op":"delete","key":"none"},{"op":"delete_prefix","prefix":"k2"},{"op":"grant","ttl":5000}]}`},
		{"store.drop", "ns=n&confirm=n", ""},
		{"storage.regions", "", ""},
		{"storage.update", "", `{"fields":{"a":"1"},"bytes":{"b":"/w=="},"expect":{"a":0},"prev":true,"token":"t"}`},
		{"storage.get", "versions&dirty&limit=1", ""},
		{"storage.incr", "", `{"deltas":{"a":1}}`},
		{"storage.remove", "", `{"names":["b"]}`},
		{"storage.restore", "", `{"names":["b"],"prev":false}`},
		{"storage.owners", "limit=1", ""},
		{"landing.status", "", ""},
		{"landing.errors", "", ""},
		{"landing.retry", "", `{"rows":[{"logicType":"x","ownerId":"x","name":"a"}]}`},
		{"landing.drop", "confirm=1", ""},
		{"status", "", ""},
		{"status.samples", "", ""},
		{"clients", "", ""},
	}
	for _, kind := range kv.OpKinds() {
		if kind.Follows() {
			body := map[bool]string{true: `{"value":"x"}`, false: `{}`}[kind.Has(kv.MemberValue)]
			asks = append(asks, ask{"store." + kind.String(), "ns=n&key=" + kind.String(), body})
		}
	}
	for _, c := range asks {
		d := all[c.id]
		asked[c.id] = true
		if c.body != "" && c.id != "config.put" {
			schema := resolve(t, doc, d.operation["requestBody"].(dict)["content"].(dict)["application/json"].(dict)["schema"])
			require.Empty(t, faults(t, doc, schema, parse(t, c.body), c.id))
		}
		a := k.do(d.method, d.somewhere()+"?"+c.query, c.body)
		require.Equal(t, 200, a.status, "%s: %s", c.id, a.body)
		response := resolve(t, doc, d.operation["responses"].(dict)["200"])
		schema := response["content"].(dict)["application/json"].(dict)["schema"]
		require.Empty(t, faults(t, doc, schema, parse(t, a.body), c.id), a.body)
		require.Equal(t, a.header.Get("ETag") != "", response["headers"] != nil, "%s: ETag", c.id)
	}
	for id, d := range all {
		if family, _, _ := strings.Cut(id, "."); !slices.Contains([]string{"config", "store", "storage", "landing"}, family) {
			continue
		}
		require.True(t, asked[id] || d.stream(), "%s is not tried", id)
		k.checkKnown(doc, id, d)
	}
}

// What the document says of the models is made from their tables; this is how the routes read it.
func TestOpenAPIKnowsWhatModelsAreAsked(t *testing.T) {
	k := startStore(t, memory.Config{}, nil)
	doc := openapiDocument(t)
	for id, d := range operations(t, doc) {
		if family, _, _ := strings.Cut(id, "."); family == "flow" || family == "bench" {
			k.checkKnown(doc, id, d)
		}
	}
}

// checkKnown sends each parameter and member of the document alone, and one that is
// not in it.
func (k *storeKit) checkKnown(doc dict, id string, d description) {
	k.t.Helper()
	unknown := func(query url.Values, body string) bool {
		a := k.do(d.method, d.somewhere()+"?"+query.Encode(), body)
		return strings.Contains(a.body, "has no query parameter") || strings.Contains(a.body, "not known here")
	}
	base := url.Values{}
	for _, p := range list(d.operation["parameters"]) {
		if p := resolve(k.t, doc, p); p["in"] == "query" && p["required"] == true {
			require.NotNil(k.t, p["example"], "%s: %v", id, p["name"])
			base.Set(p["name"].(string), fmt.Sprint(p["example"]))
		}
	}
	with := func(name, value string) url.Values {
		query := url.Values{}
		for n, v := range base {
			query[n] = v
		}
		query.Set(name, value)
		return query
	}
	require.True(k.t, unknown(with("nonsense", "1"), ""), "%s: parameters that are not listed are refused", id)
	for _, p := range list(d.operation["parameters"]) {
		p := resolve(k.t, doc, p)
		if p["in"] != "query" || d.stream() {
			continue
		}
		require.NotNil(k.t, p["example"], "%s: %v", id, p["name"])
		require.False(k.t, unknown(with(p["name"].(string), fmt.Sprint(p["example"])), ""), "%s: %v is not known", id, p["name"])
	}
	if d.operation["requestBody"] == nil || id == "config.put" {
		return
	}
	schema := resolve(k.t, doc, d.operation["requestBody"].(dict)["content"].(dict)["application/json"].(dict)["schema"])
	var members []string
	for name := range schema["properties"].(dict) {
		members = append(members, fmt.Sprintf(`%q:null`, name))
	}
	require.False(k.t, unknown(base, "{"+strings.Join(members, ",")+"}"), "%s: members are not known", id)
	a := k.do(d.method, d.somewhere()+"?"+base.Encode(), `{"value":1,"expect":null,"items":[{"key":"k","value":1}],"revision":1,"nonsense":1}`)
	require.Equal(k.t, 400, a.status, id)
}

func parse(t testing.TB, text string) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// faults says how v differs from a schema; it knows the words that the document
// uses.
func faults(t testing.TB, doc dict, s, v any, at string) (out []string) {
	t.Helper()
	schema := resolve(t, doc, s)
	for word := range schema {
		require.Contains(t, []string{"type", "format", "description", "properties", "required", "additionalProperties", "items", "enum", "anyOf"}, word, at)
	}
	if choices := list(schema["anyOf"]); choices != nil {
		var all []string
		for _, choice := range choices {
			f := faults(t, doc, choice, v, at)
			if len(f) == 0 {
				return nil
			}
			all = append(all, f...)
		}
		return all
	}
	if !typeFits(schema["type"], v) {
		return []string{fmt.Sprintf("%s: %v is no %v", at, v, schema["type"])}
	}
	if enum := list(schema["enum"]); enum != nil && !slices.Contains(enum, v) {
		out = append(out, fmt.Sprintf("%s: %v is none of %v", at, v, enum))
	}
	for i, item := range list(v) {
		out = append(out, faults(t, doc, schema["items"], item, fmt.Sprintf("%s[%d]", at, i))...)
	}
	members, _ := v.(dict)
	properties, _ := schema["properties"].(dict)
	for name, member := range members {
		if property, known := properties[name]; known {
			out = append(out, faults(t, doc, property, member, at+"."+name)...)
		} else if schema["additionalProperties"] == false {
			out = append(out, at+": "+name+" is not described")
		}
	}
	if members != nil {
		for _, name := range list(schema["required"]) {
			if _, there := members[name.(string)]; !there {
				out = append(out, fmt.Sprintf("%s: %v is missing", at, name))
			}
		}
	}
	return out
}

func typeFits(want, v any) bool {
	if several := list(want); several != nil {
		return slices.ContainsFunc(several, func(one any) bool { return typeFits(one, v) })
	}
	is := "null"
	switch v := v.(type) {
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case []any:
		is = "array"
	case dict:
		is = "object"
	case float64:
		if is = "number"; v == math.Trunc(v) && want == "integer" {
			is = "integer"
		}
	}
	return want == nil || want == is
}
