package flow_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/models/flow"
	"confcenter/op"
)

// answered asks an operation of the table, as an edge does for a caller who may do what rules say.
func (k *kit) answered(o *op.Operation, question any, rules ...string) (string, error) {
	model, who := op.Model{Name: "flow", Operations: flow.Operations, Asked: k.model}, guardtest.Caller(k.t, rules...)
	if err := who.Needs(o.Things(question, nil)...); err != nil {
		return "", err
	}
	text, err := model.Answer(op.With(k.ctx, who.May()), o, k.by, question)
	return string(text), err
}

func TestEachOperationNeedsTheRightToTheScopeThatItNames(t *testing.T) {
	inside(t, func(k *kit) {
		for i := range flow.Operations {
			o := &flow.Operations[i]
			require.True(k.t, o.Named, o.Name)
			if o.Name == "scopes" {
				continue
			}
			_, verb, _ := policy.Of(o.Right)
			for scope, name := range map[string]string{"": "cl", "cl": "cl", "game": "game"} {
				question := o.Ask()
				reflect.ValueOf(question).Elem().FieldByName("Scope").SetString(scope)
				may := verb.String() + " flow:" + name
				for _, rules := range [][]string{{may}, {may + "*", "-" + may + "x"}, {"* flow", "-* flow:other"}} {
					_, err := k.answered(o, question, rules...)
					require.NotEqual(k.t, codes.Forbidden, codes.Of(err), "%s %q with %s", o.Name, scope, rules)
				}
				for _, rules := range [][]string{{"* flow:other"}, {"* flow", "-" + may}, {"* flow:" + name, "-" + may}, {"watch flow", "history flow"}, nil} {
					_, err := k.answered(o, question, rules...)
					require.Equal(k.t, codes.Forbidden, codes.Of(err), "%s %q with %s", o.Name, scope, rules)
				}
			}
		}
	})
}

// Not even where the next page begins tells of others.
func TestOnlyScopesAreListedThatMayBeRead(t *testing.T) {
	inside(t, func(k *kit) {
		for _, scope := range []string{"a", "b", "hidden", "z"} {
			ask(k, k.Set, flow.SetAsk{Scope: scope, Key: "k", Value: raw(`1`)})
			ask(k, k.Join, flow.JoinAsk{Scope: scope, Key: "wokr.1", TTL: 60_000})
		}
		var scopes *op.Operation
		for i := range flow.Operations {
			if o := &flow.Operations[i]; o.Name == "scopes" {
				scopes = o
			}
		}
		for _, c := range []struct {
			ask   flow.ScopesAsk
			rules []string
			want  string
		}{
			{flow.ScopesAsk{}, []string{"* flow"}, `{"scopes":["a","b","hidden","z"]}`},
			{flow.ScopesAsk{}, []string{"* flow", "-read flow:hidden"}, `{"scopes":["a","b","z"]}`},
			{flow.ScopesAsk{Limit: 2}, []string{"* flow", "-read flow:hidden"}, `{"scopes":["a","b"],"next":"b"}`},
			{flow.ScopesAsk{Limit: 1, After: "b"}, []string{"* flow", "-read flow:hidden"}, `{"scopes":["z"]}`},
			{flow.ScopesAsk{Limit: 2}, []string{"read flow:a", "read flow:b"}, `{"scopes":["a","b"]}`},
			{flow.ScopesAsk{Limit: 1}, []string{"read flow:a", "read flow:b"}, `{"scopes":["a"],"next":"a"}`},
			{flow.ScopesAsk{}, []string{"write flow"}, `{"scopes":[]}`},
		} {
			got, err := k.answered(scopes, &c.ask, c.rules...)
			require.NoError(k.t, err)
			require.JSONEq(k.t, c.want, got, "%+v %s", c.ask, c.rules)
		}
	})
}
