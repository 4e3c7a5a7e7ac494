package host_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/jsontext"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
)

// questions are the rows of all models.
var questions = slices.Concat(flow.Operations, bench.Operations, history.Operations, token.Operations,
	secret.Operations, review.Operations, audit.Operations)

// example is a value of a member, with something in all that it has.
func example(t reflect.Type, depth int) any {
	switch op.FormOf(t) {
	case op.TextForm:
		return "cfapp.A"
	case op.WholeForm:
		return 7
	case op.NumberForm:
		return 0.5
	case op.FlagForm:
		return true
	case op.AnyForm:
		return map[string]any{"a": []any{1, "b", nil}}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case depth == 0:
		return nil
	case t.Kind() == reflect.Slice:
		return []any{example(t.Elem(), depth-1), example(t.Elem(), depth-1)}
	case t.Kind() == reflect.Map:
		return map[string]any{"a": example(t.Elem(), depth-1)}
	}
	all := map[string]any{}
	for _, m := range op.MembersOf(t) {
		all[m.Name] = example(m.Type, depth-1)
	}
	return all
}

// FuzzQuestion reads any object as the question of each row. The corpus follows from the rows: what a question is
// with each of its members alone, and with all of them. What is taken is about things that can be named, and is
// the same when it is said again.
func FuzzQuestion(f *testing.F) {
	f.Add(uint8(0), []byte(`{}`))
	for i := range questions {
		t := questions[i].Question()
		all, _ := example(t, 4).(map[string]any)
		for name, value := range all {
			alone, err := json.Marshal(map[string]any{name: value})
			require.NoError(f, err)
			f.Add(uint8(i), alone)
		}
		text, err := json.Marshal(all)
		require.NoError(f, err)
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, row uint8, object []byte) {
		if kind, err := jsontext.Check(object); err != nil || kind != jsontext.Object {
			return
		}
		o := &questions[int(row)%len(questions)]
		q, err := o.Read(object, nil)
		if err != nil {
			require.NotEqual(t, codes.Internal, codes.Of(err), "%v", err)
			return
		}
		for _, thing := range o.Things(q, nil) {
			require.NotZero(t, thing.Do)
		}
		said, err := json.Marshal(q)
		require.NoError(t, err)
		again, err := o.Read(said, nil)
		require.NoError(t, err, "%s", said)
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.JSONEq(t, string(said), string(twice))
	})
}
