package protocol_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

func TestConfigQuery(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       protocol.ConfigQuery
	}{
		{"nothing is mandatory", `{}`, query("", `""`, "", 0, false)},
		{"not an object", `[1]`, query("", `""`, "", 0, false)},
		{"design document, example A", `{"file_pattern": "app1-dev", "key_pattern": "/", "gt_mtime": 1539596952, "incbase": 0}`,
			query("app1-dev", `"app1-dev"`, "/", 1539596952, false)},
		{"the document's other spelling", `{"file_pattern":"a","inbase":1}`, query("a", `"a"`, "", 0, true)},
		{"C++ SDK's string", `{"file_pattern":"a","incbase":"1"}`, query("a", `"a"`, "", 0, true)},
		{"any number but 0", `{"file_pattern":"a","incbase":-3}`, query("a", `"a"`, "", 0, true)},
		{"a bool", `{"file_pattern":"a","incbase":true}`, query("a", `"a"`, "", 0, true)},
		{"either spelling", `{"file_pattern":"a","incbase":0,"inbase":"1"}`, query("a", `"a"`, "", 0, true)},
		{"the name is kept as it was written", `{"file_pattern":"\u0061\/b"}`, query("a/b", `"\u0061\/b"`, "", 0, false)},
		{"a name that is no string", `{"file_pattern":["a"]}`, query("", `""`, "", 0, false)},
		{"negative gt_mtime", `{"gt_mtime":-1}`, query("", `""`, "", -1, false)},
		{"gt_mtime beyond int32 is absent", `{"gt_mtime":15012341234}`, query("", `""`, "", 0, false)},
		{"null parameters of the console", `{"file_pattern":"a","key_pattern":null,"gt_mtime":null,"incbase":null}`, query("a", `"a"`, "", 0, false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse(t, c.body).ConfigQuery()
			require.Equal(t, string(c.want.FileRaw), string(got.FileRaw))
			require.Equal(t, string(c.want.File), string(got.File))
			require.Equal(t, string(c.want.Path), string(got.Path))
			require.Equal(t, c.want.Newer, got.Newer)
			require.Equal(t, c.want.Inherit, got.Inherit)
		})
	}
}

func query(file, raw, path string, newer int32, inherit bool) protocol.ConfigQuery {
	return protocol.ConfigQuery{File: []byte(file), FileRaw: []byte(raw), Path: []byte(path), Newer: newer, Inherit: inherit}
}

func TestConfigQueryBytes(t *testing.T) {
	require.Equal(t, `{"file_pattern":"a.json"}`, string(protocol.AppendConfigQuery(nil, "a.json", "", 0, false)))
	require.Equal(t, `{"file_pattern":"a\"b","key_pattern":"/k","gt_mtime":7,"incbase":1}`,
		string(protocol.AppendConfigQuery(nil, `a"b`, "/k", 7, true)))
}

func TestConfigQueryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, path := text(t, "name"), text(t, "path")
		newer, inherit := rapid.Int32().Draw(t, "newer"), rapid.Bool().Draw(t, "inherit")
		q := parse(t, string(protocol.AppendConfigQuery(nil, name, path, newer, inherit))).ConfigQuery()
		require.Equal(t, name, string(q.File))
		require.Equal(t, string(jsontext.AppendQuote(nil, name)), string(q.FileRaw))
		require.Equal(t, path, string(q.Path))
		require.Equal(t, newer, q.Newer)
		require.Equal(t, inherit, q.Inherit)
	})
}

