package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/history"
	"confcenter/internal/jsonpath"
)

// by writes a document in the name of who.
func (k *kit) by(who, name, text string) {
	k.t.Helper()
	k.set(confstore.SetRequest{Name: name, Contents: []byte(text), Exact: true, Actor: &access.Actor{Author: who, Origin: access.OverHTTP, Comment: "because of " + who}})
}

// blamed is who is blamed for what.
func blamed(answer *history.BlameAnswer) (list []string) {
	for _, key := range answer.Keys {
		list = append(list, fmt.Sprintf("%s %s %s", key.Path, strings.TrimSuffix(key.File, ".json"), key.Author))
	}
	return list
}

func TestWhoChangedEachValueLast(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		k.by("ann", "base.json", `{"db":{"host":"a","port":1},"l":[1,2],"e":{}}`)
		k.by("bob", "base.json", `{"db":{"host":"b","port":1},"l":[1,2],"e":{}}`)
		k.by("cyd", "base.json", `{"l":[1,3],"db":{"port":1,"host":"b"},"e":{}, "x":{"y":{"z":0}}}`)
		k.by("dan", "app.json", `{"n":1,"m":1}`)
		k.by("eve", "app.json", `{"n":2,"m":1}`)
		k.by("eve", "app.json", `{"n":2, "m":1}`)
		k.write("app.json", "-")
		k.by("fay", "app.json", `{"m":1,"n":2}`)
		k.by("gil", "app.json", `{"m":2,"n":2}`)
		k.by("ann", "_meta.json", `{"conf_inherit":{"app.json":"base"},"inherit_options":{"*":{"merge":"deep"}}}`)
		answer, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app"})
		require.NoError(t, err)
		require.Equal(t, []string{"/l base cyd", "/db/port base ann", "/db/host base bob", "/e base ann", "/x/y/z base cyd", "/m app gil", "/n app fay"}, blamed(answer))
		require.Equal(t, "because of cyd", answer.Keys[0].Comment)
		require.Equal(t, "http", answer.Keys[0].Origin)
		require.EqualValues(t, 3, answer.Keys[0].Version)
		require.Positive(t, answer.Keys[0].Time)
		for _, looked := range answer.Looked {
			require.Empty(t, looked.Stopped)
		}
		for path, want := range map[string][]string{
			"/db": {"/db/port base ann", "/db/host base bob"}, "db/host": {"/db/host base bob"}, "/l/0": {"/l/0 base ann"}, "/l/1": {"/l/1 base cyd"}, "/e": {"/e base ann"},
		} {
			answer, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app", Path: path})
			require.NoError(t, err)
			require.Equal(t, want, blamed(answer), path)
		}
		answer, err = k.Blame(k.ctx, nil, &history.BlameAsk{Name: "base@~1"})
		require.NoError(t, err)
		require.Equal(t, []string{"/db/host base bob", "/db/port base ann", "/l base ann", "/e base ann"}, blamed(answer))
		_, err = k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app", Path: "/nothing"})
		k.refused(err, codes.NotFound, "app.json has no /nothing")
		_, err = k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app@~2"})
		k.refused(err, codes.NotFound, "app.json was deleted by revision")
	})
}

func TestManyValuesAreBlamedInPages(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		var text strings.Builder
		for i := range 2500 {
			fmt.Fprintf(&text, `,"%d":%d`, i, i)
		}
		k.by("ann", "a.json", `{"x":0`+text.String()+"}")
		k.by("bob", "a.json", `{"x":0`+strings.Replace(text.String(), ":2400", ":-1", 1)+"}")
		var all []string
		q := history.BlameAsk{Name: "a"}
		for {
			answer, err := k.Blame(k.ctx, nil, &q)
			require.NoError(t, err)
			all = append(all, blamed(answer)...)
			if q.Offset = answer.Next; q.Offset == 0 {
				break
			}
		}
		require.Len(t, all, 2501)
		require.Equal(t, "/2399 a ann /2400 a bob", all[2400]+" "+all[2401])
	})
}

// Blame agrees with looking at each version.
func TestBlameIsTrue(t *testing.T) {
	k := near(t, nil)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		name := fmt.Sprintf("%d.json", n)
		var texts []string
		for range rapid.IntRange(1, 6).Draw(r, "versions") {
			text := `{"k":` + drawn(r, 3) + `,"l":` + drawn(r, 2) + "}"
			texts = append(texts, text)
			k.write(name, text)
		}
		list := k.log(name).Changes // what changes nothing is no version
		texts = nil
		for i := range list {
			_, text := k.show(history.ShowAsk{Name: name, Rev: fmt.Sprint(list[len(list)-1-i].Revision)})
			texts = append(texts, text)
		}
		answer, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: name})
		require.NoError(r, err)
		newest := texts[len(texts)-1]
		origins, _ := jsonpath.Trace([][]byte{[]byte(newest)}, false)
		require.LessOrEqual(r, len(answer.Keys), len(origins))
		for _, key := range answer.Keys {
			keys := strings.Split(key.Path, "/")[1:]
			want := len(texts)
			for want > 1 && sameJSON(valueAt([]byte(texts[want-2]), keys), valueAt([]byte(texts[want-1]), keys)) {
				want--
			}
			require.EqualValues(r, want, key.Version, "%s in %q", key.Path, texts)
		}
	})
}
