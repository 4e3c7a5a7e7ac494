package integration

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

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
		cmd := toolCommand(t, append([]string{"auth", "can"}, ask...)...)
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
