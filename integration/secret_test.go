package integration

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// The roles of the tests of secrets: one who may do everything but reveal, one who may reveal what
// comes from the base.
const secretRoles = `{"rules": [
	{"name": "a", "who": ["token:reader"], "allow": ["*"], "what": ["config", "kv", "backup", "status", "clients", "log"]},
	{"name": "b", "who": ["token:reader"], "deny": ["reveal"], "what": ["config", "kv"]},
	{"name": "c", "who": ["token:program"], "allow": ["read", "watch"], "what": ["config:*"]},
	{"name": "d", "who": ["token:program"], "allow": ["reveal"], "what": ["config:base.json"]}]}`

// secretKey writes a file of secret keys, newest first, and returns its path.
func secretKey(t *testing.T, keys ...string) (path string) {
	path = filepath.Join(t.TempDir(), "secret.key")
	rekey(t, path, keys...)
	return path
}

func rekey(t *testing.T, path string, keys ...string) {
	require.NoError(t, os.WriteFile(path+".new", []byte(strings.Join(keys, "\n")), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func randomKey() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// holdsNot fails if a file below a directory has one of the texts.
func holdsNot(t *testing.T, dir string, texts ...string) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		for _, text := range texts {
			require.NotContains(t, string(b), text, path)
		}
		return err
	}))
	require.Positive(t, files)
}

// secretServer has access control, secrets, and tokens for those in secretRoles.
func secretServer(t *testing.T, keyFile string, flags ...string) (srv *Process, admin, reader, program string) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.MkdirAll(filepath.Join(conf, "_access"), 0o755))
	for name, text := range map[string]string{"_access/secrets.json": secretRoles, "_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`, "heir.json": `{"own":1}`} {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	srv = process.Start(t, conf, append([]string{"--access-control", "--secret-key-file", keyFile, "--log-level", "debug", "--slow-request", "1ms"}, flags...)...)
	text, err := os.ReadFile(filepath.Join(srv.Data, "administrator.token"))
	require.NoError(t, err)
	admin = strings.TrimSpace(string(text))
	root := as(t, srv, admin)
	_, reader = tokenFor(t, root, "reader")
	_, program = tokenFor(t, root, "program")
	return srv, admin, reader, program
}

const ofBase, ofHeir = "hunter2-QmFzZQ-first", "hunter2-SGVpcg-second"

func TestASecretLeavesOnlyToThoseWhoMayRevealIt(t *testing.T) {
	key := secretKey(t, randomKey())
	srv, admin, reader, program := secretServer(t, key)
	root := as(t, srv, admin)
	ask := func(p *servertest.Peer, body string) string { return p.Call(protocol.GetConfig, body) }
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"base.json","contents":{"db":{"password":{"$seal":"`+ofBase+`"},"n":1}}}`), `"code":0`)
	status, text := bearer(t, srv, admin, "PUT", "/v1/config/file?name=heir.json", `{"own": {"$seal": ["`+ofHeir+`"]}}`)
	require.Equal(t, 200, status, text)

	require.Contains(t, root.Call(protocol.KVPut, `{"ns":"game","key":"k","type":"json","value":{"p":{"$seal":"`+ofBase+`"}}}`), `"code":0`)
	require.Contains(t, root.Call(protocol.KVGet, `{"ns":"game","key":"k","reveal":1}`), `{"p":"`+ofBase+`"}`)

	const heir = `{"file_pattern":"heir.json","incbase":1}`
	require.Contains(t, ask(root, heir), `"contents":{"db":{"password":"`+ofBase+`","n":1},"own":["`+ofHeir+`"]}`)
	got := ask(as(t, srv, program), heir)
	require.Contains(t, got, ofBase, "the base is where it comes from")
	require.Contains(t, got, `:config:heir.json"`)
	require.NotContains(t, got, ofHeir)

	all := strings.Join(everythingThatIsTold(t, srv, reader), "\n")
	require.Contains(t, all, ":config:base.json")
	for _, secret := range []string{ofBase, ofHeir} {
		require.NotContains(t, all, secret)
	}

	backup := filepath.Join(t.TempDir(), "b.backup")
	status, text = bearer(t, srv, admin, "GET", "/v1/backup", "")
	require.Equal(t, 200, status)
	require.NoError(t, os.WriteFile(backup, []byte(text), 0o600))
	restored := filepath.Join(t.TempDir(), "data")
	process.Must(t, "restore", backup, restored)
	said := srv.Said()
	srv.Stop()
	for _, dir := range []string{srv.Conf, srv.Data, filepath.Dir(backup), restored} {
		holdsNot(t, dir, ofBase, ofHeir)
	}
	for _, secret := range []string{ofBase, ofHeir, admin} {
		require.NotContains(t, said, secret)
	}

	again := process.New(t, filepath.Join(t.TempDir(), "conf"), "--access-control", "--secret-key-file", key)
	require.NoError(t, os.MkdirAll(again.Conf, 0o755))
	again.Data = restored
	again.Start()
	require.Contains(t, ask(as(t, again, admin), heir), ofBase, "with the secret key a backup has everything")
}

