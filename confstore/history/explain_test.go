package history_test

import (
	"encoding/json" // a decoder that is not the product's
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// roles are what an explanation says of the files, weakest first.
func roles(answer *history.ExplainAnswer) string {
	var list []string
	for _, f := range answer.Files {
		list = append(list, fmt.Sprintf("%s %s", strings.TrimSuffix(f.Name, ".json"), f.Role))
	}
	return strings.Join(list, ", ")
}

func TestEveryFileThatHasASay(t *testing.T) {
	files := map[string]string{
		"base.json": `{"db":{"host":"a","port":1},"n":1,"l":[1,2]}`, "idc.json": `{"db":{"host":"b"},"l":5}`, "list.json": `[1]`, "app.json": `{"db":{"user":"u"},"l":{"x":1}}`,
	}
	each(t, files, func(t *testing.T, k *kit) {
		for _, c := range []struct{ merge, path, roles, winner, value string }{
			{"shallow", "/db/user", "base lacks, none missing, list ignored, idc lacks, app wins", "app.json", `"u"`},
			{"shallow", "db/host", "base overridden, none missing, list ignored, idc overridden, app hides", "", ``},
			{"deep", "/db/host", "base overridden, none missing, list ignored, idc wins, app lacks", "idc.json", `"b"`},
			{"deep", "/db", "base merged, none missing, list ignored, idc merged, app wins", "app.json", `{"host":"b","port":1,"user":"u"}`},
			{"shallow", "/db", "base overridden, none missing, list ignored, idc overridden, app wins", "app.json", `{"user":"u"}`},
			{"shallow", "/n", "base wins, none missing, list ignored, idc lacks, app lacks", "base.json", `1`},
			{"deep", "/l/1", "base overridden, none missing, list ignored, idc lacks, app hides", "", ``},
			{"deep", "/nothing/below", "base lacks, none missing, list ignored, idc lacks, app lacks", "", ``},
			{"deep", "", "base merged, none missing, list ignored, idc merged, app wins", "app.json", `{"db":{"host":"b","port":1,"user":"u"},"n":1,"l":{"x":1}}`},
		} {
			k.write("_meta.json", `{"conf_inherit":{"app.json":"base none list idc"},"inherit_options":{"*":{"merge":"`+c.merge+`"}}}`)
			answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app", Path: c.path})
			require.NoError(t, err)
			require.Equal(t, c.roles, roles(answer), "%s %s", c.merge, c.path)
			require.Equal(t, c.winner, answer.Winner)
			require.Equal(t, c.value, string(answer.Value))
			require.Equal(t, c.merge, answer.Merge)
			require.Positive(t, answer.Rules)
		}
		answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app", Path: "/db/host"})
		require.NoError(t, err)
		require.Equal(t, "idc.json is stronger and has it, too", answer.Files[0].Why)
		k.write("_meta.json", `{"conf_inherit":{"app.json":"base idc"}}`)
		answer, err = k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app", Path: "/db/host"})
		require.NoError(t, err)
		require.Equal(t, "app.json is stronger and replaces /db as a whole", answer.Files[1].Why)
		require.Equal(t, "replaces /db as a whole, and has no /db/host", answer.Files[2].Why)
		alone, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "list", Path: "0"})
		require.NoError(t, err)
		require.Equal(t, "list wins none 1", roles(alone)+" "+alone.Merge+" "+string(alone.Value))
		k.write("idc.json", "-")
		k.write("list.json", "-")
		answer, err = k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app@~0", Path: "/n"})
		require.NoError(t, err)
		require.Equal(t, "base wins, idc deleted, app lacks", roles(answer))
		_, err = k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "list"})
		k.refused(err, codes.NotFound, "list.json was deleted by revision")
		_, err = k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "never", Path: "/a"})
		k.refused(err, codes.NotFound, "never.json")
	})
}

