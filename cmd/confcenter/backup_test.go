package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/token"
	"confcenter/cmd/confcenter/datadir"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/disk"
)

// dataWithKeys makes a data directory with a state store.
func dataWithKeys(t *testing.T, keys ...string) string {
	t.Helper()
	data := t.TempDir()
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: datadir.State(data), ReserveBytes: 1}})
	require.NoError(t, err)
	for _, key := range keys {
		_, err := kv.Commit(t.Context(), store, &kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: key, Value: kv.StringValue(key)}}})
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
	return data
}

func TestBackupOfADirectoryAndBack(t *testing.T) {
	data := dataWithKeys(t, "a", "b")
	file := filepath.Join(t.TempDir(), "all.backup")
	r := call(t, "", "backup", "--data", data, file)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^\S+all.backup: revision 2 of \S+, \d+ rows, \d+ bytes, SHA-256 [0-9a-f]{64}\n$`, r.stdout)
	require.Equal(t, exitOK, call(t, "", "backup", "--data", data, file, "-o", "json").code, "a backup is replaced")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r = call(t, string(text), "verify", "-")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^-: revision 2, \d+ rows, 0 documents with 0 versions, no faults\n$`, r.stdout)
	r = call(t, "", "verify", "-o", "json", file)
	require.Regexp(t, `^\{"name":".*","ok":true,"revision":2,"time_ms":\d+,"rows":\d+,"documents":0,"versions":0,"sha256":"[0-9a-f]{64}","faults":\[\]\}\n$`, r.stdout)

	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.MkdirAll(filepath.Join(target, "lost+found"), 0o700))
	r = call(t, "", "restore", file, target, "-o", "json", "--revision", "1")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^\{"dir":".*","revision":1,"next_revision":\d+,"documents":0,"tokens":\[\]\}\n$`, r.stdout)
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: datadir.State(target), ReserveBytes: 1}})
	require.NoError(t, err)
	defer store.Close()
	a, _ := store.Get([]byte("ns"), []byte("a"))
	b, _ := store.Get([]byte("ns"), []byte("b"))
	require.NotNil(t, a)
	require.Nil(t, b)
}

func TestWhatBackupAndRestoreRefuse(t *testing.T) {
	data := dataWithKeys(t, "a")
	dir := t.TempDir()
	file := filepath.Join(dir, "all.backup")
	require.Equal(t, exitOK, call(t, "", "backup", "--data", data, file).code)
	precious := write(t, dir, "precious.txt", "not a backup")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(data, link))
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, err = pack.Write(whole)
	require.NoError(t, errors.Join(err, pack.Close()))
	other := t.TempDir()
	gzipped, zstd, xz := write(t, other, "all.backup.gz", packed.String()), write(t, other, "a.zst", "\x28\xb5\x2f\xfd\x04\x58\x01"), write(t, other, "a.xz", "\xfd7zXZ\x00\x00\x04")
	r := call(t, packed.String(), "verify", "-")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "standard input is compressed with gzip")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"another file":       {[]string{"backup", "--data", data, precious}, exitRefused, "is no backup: it is not replaced"},
		"no directory":       {[]string{"backup", "--data", dir + "/none", file}, exitNotFound, "none"},
		"no data directory":  {[]string{"backup", "--data", dir, file + "2"}, exitNotFound, "no state store"},
		"nowhere":            {[]string{"backup", "--data", data, dir + "/none/file"}, exitFailed, "cannot be written"},
		"both":               {[]string{"backup", "--data", data, "--http", "127.0.0.1:1", file}, exitUsage, "http"},
		"no server":          {[]string{"backup", "--http", "127.0.0.1:1", file + "3"}, exitUnreachable, "--http"},
		"no backup":          {[]string{"restore", precious, dir + "/new"}, exitFailed, "this is no backup"},
		"missing":            {[]string{"restore", dir + "/none", dir + "/new"}, exitNotFound, "none"},
		"a directory":        {[]string{"restore", dir, dir + "/new"}, exitRefused, "is no file"},
		"not empty":          {[]string{"restore", file, dir}, exitRefused, "is not empty: there is"},
		"not empty, linked":  {[]string{"restore", file, link}, exitRefused, "is not empty: there is"},
		"a file":             {[]string{"restore", file, precious}, exitFailed, "precious.txt"},
		"revision 0":         {[]string{"restore", file, dir + "/new", "--revision", "0"}, exitUsage, "must be above 0"},
		"no time":            {[]string{"restore", file, dir + "/new", "--time", "soon"}, exitUsage, "must be a time"},
		"revision and time":  {[]string{"restore", file, dir + "/new", "--time", "2026-01-01", "--revision", "1"}, exitUsage, "revision time"},
		"gone":               {[]string{"restore", file, dir + "/new", "--time", "2001-01-01 12:00"}, exitRefused, "the oldest possible one is 1"},
		"a time, repeated":   {[]string{"restore", file, dir + "/new", "--time", "2001-01-01 12:00"}, exitRefused, "2001-01-01 12:00 is 2001-01-01T12:00:00Z\n"},
		"the future":         {[]string{"restore", file, dir + "/new", "--revision", "9"}, exitRefused, "in the future"},
		"the future's time":  {[]string{"restore", file, dir + "/new", "--time", "2999-01-01T00:00:00Z"}, exitRefused, "2999-01-01T00:00:00Z is later than the backup, which was begun at 2"},
		"verify nothing":     {[]string{"verify", dir + "/none"}, exitNotFound, "none"},
		"verify another":     {[]string{"verify", precious}, exitFailed, "this is no backup"},
		"verify a directory": {[]string{"verify", dir}, exitNotFound, "no state store"},
		"standard input":     {[]string{"restore", "-", dir + "/new"}, exitUsage, "cannot come from standard input"},
		"gzip":               {[]string{"restore", gzipped, dir + "/new"}, exitFailed, "is compressed with gzip: decompress it first, for example with gzip -d"},
		"verify gzip":        {[]string{"verify", gzipped}, exitFailed, "all.backup.gz is compressed with gzip: decompress it first"},
		"zstd":               {[]string{"restore", zstd, dir + "/new"}, exitFailed, "is compressed with zstd"},
		"xz":                 {[]string{"verify", xz}, exitFailed, "is compressed with xz"},
		"backup over gzip":   {[]string{"backup", "--data", data, gzipped}, exitRefused, "all.backup.gz exists and is compressed with gzip: it is not replaced"},
	} {
		r := call(t, "", c.args...)
		require.Equal(t, c.code, r.code, "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, c.want, name)
		require.NoDirExists(t, filepath.Join(dir, "new"), name)
	}
	text, err := os.ReadFile(precious)
	require.NoError(t, err)
	require.Equal(t, "not a backup", string(text))
	names, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Len(t, names, 3, "nothing is left of what was refused: %v", names)
}

// A disk that is full is not told as a fault of the backup.
func TestABackupThatCannotBeWritten(t *testing.T) {
	data, file := dataWithKeys(t, "a"), filepath.Join(t.TempDir(), "all.backup")
	require.NoError(t, os.Symlink("/dev/full", file+".partial"))
	r := call(t, "", "backup", "--data", data, file)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "the backup cannot be written: ")
	require.Contains(t, r.stderr, "no space left on device")

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ccbackup")) }))
	defer server.Close()
	require.NoError(t, os.Symlink("/dev/full", file+"2"+".partial"))
	r = call(t, "", "backup", "--http", server.URL, file+"2")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "no space left on device")
	require.NotContains(t, r.stderr, "no backup")
}

// A server's refusal is told as it was said, and a server that is none is named.
func TestBackupTellsWhatTheServerSays(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host[:strings.IndexByte(r.Host, ':')] {
		case "localhost":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":503,"error":"busy","detail":"2 backups are already being made"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	server := httptest.NewServer(answer)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "f")
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	r := call(t, "", "backup", "--http", "http://localhost:"+port+"/", file)
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.stderr, "2 backups are already being made")
	r = call(t, "", "backup", "--http", "127.0.0.1:"+port, file)
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.stderr, "nothing there makes backups")
	require.NoFileExists(t, file+".partial")
}

// What fails behind the check of the backup leaves the target as it was.
func TestAFailedRestoreLeavesAnEmptyDirectory(t *testing.T) {
	data := dataWithKeys(t, "a")
	file := filepath.Join(t.TempDir(), "all.backup")
	require.Equal(t, exitOK, call(t, "", "backup", "--data", data, file).code)
	target := t.TempDir()
	r := call(t, "", "restore", file, target, "--revision", "7")
	require.Equal(t, exitRefused, r.code)
	list, err := os.ReadDir(target)
	require.NoError(t, err)
	require.Empty(t, list)
}

// The bytes of a format are read for ever: this file was written when format 1 was made.
func TestAnOldBackupIsRestored(t *testing.T) {
	const golden = "testdata/format1.backup"
	target := filepath.Join(t.TempDir(), "target")
	r := call(t, "", "restore", golden, target)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, call(t, "", "verify", target).stdout, "no faults")
}

// A token that was revoked by the end of the backup is of no use again, whichever revision is restored;
// sessions end; and the tokens that are valid are named, since the backup knows of nothing after it.
func TestARestoreBringsBackNoRevokedTokenAndNoSession(t *testing.T) {
	data := t.TempDir()
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: datadir.State(data), ReserveBytes: 1}})
	require.NoError(t, err)
	near := embedded.New(store, nil)
	tokens := token.Open(near, token.Config{})
	made := map[string]*token.Made{}
	for _, name := range []string{"revoked", "valid"} {
		made[name], err = tokens.Make(t.Context(), nil, &token.MakeAsk{Name: name, Groups: []string{"ops"}})
		require.NoError(t, err)
	}
	session := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: token.SessionPrefix + "0123", Value: kv.JSONValue([]byte(`{"who":"person:ann"}`))}
	then, err := kv.Commit(t.Context(), store, &kv.Txn{System: true, Then: []kv.Op{session}})
	require.NoError(t, err)
	_, err = tokens.Revoke(t.Context(), nil, &token.RevokeAsk{ID: made["revoked"].ID})
	require.NoError(t, err)
	_, err = tokens.Make(t.Context(), nil, &token.MakeAsk{Name: "later"})
	require.NoError(t, err)
	near.Close()
	require.NoError(t, store.Close())
	file := filepath.Join(t.TempDir(), "all.backup")
	require.Equal(t, exitOK, call(t, "", "backup", "--data", data, file).code)

	for at, want := range map[string][]string{"": {"later", "valid"}, fmt.Sprint(then.Revision): {"valid"}} {
		dir := filepath.Join(t.TempDir(), "restored")
		args := []string{"restore", file, dir, "-o", "json"}
		if at != "" {
			args = append(args, "--revision", at)
		}
		r := call(t, "", args...)
		require.Equal(t, exitOK, r.code, r.stderr)
		var said struct{ Tokens []token.Token }
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &said))
		var names []string
		for _, token := range said.Tokens {
			names = append(names, token.Name)
		}
		slices.Sort(names)
		require.Equal(t, want, names, at)
		require.Equal(t, exitOK, call(t, "", "verify", dir).code)
		restored, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: datadir.State(dir), ReserveBytes: 1}})
		require.NoError(t, err)
		after := embedded.New(restored, nil)
		again := token.Open(after, token.Config{})
		_, _, err = again.Verify(made["revoked"].Text)
		require.Equal(t, codes.NotIdentified, codes.Of(err), at)
		_, _, err = again.Verify(made["valid"].Text)
		require.NoError(t, err)
		e, _ := restored.Get([]byte(kv.AccessNamespace), []byte(session.Key))
		require.Nil(t, e, at)
		after.Close()
		require.NoError(t, restored.Close())
	}
	r := call(t, "", "restore", file, filepath.Join(t.TempDir(), "restored"))
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "Valid tokens: 2. The backup does not know which were revoked after it")
	require.Contains(t, r.stdout, made["valid"].ID)
}