func TestConfigReplyBytes(t *testing.T) {
	found := append(protocol.AppendConfigStart(nil, 1539596952, []byte(`"app1-dev"`)), `{"key1":1}`+protocol.ConfigEnd...)
	require.Equal(t, `{"code":0,"mtime":1539596952,"file_pattern":"app1-dev","contents":{"key1":1}}`, string(found))
	require.Equal(t, `{"code":404,"mtime":0,"file_pattern":"no","contents":null,"desc":"no such file"}`,
		string(protocol.AppendNoSuchConfig(nil, 404, []byte(`"no"`), "no such file")))
	require.Equal(t, "1", string(protocol.UpToDate), "the one answer a C++ client takes quietly")
}

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       protocol.Config
	}{
		{"up to date", `1`, protocol.Config{UpToDate: true}},
		{"up to date, the document's way", `ok`, protocol.Config{UpToDate: true}},
		{"unknown, the document's way", `fail`, protocol.Config{Result: protocol.Result{Code: 404, Desc: "no such file"}}},
		{"unknown, CppCloud's way", `null`, protocol.Config{Result: protocol.Result{Code: 404, Desc: "no such file"}}},
		{"unknown, conditional", `{"code":404,"mtime":0,"file_pattern":"no","contents":null,"desc":"no such file"}`,
			protocol.Config{Result: protocol.Result{Code: 404, Desc: "no such file"}, Name: "no"}},
		{"unknown", `{"code":0, "mtime":0, "file_pattern":"no", "contents": null }`, protocol.Config{Name: "no"}},
		{"a document", `{"code":0, "mtime":5, "file_pattern":"a", "contents": [1.50] }`,
			protocol.Config{Mtime: 5, Name: "a", Contents: []byte(`[1.50]`)}},
		{"a deleted file", `{"code":0,"mtime":5,"file_pattern":"a","contents":{},"deleted":1}`,
			protocol.Config{Mtime: 5, Name: "a", Contents: []byte(`{}`), Deleted: true}},
		{"members unknown to us", `{"x":{},"contents":{},"code":0,"mtime":5,"y":[]}`, protocol.Config{Mtime: 5, Contents: []byte(`{}`)}},
		{"a refusal has no mtime", `{"code":401,"desc":"Not Auth(0xE-1)"}`, protocol.Config{Result: protocol.Result{Code: 401, Desc: "Not Auth(0xE-1)"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := protocol.ParseConfig([]byte(c.body))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for _, body := range []string{``, `OK`, `"ok"`, `2`, `1 1`, `true`, `[]`, `{}`, `{"code":0}`, `{"code":0,"mtime":"5"}`, `{"code":0,"mtime":3000000000}`} {
		_, err := protocol.ParseConfig([]byte(body))
		require.Error(t, err, body)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, contents, mtime := text(t, "name"), document(t, "contents"), rapid.Int32().Draw(t, "mtime")
		body := protocol.AppendConfigStart(nil, mtime, jsontext.AppendQuote(nil, name))
		deleted := rapid.Bool().Draw(t, "deleted")
		end := map[bool]string{false: protocol.ConfigEnd, true: protocol.ConfigEndDeleted}[deleted]
		got, err := protocol.ParseConfig(append(append(body, contents...), end...))
		require.NoError(t, err)
		require.Equal(t, protocol.Config{Mtime: mtime, Name: name, Contents: []byte(contents), Deleted: deleted}, got)

		desc := text(t, "desc")
		code := rapid.Int32().Filter(func(n int32) bool { return n != 0 }).Draw(t, "code")
		got, err = protocol.ParseConfig(protocol.AppendNoSuchConfig(nil, int(code), jsontext.AppendQuote(nil, name), desc))
		require.NoError(t, err)
		require.Equal(t, protocol.Config{Result: protocol.Result{Code: code, Desc: desc}, Name: name}, got)
	})
}

func TestConfigUpdate(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       protocol.ConfigUpdate
	}{
		{"design document", `{"filename": "app1-dev.json", "mtime": 1539333414, "contents": {"a": 1.50} }`,
			protocol.ConfigUpdate{Name: "app1-dev.json", Mtime: 1539333414, Contents: []byte(`{"a": 1.50}`)}},
		{"the console's delete", `{"filename":"a.json"}`, protocol.ConfigUpdate{Name: "a.json"}},
		{"null deletes too", `{"filename":"a.json","contents":null}`, protocol.ConfigUpdate{Name: "a.json"}},
		{"scalars are documents", `{"filename":"a.json","contents":false}`, protocol.ConfigUpdate{Name: "a.json", Contents: []byte("false")}},
		{"no name", `{"contents":{}}`, protocol.ConfigUpdate{Contents: []byte("{}")}},
		{"a name that is no string", `{"filename":1,"contents":{}}`, protocol.ConfigUpdate{Contents: []byte("{}")}},
		{"mtime that is no int32", `{"filename":"a","mtime":"7","if_mtime":7.0}`, protocol.ConfigUpdate{Name: "a"}},
		{"only if it is not there", `{"filename":"a","if_mtime":0}`, protocol.ConfigUpdate{Name: "a", HasIfMtime: true}},
		{"first null wins over later contents", `{"filename":"a","contents":null,"contents":{}}`, protocol.ConfigUpdate{Name: "a"}},
		{"not an object", `"a"`, protocol.ConfigUpdate{}},
		{"who and why", `{"filename":"a","author":"Zo\u00eb","comment":"a\nb","token":"t"}`,
			protocol.ConfigUpdate{Name: "a", Said: access.Said{Author: "Zoë", Comment: "a\nb", Token: "t"}}},
		{"who and why of another type", `{"filename":"a","author":1,"comment":{},"token":null}`, protocol.ConfigUpdate{Name: "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, parse(t, c.body).ConfigUpdate())
		})
	}
}

func TestConfigUpdateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := protocol.ConfigUpdate{Name: text(t, "name"), Mtime: rapid.Int32().Draw(t, "mtime")}
		if rapid.Bool().Draw(t, "set") {
			want.Contents = []byte(document(t, "contents"))
		}
		if want.HasIfMtime = rapid.Bool().Draw(t, "conditional"); want.HasIfMtime {
			want.IfMtime = rapid.Int32().Draw(t, "if_mtime")
		}
		if rapid.Bool().Draw(t, "said") {
			want.Said = access.Said{Author: text(t, "author"), Comment: text(t, "comment"), Token: text(t, "token")}
		}
		require.Equal(t, want, parse(t, string(protocol.AppendConfigUpdate(nil, want))).ConfigUpdate())

		reply := protocol.ConfigUpdated{
			Result: protocol.Result{Code: rapid.Int32().Draw(t, "code"), Desc: text(t, "desc")},
			Mtime:  rapid.Int32().Draw(t, "served"),
		}
		got, err := protocol.ParseConfigUpdated(protocol.AppendConfigUpdated(nil, int(reply.Code), reply.Mtime, reply.Desc))
		require.NoError(t, err)
		require.Equal(t, reply, got)
	})
}

