package secret_test

import (
	"bytes"
	"encoding/json" // to compare texts by what they mean
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/internal/jsontext"
)

func ring(ids ...string) *secret.Ring {
	var keys []secret.Key
	for i, id := range ids {
		k := secret.Key{ID: id, Made: int64(i)}
		copy(k.Key[:], id+strings.Repeat("k", secret.KeyBytes))
		keys = append(keys, k)
	}
	return secret.NewRing(keys)
}

func everything(string) bool { return true }

// values draws JSON values, with what looks like marks, requests and escapes among them.
func values() *rapid.Generator[string] {
	texts := rapid.SampledFrom([]string{`""`, `"geheim"`, `"\"$secret:v1:a:b:c"`, `"\\"`, `"$seal"`, `"$secret:v1:"`, `"$secret:v1:k:AAAA:config:a"`, `"\u0024"`, `"é\n"`})
	leaf := rapid.OneOf(texts, rapid.SampledFrom([]string{"1", "-0.50e7", "true", "null", "{}", "[]", " [ ] "}))
	return rapid.Custom(func(t *rapid.T) string { return drawValue(t, leaf, 3) })
}

func drawValue(t *rapid.T, leaf *rapid.Generator[string], depth int) string {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return leaf.Draw(t, "leaf")
	}
	blank := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "blank")
	var parts []string
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		one := drawValue(t, leaf, depth-1)
		if kind == 3 {
			one = rapid.SampledFrom([]string{`"a"`, `"$secret:v1:k:AAAA:config:a"`, `"seal"`, `"\"$seal"`}).Draw(t, "key") + blank + ":" + blank + one
		}
		parts = append(parts, one)
	}
	inside := strings.Join(parts, blank+","+blank)
	if kind == 2 {
		return "[" + blank + inside + blank + "]"
	}
	return "{" + blank + inside + blank + "}"
}

func TestWhatWasSealedComesOutAgainWithTheRestUntouched(t *testing.T) {
	r := ring("a", "b")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{`"hunter2"`, `{ "user" : "x", "n": [1.50, null] }`, "12", "true", `""`, `"\u0041"`, `"` + strings.Repeat("long ", 100) + `"`}).Draw(t, "secret")
		before, after := values().Draw(t, "before"), values().Draw(t, "after")
		key := rapid.SampledFrom([]string{`"$seal"`, `"\u0024seal"`, `"\u0024\u0073eal"`}).Draw(t, "spelling")
		doc := fmt.Sprintf(`[%s, { %s : %s }, {"k":{"$seal":%s}},%s ]`, before, key, text, text, after)
		_, err := jsontext.Check([]byte(doc))
		require.NoError(t, err)

		sealed, err := r.Seal("config:a/b.json", []byte(doc))
		require.NoError(t, err)
		_, err = jsontext.Check(sealed)
		require.NoError(t, err)
		require.False(t, secret.Asks(sealed))
		require.True(t, secret.Has(sealed))
		require.NotContains(t, string(sealed), "hunter2")
		again, err := r.Seal("config:other.json", sealed)
		require.NoError(t, err)
		require.Equal(t, sealed, again, "what is sealed stays as it is")

		compact := string(jsontext.AppendCompact(nil, []byte(text)))
		want := fmt.Sprintf(`[%s, %s, {"k":%s},%s ]`, before, compact, compact, after)
		require.Equal(t, want, string(r.AppendRevealed(nil, sealed, everything)))
		require.Equal(t, string(sealed), string(r.AppendRevealed(nil, sealed, func(string) bool { return false })))
		concealed, err := secret.Conceal([]byte(doc))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`[%s, %q, {"k":%q},%s ]`, before, secret.Unsealed, secret.Unsealed, after), string(concealed))
		require.Equal(t, string(sealed), string(ring("c").AppendRevealed(nil, sealed, everything)), "without the data key it stays a mark")
		require.Equal(t, string(sealed), string((*secret.Ring)(nil).AppendRevealed(nil, sealed, everything)))

		newer := ring("a", "b", "c")
		require.Equal(t, want, string(newer.AppendRevealed(nil, sealed, everything)), "older data keys go on opening")
	})
}

// mark seals one value.
func mark(t testing.TB, r *secret.Ring, origin, value string) string {
	sealed, err := r.Seal(origin, []byte(`{"$seal":`+value+`}`))
	require.NoError(t, err)
	var text string
	require.NoError(t, json.Unmarshal(sealed, &text))
	return text
}

