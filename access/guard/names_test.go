package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/op"
)

func TestScopesAndProgramsAreDecidedByName(t *testing.T) {
	for _, c := range []struct {
		rules         []string
		scope, client string // "": it may do so with none
	}{
		{[]string{"read flow:a"}, "a", ""},
		{[]string{"read clients:a"}, "", "a"},
		{[]string{"* flow:a*", "-read flow:ab", "* clients:a*", "-read clients:ab"}, "a,ac", "a,ac"},
		{[]string{"read flow", "read clients"}, "a,ab,ac,b", "a,ab,ac,b"},
		{[]string{"write flow", "send clients"}, "", ""},
		{[]string{"* kv", "* config"}, "", ""},
	} {
		may := guardtest.Caller(t, c.rules...)
		var scope, client string
		for _, name := range []string{"a", "ab", "ac", "b"} {
			if may.Needs(op.Scope(policy.Read, name)) == nil {
				scope += "," + name
			}
			if may.Sees(op.Client(policy.Read, name)) {
				client += "," + name
			}
		}
		require.Equal(t, [2]string{c.scope, c.client}, [2]string{after(scope), after(client)}, c.rules)
	}
	require.ErrorContains(t, new(guard.Caller).Needs(op.Scope(policy.Write, "a")), `you may not write "flow:a"`)
	require.False(t, new(guard.Caller).Sees(op.Client(policy.Send, "a")))
	require.NoError(t, (*guard.Caller)(nil).Needs(op.Scope(policy.Write, "a")))
	require.True(t, (*guard.Caller)(nil).Sees(op.Client(policy.Send, "a")))
}

func after(list string) string {
	if list == "" {
		return ""
	}
	return list[1:]
}

// A caller that may read a scope may read its keys, and watch them; what is about all scopes needs all.
func TestTheKeysOfAScopeAreItsOwn(t *testing.T) {
	one, all := guardtest.Caller(t, "read flow:a", "watch flow:a", "* kv"), guardtest.Caller(t, "* flow")
	for ns, want := range map[string]bool{"@flow/a": true, "@flow/b": false, "@flow/": false, "@flow/.index": false} {
		require.Equal(t, want, one.Needs(op.Keys(policy.Read, op.Every, ns, "")) == nil, ns)
		require.Equal(t, want, one.Needs(op.Key(policy.Read, ns, "k")) == nil, ns)
		require.Equal(t, want, one.Needs(op.Watch(nil, kv.Filter{NS: ns})...) == nil, ns)
		require.Error(t, one.Needs(op.Key(policy.Write, ns, "k")), ns)
		require.NoError(t, all.Needs(op.Keys(policy.Read, op.Every, ns, "")), ns)
	}
	require.Error(t, guardtest.Caller(t, "read flow", "-read flow:b").Needs(op.Keys(policy.Read, op.Every, "@flow/.index", "")))
	require.Error(t, guardtest.Caller(t, "read flow:.index", "read flow:.*").Needs(op.Keys(policy.Read, op.Every, "@flow/.index", "")))
}

// A lease of a worker ends with the right to the worker's scope.
func TestALeaseInAScopeNeedsTheRightToWriteThere(t *testing.T) {
	held := func(ns, key string) *kv.Holding {
		return &kv.Holding{Held: []kv.Fence{{NS: ns, Key: key}}}
	}
	in, out := guardtest.Caller(t, "write flow:a"), guardtest.Caller(t, "write flow:ab")
	for _, h := range []*kv.Holding{held("@flow/a", "cfworkers.wokr.1"), held("@flow/.index", "live.a.wokr.1"), held("@flow/.index", "live.a")} {
		require.True(t, in.Holds(h), h)
		require.False(t, out.Holds(h), h)
		require.False(t, guardtest.Caller(t, "read flow", "write bench").Holds(h), h)
	}
	require.False(t, in.Holds(held("@flow/.index", "live")))
}

// Hanging up is asked with the messages, and needs another right than these.
func TestMessagesNeedARightToSendOrToHangUp(t *testing.T) {
	for rule, want := range map[string]bool{"send clients:a": true, "delete clients:a": true, "read clients": false, "* kv": false} {
		require.Equal(t, want, guardtest.Caller(t, rule).Right(access.ClientsSend, true) == nil, rule)
	}
	require.Error(t, guardtest.Caller(t, "delete clients").Right(access.ClientsSend, false))
}