func TestConfigUpdatedBytes(t *testing.T) {
	require.Equal(t, `{"code":409,"mtime":1539596952,"desc":"older"}`, string(protocol.AppendConfigUpdated(nil, 409, 1539596952, "older")))
	got, err := protocol.ParseConfigUpdated([]byte(`{"code": 0, "desc": "remove a.json success"}`))
	require.NoError(t, err)
	require.Equal(t, protocol.ConfigUpdated{Result: protocol.Result{Desc: "remove a.json success"}}, got)
	_, err = protocol.ParseConfigUpdated([]byte(`{"mtime":1}`))
	require.Error(t, err)
}

func TestConfigFilesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) protocol.ConfigFile {
			return protocol.ConfigFile{
				Name: text(t, "name"), Mtime: rapid.Int32().Draw(t, "mtime"), Size: int(rapid.Int32Min(0).Draw(t, "size")),
				State:  rapid.SampledFrom([]string{protocol.FileGood, protocol.FileBroken, protocol.FileDeleted}).Draw(t, "state"),
				Reason: text(t, "reason"),
			}
		}), 0, 4).Draw(t, "files")
		problems := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) protocol.ConfigProblem {
			return protocol.ConfigProblem{Name: text(t, "name"), Text: text(t, "text")}
		}), 0, 4).Draw(t, "problems")

		gotFiles, gotProblems, err := protocol.ParseConfigFiles(protocol.AppendConfigFiles(nil, files, problems))
		require.NoError(t, err)
		require.ElementsMatch(t, files, gotFiles)
		require.ElementsMatch(t, problems, gotProblems)
		for i := range files {
			require.Equal(t, files[i], gotFiles[i], "in order")
		}
	})
}

func TestConfigFilesBytes(t *testing.T) {
	body := protocol.AppendConfigFiles(nil, []protocol.ConfigFile{
		{Name: "a.json", Mtime: 5, Size: 2, State: protocol.FileGood},
		{Name: "b.json", Mtime: math.MaxInt32, State: protocol.FileBroken, Reason: "offset 3: unexpected '}'"},
	}, []protocol.ConfigProblem{{Name: "b.json", Text: "broken"}})
	require.Equal(t, `{"code":0,"data":[{"name":"a.json","mtime":5,"size":2,"state":"good"},`+
		`{"name":"b.json","mtime":2147483647,"size":0,"state":"broken","reason":"offset 3: unexpected '}'"}],`+
		`"problems":[{"name":"b.json","text":"broken"}]}`, string(body))
	require.Equal(t, `{"code":0,"data":[],"problems":[]}`, string(protocol.AppendConfigFiles(nil, nil, nil)))
}