func TestAMarkThatWasTamperedWithDoesNotOpen(t *testing.T) {
	r := ring("a", "b")
	m := mark(t, r, "config:prod/db.json", `"hunter2"`)
	opened, err := r.Open(m)
	require.NoError(t, err)
	require.Equal(t, secret.Opened{Value: []byte(`"hunter2"`), Origin: "config:prod/db.json"}, opened)

	for name, other := range map[string]string{
		"another origin":  strings.Replace(m, "prod/", "test/", 1),
		"a longer origin": m + "x",
		"another key":     strings.Replace(m, ":b:", ":a:", 1),
		"an unknown key":  strings.Replace(m, ":b:", ":z:", 1),
		"no origin":       strings.TrimSuffix(m, "config:prod/db.json"),
		"another version": strings.Replace(m, "v1", "v2", 1), "an unknown version": strings.Replace(m, "v1", "v3", 1),
		"nothing": "",
		"no key":  strings.Replace(m, ":b:", "::", 1),
	} {
		_, err := r.Open(other)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
	begin := len("$secret:v1:b:")
	end := begin + strings.IndexByte(m[begin:], ':')
	for cut := begin; cut < end; cut++ {
		_, err := r.Open(m[:cut] + m[end:])
		require.Error(t, err, cut)
		flipped := []byte(m)
		flipped[cut] = map[bool]byte{true: 'B', false: 'A'}[flipped[cut] == 'A']
		_, err = r.Open(string(flipped))
		require.Error(t, err, cut)
	}
}

func TestAMarkTellsLittleOfTheLength(t *testing.T) {
	r := ring("a")
	require.Len(t, mark(t, r, "config:a", `"x"`), len(mark(t, r, "config:a", `"`+strings.Repeat("x", 30)+`"`)))
	require.NotEqual(t, mark(t, r, "config:a", `"x"`), mark(t, r, "config:a", `"x"`), "nor whether two values are the same")
}

func TestWhatCannotBeSealedIsRefusedWithoutTellingIt(t *testing.T) {
	r := ring("a")
	sealed, err := json.Marshal(mark(t, r, "config:a", `1`))
	require.NoError(t, err)
	for _, doc := range []string{
		`{"$seal":"geheim","more":1}`, `{"more":1,"$seal":"geheim"}`, `{"$seal":"geheim","$seal":2}`,
		`{"$seal":{"geheim":{"$seal":1}}}`, `{"$seal":{"geheim":` + string(sealed) + `}}`,
	} {
		_, err := r.Seal("config:a", []byte(doc))
		require.Equal(t, codes.BadRequest, codes.Of(err), doc)
		require.NotContains(t, err.Error(), "geheim")
	}
	_, err = (*secret.Ring)(nil).Seal("config:a", []byte(`{"a":{"$seal":"geheim"}}`))
	require.ErrorIs(t, err, secret.Unable)
	same, err := (*secret.Ring)(nil).Seal("config:a", []byte(`{"a":["$seal"]}`))
	require.NoError(t, err)
	require.Equal(t, `{"a":["$seal"]}`, string(same), "as a value it is a text like others")
}

func TestTextThatIsNoJSONIsSuspectedRatherThanShown(t *testing.T) {
	for text, want := range map[string]bool{
		`{"$seal": "geheim`: true, `{"\u0024seal" "geheim"`: true, `"\u0024\u0073\u0065\u0061\u006c"`: true, `\u"`: false, `{"a":1`: false, "": false,
	} {
		require.Equal(t, want, secret.Mentions([]byte(text)), text)
	}
}

func FuzzMarks(f *testing.F) {
	r := ring("a")
	m := mark(f, r, "config:a", `"hunter2"`)
	typed, err := r.SealTyped("config:a", "string", []byte(`"hunter2"`))
	require.NoError(f, err)
	for _, text := range []string{m, string(jsontext.Unquote(typed)), m[:20], "$secret:v2:a:AAAA:x", "$secret:v", "$secret:v1", "$secret:v1:a:", "$secret:v1:a::config:a", "$secret:v1:a:AAAA:x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opened, err := r.Open(text)
		if err == nil {
			require.Contains(t, []string{"", "string"}, opened.Type)
			require.Equal(t, `"hunter2"`, string(opened.Value))
			require.Equal(t, "config:a", opened.Origin)
		}
		doc := jsontext.AppendQuote(nil, []byte(strings.ToValidUTF8(text, "?")))
		if _, err := jsontext.Check(doc); err == nil {
			_, err := jsontext.Check(r.AppendRevealed(nil, doc, everything))
			require.NoError(t, err)
		}
	})
}