// drawn is a small document with members that collide.
func drawn(r *rapid.T, depth int) string {
	switch n := rapid.IntRange(0, 5).Draw(r, "kind"); {
	case depth == 0 || n == 0:
		return rapid.SampledFrom([]string{"1", "2", `"x"`, "true"}).Draw(r, "value")
	case n == 1:
		return "[" + drawn(r, depth-1) + "," + drawn(r, depth-1) + "]"
	}
	var members []string
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "/~"}), 0, 3, rapid.ID[string]).Draw(r, "keys") { // one that stands twice is refused
		members = append(members, fmt.Sprintf("%q:%s", key, drawn(r, depth-1)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// What explain says wins is what programs get.
func TestExplanationsAreTrue(t *testing.T) {
	k := near(t, map[string]string{"_meta.json": "{}"})
	rapid.Check(t, func(r *rapid.T) {
		names := []string{"base.json", "more.json", "app.json"}
		docs := map[string]string{}
		var merged [][]byte
		for _, name := range names {
			docs[name] = drawn(r, 3)
			k.write(name, docs[name])
			merged = append(merged, []byte(docs[name]))
		}
		deep := rapid.Bool().Draw(r, "deep")
		k.write("_meta.json", fmt.Sprintf(`{"conf_inherit":{"app.json":"base more"},"inherit_options":{"*":{"merge":%q}}}`, map[bool]string{true: "deep", false: "shallow"}[deep]))
		whole := jsonpath.Merge(merged, deep)
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "~1~0", "0"}), 0, 3).Draw(r, "path")
		answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "app", Path: strings.Join(keys, "/")})
		require.NoError(r, err)
		want := string(valueAt(whole, keys))
		objects := 0
		for _, doc := range merged {
			if jsontext.KindOf(doc) == jsontext.Object {
				objects++
			}
		}
		require.Equal(r, want != "" && objects > 0, answer.Winner != "")
		if answer.Winner == "" {
			return
		}
		require.Equal(r, want, string(answer.Value))
		own := valueAt([]byte(docs[answer.Winner]), keys)
		require.NotNil(r, own)
		if jsontext.KindOf(own) != jsontext.Object {
			require.Equal(r, want, string(jsontext.AppendCompact(nil, own)))
		}
		origins, _ := jsonpath.Trace(merged, deep)
		for _, o := range origins {
			if o.Path == answer.Path {
				require.Equal(r, names[o.Doc], answer.Winner)
			}
		}
	})
}

// PROTOCOL.md says that no path leads to a key that is empty or a blank: it is that of the object
// around it.
func TestKeysThatNoPathLeadsTo(t *testing.T) {
	each(t, map[string]string{"a.json": `{"a":{"":1," ":2,"b":3}}`}, func(t *testing.T, k *kit) {
		blame, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "a"})
		require.NoError(t, err)
		for i, path := range []string{"/a/", "/a/ ", "/a/b"} {
			require.Equal(t, path, blame.Keys[i].Path)
			answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: "a", Path: path})
			require.NoError(t, err)
			require.Equal(t, strings.TrimRight(path, "/ "), answer.Path)
		}
	})
}

// valueAt is a look-up of our own.
func valueAt(doc []byte, keys []string) []byte {
	for _, key := range keys {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		var found []byte
		if jsontext.KindOf(doc) == jsontext.Array && key == "0" {
			jsontext.EachElement(doc, func(raw []byte, _ jsontext.Kind) bool { found = raw; return false })
		}
		jsontext.EachMember(doc, func(name, raw []byte, _ jsontext.Kind) bool {
			if string(name) == key {
				found = raw
			}
			return found == nil
		})
		if doc = found; doc == nil {
			return nil
		}
	}
	return doc
}

func sameJSON(a, b []byte) bool {
	return (a == nil) == (b == nil) && reflect.DeepEqual(plain(a), plain(b))
}

// plain is what a value means: of members with the same key the first counts, which encoding/json
// would not see.
func plain(raw []byte) (value any) {
	switch jsontext.KindOf(raw) {
	case jsontext.Object:
		members := map[string]any{}
		jsontext.EachMember(raw, func(name, raw []byte, _ jsontext.Kind) bool {
			if _, known := members[string(name)]; !known {
				members[string(name)] = plain(raw)
			}
			return true
		})
		return members
	case jsontext.Array:
		list := []any{}
		jsontext.EachElement(raw, func(raw []byte, _ jsontext.Kind) bool {
			list = append(list, plain(raw))
			return true
		})
		return list
	}
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}