func TestParseConfigFilesRefuses(t *testing.T) {
	_, _, err := protocol.ParseConfigFiles([]byte(`{"a.json":[1,5]}`)) // a server that knows no detail
	require.EqualError(t, err, `reply has no valid member "code"`)
	_, _, err = protocol.ParseConfigFiles([]byte(`{"code":0,"data":[]}`))
	require.EqualError(t, err, `reply has no valid member "problems"`)
	_, _, err = protocol.ParseConfigFiles([]byte(`{"code":0,"data":{},"problems":[]}`))
	require.EqualError(t, err, `reply has no valid member "data"`)
	_, _, err = protocol.ParseConfigFiles([]byte(`{"code":503,"desc":"busy"}`))
	var refused *protocol.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, protocol.Result{Code: 503, Desc: "busy"}, refused.Result)
	require.EqualError(t, err, `refused with code 503: "busy"`)
	_, _, err = protocol.ParseConfigFiles([]byte(`{"code":0`))
	require.Error(t, err)
}

func FuzzConfigQuery(f *testing.F) {
	f.Add([]byte(`{"file_pattern":"app1-dev","key_pattern":"/key3","gt_mtime":5,"incbase":"1"}`))
	f.Add([]byte(`{"file_pattern":"\ud83d\ude00\u0000","inbase":true}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.Parse(body) != nil {
			return
		}
		q := r.ConfigQuery()
		require.Equal(t, string(q.File), string(jsontext.Unquote(q.FileRaw)))
		again := parse(t, string(protocol.AppendConfigQuery(nil, string(q.File), string(q.Path), q.Newer, q.Inherit))).ConfigQuery()
		require.Equal(t, string(q.File), string(again.File))
		require.Equal(t, string(q.Path), string(again.Path))
		require.Equal(t, q.Newer, again.Newer)
		require.Equal(t, q.Inherit, again.Inherit)
		// What is echoed must make a valid reply.
		_, err := protocol.ParseConfig(append(protocol.AppendConfigStart(nil, 1, q.FileRaw), "{}}"...))
		require.NoError(t, err)
	})
}

func FuzzConfigUpdate(f *testing.F) {
	f.Add([]byte(`{"filename":"a.json","mtime":5,"contents":{"a":[1.50]},"if_mtime":0}`))
	f.Add([]byte(`{"filename":"../x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.Parse(body) != nil {
			return
		}
		u := r.ConfigUpdate()
		if u.Contents != nil {
			kind, err := jsontext.Check(u.Contents)
			require.NoError(t, err)
			require.NotEqual(t, jsontext.Null, kind)
		}
		require.Equal(t, u, parse(t, string(protocol.AppendConfigUpdate(nil, u))).ConfigUpdate())
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`1`))
	f.Add([]byte(`{"code":0,"mtime":5,"file_pattern":"a","contents":{}}`))
	f.Add([]byte(`{"code":404,"mtime":0,"file_pattern":"a","contents":null,"desc":"no such file"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := protocol.ParseConfig(body)
		switch {
		case err != nil:
			require.Zero(t, c)
		case c.UpToDate:
			require.Equal(t, protocol.Config{UpToDate: true}, c)
		case c.Contents != nil:
			kind, err := jsontext.Check(c.Contents)
			require.NoError(t, err)
			require.NotEqual(t, jsontext.Null, kind)
		}
	})
}

func FuzzParseConfigUpdated(f *testing.F) {
	f.Add([]byte(`{"code": 0, "mtime":5, "desc": "success"}`))
	f.Add([]byte(`{"code":412,"mtime":"5"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := protocol.ParseConfigUpdated(body)
		if err != nil {
			return
		}
		again, err := protocol.ParseConfigUpdated(protocol.AppendConfigUpdated(nil, int(u.Code), u.Mtime, u.Desc))
		require.NoError(t, err)
		require.Equal(t, u, again)
	})
}

func FuzzParseConfigFiles(f *testing.F) {
	f.Add([]byte(`{"code":0,"data":[{"name":"a.json","mtime":5,"size":2,"state":"good"}],"problems":[{"name":"a","text":"b"}]}`))
	f.Add([]byte(`{"code":0,"data":[1,{"name":2}],"problems":[[]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		files, problems, err := protocol.ParseConfigFiles(body)
		if err != nil {
			return
		}
		again, problemsAgain, err := protocol.ParseConfigFiles(protocol.AppendConfigFiles(nil, files, problems))
		require.NoError(t, err)
		require.Equal(t, files, again)
		require.Equal(t, problems, problemsAgain)
	})
}
