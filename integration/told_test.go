package integration

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/protocol"
)

// Scripts ask before they do something, so that the exit code is the answer.
func TestCanExitsWithItsAnswer(t *testing.T) {
	srv, admin := guarded(t, "--listen-as", "http@127.0.0.0/8=web")
	root := as(t, srv, admin)
	tokenFor(t, root, "player", "games")
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/more.json","contents":{"rules":[
		{"who":["group:games"],"allow":["read"],"what":["config:game/*"]},
		{"who":["person:zoe@example.org"],"allow":["write"],"what":["kv:match"]},
		{"who":["listener:web"],"allow":["read"],"what":["status"]},
		{"who":["*"],"deny":["read"],"what":["config:game/secret.json"]}]}}`), `"code":0`)
	can := func(ask ...string) (code int, said string) {
		cmd := process.ToolCommand(t, append([]string{"auth", "can"}, ask...)...)
		cmd.Env = append(cmd.Env, "CONFCENTER_ADDR="+srv.Addr, "CONFCENTER_TOKEN="+admin)
		out, err := cmd.CombinedOutput()
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			return failed.ExitCode(), string(out)
		}
		require.NoError(t, err)
		return 0, string(out)
	}
	eventually(t, "the role is obeyed", func() bool { code, _ := can("listener:web", "read", "status"); return code == 0 })
	for _, c := range []struct {
		ask  []string
		code int
		says string
	}{
		{[]string{"token:player", "read", "config:game/a.json"}, 0, "yes\nallow by more, rule 1"},
		{[]string{"token:nobody", "read", "config:game/a.json", "--groups", "games"}, 0, "yes\n"},
		{[]string{"token:nobody", "read", "config:game/a.json"}, 8, "no: no rule allows it\n"},
		{[]string{"token:player", "read", "config:game/secret.json"}, 8, "no\ndeny by more, rule 4"},
		{[]string{"token:player", "write", "config:game/a.json"}, 8, "no"},
		{[]string{"token:player", "read", "config:game/secret.json", "-o", "json"}, 8, `"says":"deny"`},
		{[]string{"person:zoe@example.org", "write", "kv:match/k"}, 0, "yes"},
		{[]string{"person:eve@example.org", "write", "kv:match/k"}, 8, "no"},
		{[]string{"listener:web", "read", "audit"}, 8, "no"},
		{[]string{"token:administrator", "grant", "roles"}, 0, "yes"},
		{[]string{"token:administrator", "read", "config:game/secret.json"}, 0, "yes"},
		{[]string{"token:player", "eat", "config:game/a.json"}, 5, "there are"},
		{[]string{"token:player", "read"}, 2, ""},
	} {
		code, said := can(c.ask...)
		require.Equal(t, c.code, code, "%v: %s", c.ask, said)
		require.Contains(t, said, c.says, c.ask)
	}
}

// Neither a short time nor the name of a listener makes less of what is granted.
func TestNobodyGrantsForAWhileOrToAListenerWhatTheyLack(t *testing.T) {
	s := besiege(t)
	granter, root := as(t, s.srv, s.granter), as(t, s.srv, s.admin)
	rule := func(who, what string) string {
		return `{"filename":"_access/more.json","contents":{"rules":[{"who":["` + who + `"],"allow":["read"],"what":["` + what + `"]}]}}`
	}
	for _, c := range []struct {
		cmd  protocol.Command
		body string
		may  bool // the granter
	}{
		{protocol.SetConfig, rule("listener:web", "config:game/*"), true},
		{protocol.SetConfig, rule("listener:web", "config:game*"), false},
		{protocol.SetConfig, rule("listener:*", "kv:vault"), false},
		{protocol.SetConfig, rule("group:more", "kv:vault/k"), false},
		{authMake, `{"name":"granter","ttl":60000}`, true},
		{authMake, `{"name":"intruder","ttl":1000}`, false},
		{authMake, `{"name":"brief","groups":["administrators"],"ttl":1000}`, false},
	} {
		got := granter.Call(c.cmd, c.body)
		require.Equal(t, c.may, !strings.Contains(got, `"code":1025`), "%s: %s", c.body, got)
		got = root.Call(c.cmd, c.body)
		require.Contains(t, got, `"code":0`, c.body)
	}
	eventually(t, "the last role is obeyed: its group may read what the granter may not", func() bool {
		return strings.Contains(granter.Call(authMake, `{"name":"brief","groups":["more"],"ttl":1000}`), `"code":1025`)
	})
}
