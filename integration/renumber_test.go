package integration

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/log"
	"confcenter/kvstore/disk"
	"confcenter/protocol"
)

// listedFiles is GET /v1/config/files.
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
	return list
}

// Versions that have reached their end begin again by a command; what the files were stays known.
func TestRenumberOfADataDirectory(t *testing.T) {
	const far = 2130000000 // 2037
	p := StartProcess(t, confWith(t, map[string]string{"a.json": `{"n":2}`}))
	p.Stop()
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(p.Data, "state"), ReserveBytes: 1}})
	require.NoError(t, err)
	log, err := log.Open(t.Context(), store, "")
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