func FuzzSeal(f *testing.F) {
	r := ring("a")
	for _, doc := range []string{`{"$seal":1}`, `[{"\u0024seal":{"a":"b"}},2]`, `{"a":{"$seal":1,"b":2}}`, `{ "$seal" : [ ] } `, `"$seal"`, `{"a":"$seal"}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if _, err := jsontext.CheckUTF8(doc); err != nil {
			return
		}
		require.True(t, !secret.Asks(doc) || secret.Mentions(doc))
		concealed, concealErr := secret.Conceal(doc)
		sealed, err := r.Seal("config:a", doc)
		if err != nil {
			require.Equal(t, codes.BadRequest, codes.Of(err))
			require.Equal(t, err, concealErr)
			return
		}
		require.NoError(t, concealErr)
		require.False(t, secret.Asks(concealed))
		_, err = jsontext.CheckUTF8(concealed)
		require.NoError(t, err)
		_, err = jsontext.CheckUTF8(sealed)
		require.NoError(t, err)
		require.False(t, secret.Asks(sealed))
		if !secret.Asks(doc) {
			require.True(t, bytes.Equal(doc, sealed))
		}
		_, err = jsontext.CheckUTF8(r.AppendRevealed(nil, sealed, everything))
		require.NoError(t, err)
	})
}

func TestTheDigestNeedsAKey(t *testing.T) {
	a := ring("a").Digest([]byte("x"))
	require.Equal(t, a, ring("a", "b").Digest([]byte("x")), "a new data key changes nothing")
	require.NotEqual(t, a, ring("b").Digest([]byte("x")))
	require.NotEqual(t, a, ring("a").Digest([]byte("y")))
}

func BenchmarkReveal(b *testing.B) {
	r := ring("a")
	sealed, err := r.Seal("config:a", []byte(`{"host":"db","password":{"$seal":"hunter2"},"pool":{"min":1,"max":10}}`))
	require.NoError(b, err)
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		out = r.AppendRevealed(out[:0], sealed, everything)
	}
}

// A value of another type keeps it, and where JSON is wanted it stands as JSON.
func TestATypeIsSealedWithItsValue(t *testing.T) {
	r := ring("a", "b")
	for typ, value := range map[string]string{"string": `"hunter2  "`, "int": `"12"`, "bytes": `"AAE="`} {
		sealed, err := r.SealTyped("kv:a/k", typ, []byte(value))
		require.NoError(t, err)
		require.True(t, secret.Has(sealed))
		opened, ok := ring("a", "b", "c").OpenWhole(sealed, func(origin string) bool { return origin == "kv:a/k" })
		require.True(t, ok)
		require.Equal(t, secret.Opened{Type: typ, Value: []byte(value), Origin: "kv:a/k"}, opened)
		require.Equal(t, `[`+value+`]`, string(r.AppendRevealed(nil, []byte(`[`+string(sealed)+`]`), everything)))

		for name, other := range map[string]string{"no JSON string": string(sealed[1:]), "a part of it": `[` + string(sealed) + `]`, "what follows": string(sealed) + " ", "the other form": strings.Replace(string(sealed), ":v2:", ":v1:", 1)} {
			_, ok := r.OpenWhole([]byte(other), everything)
			require.False(t, ok, name)
		}
		_, ok = r.OpenWhole(sealed, func(string) bool { return false })
		require.False(t, ok)
	}
	_, err := (*secret.Ring)(nil).SealTyped("kv:a/k", "string", []byte(`"x"`))
	require.ErrorIs(t, err, secret.Unable)
	_, err = r.Opening().SealTyped("kv:a/k", "string", []byte(`"x"`))
	require.ErrorIs(t, err, secret.Unable)
}

// What is sealed anew means to everyone what it meant, and the older key is of no use for it.
func TestResealingChangesNothingButTheKey(t *testing.T) {
	old, both := ring("a"), ring("a", "b")
	rapid.Check(t, func(t *rapid.T) {
		before, after := values().Draw(t, "before"), values().Draw(t, "after")
		text := rapid.SampledFrom([]string{`"hunter2"`, `{"a":[1.50,null]}`, `""`}).Draw(t, "secret")
		sealed, err := old.Seal("config:a/b.json", []byte(`[`+before+`, {"$seal":`+text+`},`+after+` ]`))
		require.NoError(t, err)
		typed, err := old.SealTyped("kv:a/k", "string", []byte(`"typed  "`))
		require.NoError(t, err)
		doc := []byte(`{"x": ` + string(sealed) + `, "y":` + string(typed) + `}`)
		uses := secret.Uses{}
		uses.Count(doc)
		require.GreaterOrEqual(t, uses["a"], int64(2))
		require.Zero(t, uses["b"])

		anew, n := both.Reseal(doc)
		require.Equal(t, int64(2), n)
		for _, may := range []func(string) bool{everything, func(origin string) bool { return origin == "kv:a/k" }} {
			count := func(text []byte) int { return strings.Count(string(text), "$secret:v") }
			require.Equal(t, count(both.AppendRevealed(nil, doc, may)), count(both.AppendRevealed(nil, anew, may)))
		}
		require.Equal(t, string(both.AppendRevealed(nil, doc, everything)), string(both.AppendRevealed(nil, anew, everything)))
		require.Equal(t, string(anew), string(old.AppendRevealed(nil, anew, everything)))
		again, n := both.Reseal(anew)
		require.Zero(t, n)
		require.Equal(t, anew, again)
		after2 := secret.Uses{}
		after2.Count(anew)
		require.Equal(t, uses["a"]-2, after2["a"])
		require.Equal(t, int64(2), after2["b"])
		require.Equal(t, uses.Others("b")-2, after2.Others("b"))
	})
	sealed, err := old.Seal("config:a", []byte(`{"$seal":1}`))
	require.NoError(t, err)
	for name, r := range map[string]*secret.Ring{"without the old key": ring("c"), "that seals nothing": both.Opening(), "none": nil} {
		same, n := r.Reseal(sealed)
		require.Zero(t, n, name)
		require.Equal(t, sealed, same, name)
	}
}
