package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// parse is Request.Parse of a body that must be JSON.
func parse(t require.TestingT, body string) *protocol.Request {
	var r protocol.Request
	require.NoError(t, r.Parse([]byte(body)), body)
	return &r
}

// Field typing: what CppCloud takes for an integer.
func TestIntegersAreInt32Literals(t *testing.T) {
	for _, c := range []struct {
		value string
		want  int32
		ok    bool
	}{
		{"0", 0, true}, {"1", 1, true}, {"-1", -1, true}, {"-0", 0, true},
		{"2147483647", 2147483647, true}, {"-2147483648", -2147483648, true},
		{"2147483648", 0, false}, {"-2147483649", 0, false}, {"15012341234", 0, false}, {"3e9", 0, false},
		{"1.0", 0, false}, {"1e3", 0, false}, {`"1"`, 0, false}, {"true", 0, false}, {"null", 0, false}, {"[1]", 0, false}, {"{}", 0, false},
	} {
		got, ok := parse(t, `{"n":`+c.value+`}`).Int("n")
		require.Equal(t, c.ok, ok, c.value)
		require.Equal(t, c.want, got, c.value)
	}
	_, ok := parse(t, `{}`).Int("n")
	require.False(t, ok)
}

func TestStringsAreStringsOnly(t *testing.T) {
	for value, want := range map[string]string{
		`"x"`: "x", `""`: "", `"a\"b\\c\/\u00e9\n"`: "a\"b\\c/é\n", `"ä"`: "ä", "\"\xff\"": "\xff",
		"1": "", "true": "", "null": "", `["x"]`: "", `{"x":1}`: "",
	} {
		require.Equal(t, want, string(parse(t, `{"s":`+value+`}`).Text("s")), value)
	}
	require.Empty(t, parse(t, `{}`).Text("s"))
}

// svrid of GETCLI and HUNGUP, to of routed messages, size of GETLOGR.
func TestIntegersThatMayBeStrings(t *testing.T) {
	for _, c := range []struct {
		value string
		want  int32
		ok    bool
	}{
		{"7", 7, true}, {`"7"`, 7, true}, {`"-7"`, -7, true}, {`"007"`, 7, true}, {`"\u0037"`, 7, true}, {`"2147483647"`, 2147483647, true},
		{`"2147483648"`, 0, false}, {`"99999999999999999999"`, 0, false}, {`""`, 0, false}, {`" 7"`, 0, false}, {`"7x"`, 0, false},
		{`"1_0"`, 0, false}, {`"0x7"`, 0, false}, {`"1.0"`, 0, false}, {"1.0", 0, false}, {"true", 0, false}, {"null", 0, false},
	} {
		got, ok := parse(t, `{"n":`+c.value+`}`).IntOrText("n")
		require.Equal(t, c.ok, ok, c.value)
		require.Equal(t, c.want, got, c.value)
	}
	_, ok := parse(t, `{}`).IntOrText("n")
	require.False(t, ok)
}

// incbase: the C++ SDK sends "1", the Python SDK 1.
func TestFlags(t *testing.T) {
	for value, want := range map[string]bool{
		"1": true, "2": true, "-1": true, `"1"`: true, `"2"`: true, "true": true,
		"0": false, "-0": false, `"0"`: false, `""`: false, `"yes"`: false, `"true"`: false, "false": false, "null": false,
		"1.0": false, "1e0": false, "3000000000": false, "[1]": false, `{"a":1}`: false,
	} {
		require.Equal(t, want, parse(t, `{"f":`+value+`}`).Flag("f"), value)
	}
	require.False(t, parse(t, `{}`).Flag("f"))
}

func TestFirstDuplicateWins(t *testing.T) {
	r := parse(t, `{"a":"first","n":1,"a":"second","n":2,"\u0061":"third"}`)
	require.Equal(t, "first", string(r.Text("a")))
	n, _ := r.Int("n")
	require.EqualValues(t, 1, n)
	require.Len(t, r.Members(), 5, "all are kept")

	// Also when the first is of a type that counts as absent.
	r = parse(t, `{"a":1,"a":"x","n":"x","n":2,"f":null,"f":1}`)
	require.Empty(t, r.Text("a"))
	_, ok := r.Int("n")
	require.False(t, ok)
	require.False(t, r.Flag("f"))
}

