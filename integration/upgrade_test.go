package integration

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/doclog"
	"confcenter/integration/process"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/protocol"
)

// unpack unpacks what the version before has left: its directories, and what it answered to
// GET /v1/config/files before it was killed.
func unpack(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	for list := tar.NewReader(unzipped); ; {
		head, err := list.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(head.Name))
		if head.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		text, err := io.ReadAll(list)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		require.NoError(t, os.Chtimes(path, head.ModTime, head.ModTime))
	}
}

// listedFiles is GET /v1/config/files, without what the version before did not tell.
type listedFiles struct {
	Files []map[string]any
	Last  string
}

func (l *listedFiles) epoch() string {
	epoch, _, _ := strings.Cut(l.Last, "-")
	return epoch
}

func listFiles(t *testing.T, p *Process) (list listedFiles) {
	t.Helper()
	reply, err := http.Get("http://" + p.HTTP + "/v1/config/files")
	require.NoError(t, err)
	defer reply.Body.Close()
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&list))
	for _, file := range list.Files {
		require.Positive(t, file["revision"])
		delete(file, "revision")
		delete(file, "resolved_revision")
	}
	return list
}

// A data directory of the version before, which was killed, is taken over once, with everything
// in it: versions, deletions, what a broken file was last, the epoch and the keys.
func TestUpgradeOfADataDirectoryOfTheVersionBefore(t *testing.T) {
	dir := unpack(t, filepath.Join("testdata", "before.tar.gz"))
	conf, data := filepath.Join(dir, "conf"), filepath.Join(dir, "data")
	text, err := os.ReadFile(filepath.Join(dir, "served.json"))
	require.NoError(t, err)
	var want listedFiles
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want.Files, 7)
	journal, err := os.ReadFile(filepath.Join(data, "config.journal"))
	require.NoError(t, err)

	p := process.New(t, conf)
	p.Data = data
	for range 3 {
		p.Start()
		got := listFiles(t, p)
		require.Equal(t, want.Files, got.Files)
		require.Equal(t, want.epoch(), got.epoch())
		peer := p.Peer()
		require.JSONEq(t, `{"ok":1}`, string(peer.Get("broken.json").Contents), "its last good contents")
		for i := 1; i <= 3; i++ {
			require.Contains(t, peer.Call(protocol.KVGet, fmt.Sprintf(`{"ns":"game","key":"k%d"}`, i)), fmt.Sprintf(`"value":"%d"`, i))
		}
		require.NoFileExists(t, filepath.Join(data, "config.journal"))
		aside, err := os.ReadFile(filepath.Join(data, "config.journal.taken-over-1"))
		require.NoError(t, err)
		require.Equal(t, journal, aside, "the way back")
		require.NoFileExists(t, filepath.Join(data, "config.journal.taken-over-2"))
		p.Kill()
	}

	// Who has gone back for a while and comes again loses nothing of what either version knew.
	require.NoError(t, os.WriteFile(filepath.Join(data, "config.journal"), journal, 0o600))
	p.Start()
	require.Equal(t, want.Files, listFiles(t, p).Files)
	require.FileExists(t, filepath.Join(data, "config.journal.taken-over-2"))
	peer := p.Peer()
	before := peer.Get("set.json").Mtime
	require.Greater(t, peer.Set("set.json", `{"n":3}`), before)
}

// Versions that have reached their end begin again by a command; what the files were stays known.
func TestRenumberOfADataDirectory(t *testing.T) {
	const far = 2130000000 // 2037
	p := StartProcess(t, confWith(t, map[string]string{"a.json": `{"n":2}`}))
	p.Stop()
	store, err := pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: filepath.Join(p.Data, "state"), ReserveBytes: 1}})
	require.NoError(t, err)
	log, err := doclog.Open(t.Context(), store, "")
	require.NoError(t, err)
	_, err = log.Renumber(t.Context(), far) // as with a clock that was wrong
	require.NoError(t, err)
	require.NoError(t, store.Close())
	p.Start()
	peer := p.Peer()
	refused := peer.Call(protocol.SetConfig, `{"filename":"a.json","contents":{"n":3}}`)
	require.Contains(t, refused, "confcenter renumber")
	epoch := listFiles(t, p)
	c := newCLI(t, p)
	c.verb = "renumber"
	code, _, stderr := c.run("", p.Data)
	require.Equal(t, 5, code, stderr)
	p.Stop()
	code, said, stderr := c.run("", p.Data)
	require.Zero(t, code, stderr)
	require.Contains(t, said, "documents are at version")
	p.Start()
	now := listFiles(t, p)
	require.NotEqual(t, epoch.epoch(), now.epoch())
	peer = p.Peer()
	require.JSONEq(t, `{"n":2}`, string(peer.Get("a.json").Contents))
	require.Less(t, peer.Get("a.json").Mtime, int32(far))
	require.Contains(t, peer.Call(protocol.SetConfig, `{"filename":"a.json","contents":{"n":3}}`), `"code":0`)
	c.verb, c.addr = "log", p.Addr
	code, said, stderr = c.run("", "a.json")
	require.Zero(t, code, stderr)
	require.Equal(t, 3, strings.Count(said, "\n"), said)
}
