package history_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// family is documents in each state that one and its bases can be in, alone and with each other.
type family struct {
	files map[string]string
	gone  []string // that are deleted afterwards
	heirs []string
}

func newFamily() *family {
	states := []string{"missing", "object", "list", "gone"}
	f := &family{files: map[string]string{}}
	var inherit, deep []string
	member := func(name, state, text string) {
		switch state {
		case "missing":
			return
		case "list":
			text = "[1]"
		case "gone":
			f.gone = append(f.gone, name)
		}
		f.files[name] = text
	}
	for own := range states {
		for weak := range states {
			for strong := range states {
				for _, merge := range []string{"shallow", "deep"} {
					id := fmt.Sprintf("%s-%s-%s-%s", states[own], states[weak], states[strong], merge)
					heir, base, idc := id+".json", "b/"+id+".json", "i/"+id+".json"
					member(heir, states[own], `{"db":{"user":"u"},"n":3}`)
					member(base, states[weak], `{"db":{"host":"a","port":1},"n":1,"b":{}}`)
					member(idc, states[strong], `{"db":{"host":"b"},"l":[1,{"x":2}]}`)
					f.heirs = append(f.heirs, heir)
					inherit = append(inherit, fmt.Sprintf("%q:%q", heir, base+" "+idc))
					deep = append(deep, fmt.Sprintf("%q:{%q:%q}", heir, "merge", merge))
				}
			}
		}
		for _, bases := range []string{"none", "empty"} {
			heir := states[own] + "-" + bases + ".json"
			member(heir, states[own], `{"n":1}`)
			f.heirs = append(f.heirs, heir)
			if bases == "empty" {
				inherit = append(inherit, fmt.Sprintf(`%q:""`, heir))
			}
		}
	}
	f.files["_meta.json"] = fmt.Sprintf(`{"conf_inherit":{%s},"inherit_options":{%s}}`, strings.Join(inherit, ","), strings.Join(deep, ","))
	return f
}

// resolved is what programs get that ask for a document with what it inherits; nil: that there is none.
func (k *kit) resolved(name string) []byte {
	node := k.server.Store.Snapshot().Node(name)
	if node == nil {
		return nil
	}
	text, ready := node.Contents(true)
	require.True(k.t, ready)
	return text
}

// told asserts what is told of a document at a revision of which programs get text.
func (k *kit) told(name, rev string, text []byte) {
	k.t.Helper()
	show, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: name, Rev: rev, Resolved: true})
	explained, eerr := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: name, Rev: rev})
	if text == nil {
		for _, err := range []error{err, eerr} {
			require.Equal(k.t, codes.NotFound, codes.Of(err), "%s: %v", name, err)
		}
		return
	}
	require.NoError(k.t, err, name)
	if show.Deleted && len(show.Bases) == 0 {
		require.Equal(k.t, "{}", string(text))
		require.Empty(k.t, show.Text)
		k.refused(eerr, codes.NotFound, "was deleted by revision")
		return
	}
	require.Equal(k.t, string(text), show.Text, "%s@%s", name, rev)
	require.NoError(k.t, eerr, name)
	require.Equal(k.t, string(text), string(explained.Value), "%s@%s", name, rev)
	blame, berr := k.Blame(k.ctx, nil, &history.BlameAsk{Name: name, Rev: rev})
	if explained.Winner == "" {
		k.refused(berr, codes.NotFound, "is {}: no file has a value of it")
		return
	}
	require.NoError(k.t, berr, name)
	for _, key := range blame.Keys {
		keys := strings.Split(key.Path, "/")[1:]
		value := string(valueAt(text, keys))
		answer, err := k.Explain(k.ctx, nil, &history.ExplainAsk{Name: name, Rev: rev, Path: key.Path})
		require.NoError(k.t, err)
		require.Equal(k.t, value, string(answer.Value), "%s@%s %s", name, rev, key.Path)
		require.Equal(k.t, answer.Winner, key.File)
		_, file := k.show(history.ShowAsk{Name: key.File, Rev: fmt.Sprint(blame.At)})
		require.Equal(k.t, value, string(valueAt([]byte(file), keys)), "%s of %s", key.Path, name)
	}
	if jsontext.KindOf(text) == jsontext.Object {
		origins, _ := jsonpath.Trace([][]byte{text}, true)
		require.LessOrEqual(k.t, len(blame.Keys), max(1, len(origins)))
		require.GreaterOrEqual(k.t, len(blame.Keys), leaves(origins))
	}
}

// leaves is how many values are not the objects around others.
func leaves(origins []jsonpath.Origin) (n int) {
	for i, o := range origins {
		if i+1 == len(origins) || !strings.HasPrefix(origins[i+1].Path, o.Path+"/") {
			n++
		}
	}
	return n
}