// clientTool runs a verb of the binary against srv.
func clientTool(t *testing.T, srv *Process, token string, args ...string) string {
	t.Helper()
	cmd := process.ToolCommand(t, args...)
	cmd.Env = append(cmd.Env, "CONFCENTER_ADDR="+srv.Addr, "CONFCENTER_HTTP=http://"+srv.HTTP, "CONFCENTER_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return string(out)
}

// everythingThatIsTold is what a caller is told who asks in each way for what has sealed values.
func everythingThatIsTold(t *testing.T, srv *Process, token string) (told []string) {
	p := as(t, srv, token)
	for _, c := range []struct{ command, body string }{
		{"GETCONFIG", `{"file_pattern":"base.json"}`}, {"GETCONFIG", `{"file_pattern":"heir.json","incbase":1}`},
		{"GETCONFIG", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/db/password"}`}, {"GETCFGNAME", `{"detail":true}`},
		{"SETCONFIG", `{"filename":"copy.json","contents":` + contentsOf(p.Call(protocol.GetConfig, `{"file_pattern":"base.json"}`)) + `}`},
		{"GETCONFIG", `{"file_pattern":"copy.json"}`},
		{"BOOKCFGCHANGE", `{"file_pattern":"base.json","incbase":1}`},
		{"CFLOG", `{"name":"base.json"}`}, {"CFSHOW", `{"name":"base.json"}`}, {"CFSHOW", `{"name":"heir.json","resolved":true}`},
		{"CFDIFF", `{"name":"base.json","paths":true}`}, {"CFDIFF", `{"name":"base.json"}`}, {"CFBLAME", `{"name":"heir.json"}`},
		{"CFEXPLAIN", `{"name":"heir.json","path":"/db/password"}`}, {"CFEXPORT", `{}`}, {"CFPREVIEW", `{"name":"base.json","text":"{}"}`},
		{"KVGET", `{"ns":"game","key":"k","reveal":1}`}, {"KVMGET", `{"ns":"game","keys":["k"],"reveal":1}`}, {"KVLIST", `{"ns":"game","reveal":1}`}, {"KVHISTORY", `{"ns":"game","key":"k","reveal":1}`},
		{"KVTXN", `{"ns":"game","then":[{"op":"get","key":"k"},{"op":"put","key":"l","value":"1"},{"op":"delete","key":"l","prev":1}],"reveal":1}`},
		{"CFROLLBACK", `{"name":"base.json","rev":2,"dry_run":true}`}, {"GETCLI", `{}`}, {"GETOPLOG", `{}`},
	} {
		for _, row := range protocol.Commands {
			if row.Name == c.command {
				told = append(told, c.command+" "+p.Call(row.ID, c.body))
			}
		}
	}
	for _, body := range []string{`{"name":"base.json","state":1,"reveal":1}`, `{"name":"heir.json","resolved":1,"from":0,"prev":1,"changes":1,"reveal":1}`} {
		w := as(t, srv, token)
		require.Contains(t, w.Call(protocol.CfWatch, body), `"code":0`)
		told = append(told, "CFWATCH "+w.Next().Body)
	}
	for _, body := range []string{`{"ns":"game","state":1,"prev":1,"reveal":1}`, `{"ns":"game","from":1,"prev":1,"reveal":1}`} {
		w := as(t, srv, token)
		require.Contains(t, w.Call(protocol.KVWatch, body), `"code":0`)
		told = append(told, "KVWATCH "+w.Next().Body)
	}
	for _, path := range []string{
		"/v1/store/keys?ns=game&reveal=1", "/v1/store/history?ns=game&key=k&reveal=1", "/v1/audit/lines", "/v1/status/samples",
		"/v1/config/file?name=base.json", "/v1/config/file?name=base.json&raw=1&reveal=1", "/v1/config/resolved?name=heir.json&reveal=1", "/v1/config/search?q=hunter2", "/v1/config/search?q=password", "/v1/config/files",
		"/v1/history/log", "/v1/history/show?name=base.json", "/v1/history/diff?name=base.json", "/v1/history/export", "/v1/status", "/metrics", "/v1/clients", "/v1/store/key?ns=game&key=k&reveal=1", "/v1/store/keys?ns=game&contains=hunter&values=1", "/kv/game/k", "/readyz?verbose", "/v1/backup",
	} {
		_, text := bearer(t, srv, token, "GET", path, "")
		told = append(told, path+" "+text)
	}
	return append(told, "log "+srv.Said())
}

// contentsOf is what a reply of GETCONFIG has of a document.
func contentsOf(reply string) string {
	_, text, _ := strings.Cut(reply, `"contents":`)
	return strings.TrimSuffix(text, "}")
}

func TestWithAWrongSecretKeyTheServerServesMarks(t *testing.T) {
	right, wrong := randomKey(), randomKey()
	path := secretKey(t, right)
	srv, admin, _, _ := secretServer(t, path)
	seal := `{"filename":"a.json","contents":{"p":{"$seal":"` + ofBase + `"}}}`
	require.Contains(t, as(t, srv, admin).Call(protocol.SetConfig, seal), `"code":0`)
	rekey(t, path, wrong)
	srv.Restart()
	root := as(t, srv, admin)
	require.Contains(t, root.Call(protocol.GetConfig, `{"file_pattern":"a"}`), `"p":"$secret:v1:`)
	refused := root.Call(protocol.SetConfig, strings.Replace(seal, "a.json", "b.json", 1))
	require.Contains(t, refused, `"code":501`)
	require.NotContains(t, refused, ofBase)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"c.json","contents":{"n":1}}`), `"code":0`, "whoever seals nothing has no trouble")
	_, ready := bearer(t, srv, admin, "GET", "/readyz?verbose", "")
	require.Contains(t, ready, "[!]secrets trouble: ")
	require.Contains(t, srv.Said(), "values cannot be sealed or revealed")
	require.NotContains(t, srv.Said()+ready, wrong[:8])

	rekey(t, path, wrong, right)
	eventually(t, "the right key", func() bool {
		return strings.Contains(root.Call(protocol.GetConfig, `{"file_pattern":"a"}`), `"p":"`+ofBase+`"`)
	})
	require.Contains(t, root.Call(protocol.SetConfig, strings.Replace(seal, "a.json", "b.json", 1)), `"code":0`)
	rekey(t, path, wrong)
	srv.Restart()
	require.Contains(t, as(t, srv, admin).Call(protocol.GetConfig, `{"file_pattern":"a"}`), `"p":"`+ofBase+`"`, "the new one has wrapped the data keys")
	holdsNot(t, srv.Data, ofBase)
}

// Programs that read all the time never see a mark while keys are rotated, and nothing that was
// sealed gets lost.
func TestKeysAreRotatedWhileProgramsRead(t *testing.T) {
	keys := []string{randomKey()}
	path := secretKey(t, keys...)
	srv, admin, _, _ := secretServer(t, path)
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{srv.Addr}, Name: "rotation", Token: admin})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	set := func(n int) {
		_, err := c.Set(t.Context(), client.SetRequest{Name: fmt.Sprintf("r%d", n), Contents: fmt.Appendf(nil, `{"$seal":"%s %d"}`, ofBase, n)})
		require.NoError(t, err)
	}
	set(0)
	var reads atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			d, err := c.Get(ctx, "r0")
			if err == nil && string(d.Raw()) != `"`+ofBase+` 0"` {
				err = fmt.Errorf("read %s", d.Raw())
			}
			if err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			reads.Add(1)
		}
		done <- nil
	}()
	for n := 1; n <= 5; n++ {
		keys = append([]string{randomKey()}, keys...)
		rekey(t, path, keys[:2]...)
		before := clientTool(t, srv, admin, "secret", "status")
		require.Contains(t, clientTool(t, srv, admin, "secret", "rotate"), "newest: ")
		require.NotEqual(t, before, clientTool(t, srv, admin, "secret", "status"))
		set(n)
	}
	was := reads.Load()
	eventually(t, "reads go on", func() bool { return reads.Load() > was })
	cancel()
	require.NoError(t, <-done)
	rekey(t, path, keys[0])
	srv.Restart()
	for n := range 6 {
		require.Contains(t, as(t, srv, admin).Call(protocol.GetConfig, fmt.Sprintf(`{"file_pattern":"r%d"}`, n)), fmt.Sprintf(`"contents":"%s %d"`, ofBase, n))
	}
}

// Everything that older data keys seal is sealed by the newest while programs read, write and are told,
// and none of them sees more of it than that it was done.
func TestEverythingIsSealedAnewWhileTheServerRuns(t *testing.T) {
	srv, admin, _, _ := secretServer(t, secretKey(t, randomKey()))
	c, err := client.Dial(t.Context(), client.Config{Addrs: []string{srv.Addr}, Name: "reseal", Token: admin})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	const files, keys = 80, 80
	for n := range files {
		_, err := c.Set(t.Context(), client.SetRequest{Name: fmt.Sprintf("r%02d", n), Contents: fmt.Appendf(nil, `{"p":{"$seal":"%s %d"}}`, ofBase, n)})
		require.NoError(t, err)
	}
	game := c.KV("game").Revealing()
	for n := range keys {
		_, err := game.PutString(t.Context(), fmt.Sprintf("k%02d", n), fmt.Sprint(ofHeir, " ", n), client.WithSeal())
		require.NoError(t, err)
	}
	first := strings.Fields(clientTool(t, srv, admin, "secret", "status"))
	watched, err := c.WatchDocuments(t.Context(), client.DocumentWatchOptions{Prefix: "r", Reveal: true})
	require.NoError(t, err)
	defer watched.Stop()
	cache, err := game.Cache(t.Context())
	require.NoError(t, err)
	defer cache.Close()
	booked := as(t, srv, admin)
	require.Contains(t, booked.Call(protocol.BookCfgChange, `{"file_pattern":"r00.json"}`), `"code":0`)
	before, err := c.Get(t.Context(), "r00")
	require.NoError(t, err)

	clientTool(t, srv, admin, "secret", "rotate")
	require.Contains(t, clientTool(t, srv, admin, "audit", "-o", "json"), `"do":"rotate","what":["secret:`)
	require.Contains(t, clientTool(t, srv, admin, "secret", "status", "--uses", "-o", "json"), `"values":160`, first)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { // someone else counts in a file and a key all the while
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			_, err := c.Set(t.Context(), client.SetRequest{Name: "r79", Contents: fmt.Appendf(nil, `{"p":{"$seal":"%s 79"},"n":%d}`, ofBase, n)})
			if err == nil {
				_, err = game.PutString(t.Context(), "k79", fmt.Sprint(ofHeir, " ", 79+n), client.WithSeal())
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	told := clientTool(t, srv, admin, "secret", "reseal")
	require.Greater(t, strings.Count(told, "newest"), 2, "in steps")
	close(stop)
	require.NoError(t, <-done)
	status := clientTool(t, srv, admin, "secret", "status", "--uses", "-o", "json")
	require.Contains(t, status, `"values":0`)
	require.Contains(t, status, `"values":160`)
	require.NotContains(t, told+status, "hunter2")

	now, err := c.Get(t.Context(), "r00")
	require.NoError(t, err)
	require.Equal(t, before.Raw(), now.Raw())
	require.Equal(t, before.Mtime, now.Mtime, "it is the version that it was")
	require.Contains(t, clientTool(t, srv, admin, "log", "r00"), "sealed by the data key")
	for n := range keys - 1 {
		key, want := fmt.Sprintf("k%02d", n), fmt.Sprint(ofHeir, " ", n)
		got, err := game.GetString(t.Context(), key, "")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, want, cache.GetString(key, ""))
	}
	_, err = c.Set(t.Context(), client.SetRequest{Name: "r78", Contents: []byte(`{"the":"end"}`)})
	require.NoError(t, err)
	for { // no one was told of a file that only a new key seals
		n, err := watched.Next(t.Context())
		require.NoError(t, err)
		if len(n.Changes) == 0 {
			continue
		}
		if n.Changes[0].Name == "r78.json" {
			break
		}
		require.Equal(t, "r79.json", n.Changes[0].Name)
	}
	booked.Quiet()
	srv.Restart()
	require.Contains(t, as(t, srv, admin).Call(protocol.GetConfig, `{"file_pattern":"r00"}`), ofBase+" 0")
	holdsNot(t, srv.Data, ofBase, ofHeir)
	holdsNot(t, srv.Conf, ofBase, ofHeir)
}
