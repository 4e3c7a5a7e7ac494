package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	cluster "confcenter/state"
	"confcenter/state/bench"
	"confcenter/state/flow"
)

func TestEveryOperationOfAModelIsAVerb(t *testing.T) {
	root := (&app{}).root()
	for model, operations := range map[string][]cluster.Operation{"flow": flow.Operations, "bench": bench.Operations} {
		for i := range operations {
			o := &operations[i]
			verb, _, err := root.Find([]string{model, o.Name})
			require.NoError(t, err)
			require.Equal(t, o.Name, verb.Name())
			arguments := 0
			for _, m := range cluster.MembersOf(o.Question()) {
				if m.Arg > 0 {
					arguments++
				} else {
					require.NotNil(t, verb.Flags().Lookup(m.Name), "%s %s --%s", model, o.Name, m.Name)
				}
			}
			for _, f := range forms(verb.Use) {
				require.True(t, f.most >= arguments, verb.Use)
			}
		}
	}
}

func TestSessionOfModels(t *testing.T) {
	addr := store(t)
	dir := t.TempDir()
	node := write(t, dir, "node.json", `{"id":"n1","config":{"role":"LOADER"}}`)
	for _, s := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{words("bench add-node --node @" + node), exitOK, `(?m)^id: n1$`, ``},
		{words("bench add-node --node @" + node), exitRefused, ``, `ALREADY_EXISTS`},
		{words("bench count-nodes"), exitOK, `^1\n$`, ``},
		{words("bench nodes"), exitOK, `^ID +STATE +SEQ +INFO +STATUS\nn1 +NODE_IDLE +1 +\{"id":"n1",.{40,60}… +\{`, ``},
		{words("bench nodes --role LOADER -o json"), exitOK, `^\{"nodes":\[\{.*"id":"n1"`, ``},
		{words("bench nodes --role nobody"), exitUsage, ``, `"nobody" is no role`},
		{words("bench nodes --lost"), exitOK, `^`, ``},
		{words("bench node none"), exitNotFound, ``, `none`},
		{words("bench node"), exitUsage, ``, `ID is missing`},
		{words("bench check-spec @@x"), exitRefused, ``, `INVALID_CONFIG`},
		{words("flow set k @@x"), exitUsage, ``, `@x`},
		{words("flow set k \"x\" --who @@me"), exitOK, ``, ``},
		{words("flow replicate node.N x"), exitUsage, ``, `COUNT: must be a whole number, not "x"`},
		{words("bench nothing"), exitUsage, ``, ``},
		{words("flow"), exitUsage, ``, `flow needs a verb`},
		{words("flow tree"), exitOK, `^MEMBER +STATUS`, ``},
		{words("flow show node.N"), exitNotFound, ``, `node.N`},
	} {
		r := call(t, "", append(s.args, "--addr", addr)...)
		if len(s.args) == 1 {
			r = call(t, "", s.args...)
		}
		require.Equal(t, s.code, r.code, "%v: %s%s", s.args, r.stdout, r.stderr)
		require.Regexp(t, s.stdout, r.stdout, s.args)
		require.Regexp(t, s.stderr, r.stderr, s.args)
	}
}
