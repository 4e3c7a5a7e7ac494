package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/verb"
	"confcenter/models/bench"
	"confcenter/models/flow"
	"confcenter/op"
)

func TestEveryOperationOfAModelIsAVerb(t *testing.T) {
	root := rootCommand((&verb.App{}))
	for model, operations := range map[string][]op.Operation{"flow": flow.Operations, "bench": bench.Operations} {
		for i := range operations {
			o := &operations[i]
			verb, _, err := root.Find([]string{model, o.Name})
			require.NoError(t, err)
			require.Equal(t, o.Name, verb.Name())
			arguments := 0
			for _, m := range op.MembersOf(o.Question()) {
				if m.Arg > 0 {
					arguments++
				} else {
					require.NotNil(t, verb.Flags().Lookup(m.Name), "%s %s --%s", model, o.Name, m.Name)
				}
			}
			require.NoError(t, verb.Args(verb, make([]string, arguments)), verb.Use)
		}
	}
}

// A script learns by the exit code whether it has got what it asked for, and a reader of the text by a
// word.
func TestWhatIsNotGotIsToldByTheExitCode(t *testing.T) {
	addr, dir := store(t), t.TempDir()
	node, idle := write(t, dir, "node.json", `{"id":"n1","config":{"role":"LOADER"}}`), write(t, dir, "idle.json", `{"state":"NODE_IDLE"}`)
	hold, holds := "", regexp.MustCompile(`hold: (\d+)`)
	job := write(t, dir, "job.yaml", "name: j\nnodeAssignments: [{name: a, role: loader}]\nstages: [{name: s, tasks: [{driver: shell, shell: {command: x}}]}]\n")
	for _, s := range []struct {
		line           string
		code           int
		stdout, stderr string
	}{
		{"flow lock k ann", exitOK, `^granted: true\nfence: \d+\nowner: ann\n`, `^$`},
		{"flow lock k bob", exitRefused, `^granted: false\nfence: \d+\nowner: ann\n`, `^confcenter: the lock is not granted: "ann" has it\n$`},
		{"flow lock k bob -o json", exitRefused, `"granted":false`, `not granted`},
		{"flow join wokr.W", exitOK, ``, `^$`},
		{"flow claim wokr.W", exitNothing, `^$`, `^confcenter: nothing waits that could be claimed\n$`},
		{"flow claim wokr.W -o json", exitNothing, `"ukey":""`, `nothing waits`},
		{"flow register A", exitOK, ``, `^$`},
		{"flow claim wokr.W --from cfapp.A", exitNothing, `^$`, `nothing waits`},
		{"flow claim wokr.W cfapp.A", exitOK, `ukey: cfapp.A`, `^$`},
		{"bench take-job", exitNothing, `^empty: true\n$`, `^confcenter: no job waits\n$`},
		{"bench submit-job @" + job, exitOK, ``, `^$`},
		{"bench take-job", exitOK, `^empty: false\nid: 0000000001\nhold: \d+\n`, `^$`},
		{"bench assign-nodes 0000000001 HOLD", exitNothing, `^assigned: false\nNAME +ROLE +WHY\na +LOADER +IDLE_ROLE_NO_MATCH\n$`, `^confcenter: nothing is assigned: no node was found for 1 of what the job asks for\n$`},
		{"bench assign-nodes 0000000001 HOLD -o json", exitNothing, `"assigned":false`, `nothing is assigned`},
		{"bench register-node --node @" + node, exitOK, ``, `^$`},
		{"bench heartbeat n1 --status @" + idle, exitOK, ``, `^$`},
		{"bench assign-nodes 0000000001 HOLD", exitOK, `^assigned: true\n`, `^$`},
	} {
		r := call(t, "", append(words(strings.ReplaceAll(s.line, "HOLD", hold)), "--addr", addr)...)
		if found := holds.FindStringSubmatch(r.stdout); found != nil {
			hold = found[1]
		}
		require.Equal(t, s.code, r.code, "%s: %s%s", s.line, r.stdout, r.stderr)
		require.Regexp(t, s.stdout, r.stdout, s.line)
		require.Regexp(t, s.stderr, r.stderr, s.line)
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