func TestNamesAreCaseSensitive(t *testing.T) {
	r := parse(t, `{"File_Pattern":"A","FILE_PATTERN":"B","file_pattern":"c"}`)
	require.Equal(t, "c", string(r.Text("file_pattern")))
	require.Empty(t, r.Text("File_pattern"))
}

func TestEscapedNamesMatchDecoded(t *testing.T) {
	require.Equal(t, "x", string(parse(t, `{"file\u005fpattern":"x"}`).Text("file_pattern")))
}

func TestJSONThatIsNoObjectHasNoMembers(t *testing.T) {
	for body, kind := range map[string]jsontext.Kind{
		`[]`: jsontext.Array, `[{"svrid":1}]`: jsontext.Array, `1`: jsontext.Number, `"svrid"`: jsontext.String,
		`null`: jsontext.Null, `true`: jsontext.Bool, ` {} `: jsontext.Object,
	} {
		r := parse(t, body)
		require.Equal(t, kind, r.Kind(), body)
		require.Equal(t, kind == jsontext.Object, r.IsObject(), body)
		require.Empty(t, r.Members(), body)
		_, ok := r.Int("svrid")
		require.False(t, ok, body)
	}
}

func TestNULEndsTheBody(t *testing.T) {
	r := parse(t, "{\"svrid\":1}\x00 and whatever follows")
	require.Equal(t, `{"svrid":1}`, string(r.Body()))
	n, _ := r.Int("svrid")
	require.EqualValues(t, 1, n)

	var bad protocol.Request
	require.Error(t, bad.Parse([]byte("\x00{}")), "empty before the NUL")
	require.Error(t, bad.Parse([]byte("{\"a\":\"x\x00y\"}")), "cut in the middle")
	require.Equal(t, `{"a":"x`, string(bad.Body()))
}

// Every one of these is "invalid JSON" to CppCloud as well.
func TestWhatIsNotJSON(t *testing.T) {
	for name, body := range map[string]string{
		"empty":                   "",
		"blanks only":             " \n",
		"byte order mark":         "\xef\xbb\xbf{}",
		"trailing text":           "{} x",
		"second value":            "{}{}",
		"comment":                 "{} # why",
		"trailing comma":          `{"a":1,}`,
		"NaN":                     `{"a":NaN}`,
		"Infinity":                `{"a":Infinity}`,
		"beyond a double":         `{"a":1e400}`,
		"raw control character":   "{\"a\":\"x\ty\"}",
		"raw line feed":           "{\"a\":\"x\ny\"}",
		"half a surrogate pair":   `{"a":"\ud800"}`,
		"wrong case literal":      `{"a":True}`,
		"leading zero":            `{"a":01}`,
		"single quotes":           `{'a':1}`,
		"name without quotes":     `{a:1}`,
		"ends too early":          `{"a":`,
		"513 levels":              strings.Repeat("[", 513) + strings.Repeat("]", 513),
		"513 levels in a member":  `{"a":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`,
		"a hundred thousand deep": strings.Repeat(`{"a":[`, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			var r protocol.Request
			require.NoError(t, r.Parse([]byte(`{"left":"over"}`)))
			require.Error(t, r.Parse([]byte(body)))
			require.Equal(t, jsontext.Invalid, r.Kind())
			require.Empty(t, r.Members(), "nothing of the body before may be seen")
			require.Empty(t, r.Text("left"))
		})
	}
	require.NoError(t, new(protocol.Request).Parse([]byte(strings.Repeat("[", 512)+strings.Repeat("]", 512))))
	require.NoError(t, new(protocol.Request).Parse([]byte("{\"a\":\"\xff\xc0\"}")), "bytes that are not UTF-8 are accepted")
}

func TestRequestIsReused(t *testing.T) {
	var r protocol.Request
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, `,"m%d":%d`, i, i)
	}
	require.NoError(t, r.Parse([]byte("{"+many.String()[1:]+"}")))
	require.Len(t, r.Members(), 5000)
	require.NoError(t, r.Parse([]byte(`{"a":1}`)))
	require.Len(t, r.Members(), 1)
	require.Less(t, cap(r.Members()), 5000, "one peer's large body is not kept for all others")
}

func TestResultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := protocol.Result{Code: rapid.Int32().Draw(t, "code"), Desc: text(t, "desc")}
		got, err := protocol.ParseResult(protocol.AppendResult(nil, int(want.Code), want.Desc))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestResultNeedsACode(t *testing.T) {
	for _, body := range []string{`{}`, `[]`, `{"code":"0"}`, `{"code":0.0}`, `{"Code":0}`, `{"code":null}`} {
		_, err := protocol.ParseResult([]byte(body))
		require.EqualError(t, err, `reply has no valid member "code"`, body)
	}
	_, err := protocol.ParseResult(nil)
	require.Error(t, err)
}

// text draws a string as peers might send it: quotes, control characters, NUL and
// bytes that are no UTF-8 included.
func text(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z0-9._/-]{0,20}`),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
	).Draw(t, label)
}

// document draws compact JSON that is not null.
func document(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.Just(`{}`), rapid.Just(`[1,2.50,{"a":null}]`), rapid.Just(`1e3`), rapid.Just(`"text"`), rapid.Just(`false`),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.Int64()), func(m map[string]int64) string {
			b, _ := json.Marshal(m)
			return string(b)
		}),
	).Draw(t, label)
}

// The hot path of a server: take a request apart and read it, without garbage.
func TestReadingARequestAllocatesNothing(t *testing.T) {
	bodies := map[string]string{
		"as the Python SDK asks":  `{"file_pattern": "app1-dev.json", "incbase": 1}`,
		"as the C++ SDK asks":     `{"file_pattern":"app1-dev.json","incbase":"1","gt_mtime":1539596952}`,
		"a key path":              `{"key_pattern":"/key3/subkey3","file_pattern":"app1-dev","incbase":0}`,
		"members of another type": `{"file_pattern":1,"key_pattern":null,"gt_mtime":"1","incbase":[1]}`,
		"nothing":                 `{}`,
		"not an object":           `[]`,
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			var r protocol.Request
			raw := []byte(body)
			require.NoError(t, r.Parse(raw)) // warm up
			var q protocol.ConfigQuery
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if r.Parse(raw) == nil {
					q = r.ConfigQuery()
				}
			}))
			require.NotEmpty(t, q.FileRaw)
		})
	}
}

func TestWritingAReplyAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	name, contents := []byte(`"app1-dev.json"`), []byte(`{"key1":1}`)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		out := protocol.BeginFrame(buf, protocol.GetConfig.Reply(), 7)
		out = protocol.AppendConfigStart(out, 1539596952, name)
		out = append(append(out, contents...), protocol.ConfigEnd...)
		out = protocol.FinishFrame(out, 0)
		out = protocol.BeginFrame(out[:0], protocol.EvNotify, 1)
		out = protocol.AppendChange(out, protocol.Change{File: "app1-dev.json", Mtime: 1539596953})
		protocol.FinishFrame(out, 0)
	}))
}

// Whatever Request accepts is JSON to the standard library too, and both see the
// same members.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{}`, `1`, `null`, `{"svrid":0,"svrname":"app1"}`, `{"a":1,"a":2}`, "{}\x00x", `{"a":"\u00e9"}`, `{"a":[{}]}`, ` { "a" : true } `, "",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r protocol.Request
		if r.Parse(body) != nil {
			require.Empty(t, r.Members())
			return
		}
		require.True(t, json.Valid(r.Body()), "%q", r.Body())
		require.NotContains(t, string(r.Body()), "\x00")
		for _, m := range r.Members() {
			require.True(t, json.Valid(m.Raw), "%q", m.Raw)
			require.Equal(t, jsontext.KindOf(m.Raw), m.Kind)
			first, ok := r.Member(string(m.Key))
			require.True(t, ok)
			n, isInt := r.Int(string(m.Key))
			if isInt {
				require.Equal(t, jsontext.Number, first.Kind)
				either, ok := r.IntOrText(string(m.Key))
				require.True(t, ok)
				require.Equal(t, n, either)
				require.Equal(t, n != 0, r.Flag(string(m.Key)))
			}
			if s := r.Text(string(m.Key)); s != nil {
				require.Equal(t, jsontext.String, first.Kind)
			}
		}
	})
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{ "code": 400, "desc": "svrid=1 existed" }`))
	f.Add([]byte(`{"code":0}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		res, err := protocol.ParseResult(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		again, err := protocol.ParseResult(protocol.AppendResult(nil, int(res.Code), res.Desc))
		require.NoError(t, err)
		require.Equal(t, res, again)
	})
}
