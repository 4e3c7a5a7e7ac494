package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kvstore/backup"
)

// readBackup reads a backup, and returns the first error.
func readBackup(from io.Reader) (backup.Totals, error) {
	return backup.Read(from, func(backup.Head) error { return nil }, func(_, _ []byte) error { return nil })
}

// fillStore writes so much that no socket holds it.
func (k *kit) fillStore() {
	k.t.Helper()
	for i := range 40 {
		_, err := k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "n", Key: fmt.Sprint(i), Value: kv.StringValue(strings.Repeat("x", kv.MaxValue))}}})
		require.NoError(k.t, err)
	}
}

func TestBackupIsTheWholeStore(t *testing.T) {
	k := start(t, nil)
	_, err := k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "n", Key: "a", Value: kv.StringValue("1")}}})
	require.NoError(t, err)
	a := k.get("/v1/backup")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/octet-stream", a.header.Get("Content-Type"))
	totals, err := readBackup(strings.NewReader(a.body))
	require.NoError(t, err)
	require.Equal(t, k.state.Revision(), totals.Head.Revision)
	require.EqualValues(t, len(a.body), totals.Bytes)
	require.Equal(t, fmt.Sprintf(`attachment; filename="confcenter-%d.backup"`, totals.Head.Revision), a.header.Get("Content-Disposition"))
	require.Contains(t, a.body, "\x01n\x01a", "the newest transaction")
}

// Writers go on while a client takes a backup and does not read it. One that takes nothing at all is
// disconnected, and then knows that the file is not complete.
func TestAReaderOfABackupThatIsSlowHoldsUpNobody(t *testing.T) {
	k := start(t, func(c *Config, _ *Stores) { c.WriteTimeout = 500 * time.Millisecond })
	k.fillStore()
	var slow []*http.Response
	for range maxBackups {
		reply, err := k.client.Get(k.url + "/v1/backup")
		require.NoError(t, err)
		defer reply.Body.Close()
		slow = append(slow, reply)
	}
	held := k.cfg.Memory.Streams.Held()
	require.GreaterOrEqual(t, held, int64(maxBackups*backupRoom))
	refused := k.get("/v1/backup")
	require.Equal(t, 503, refused.status)
	require.Contains(t, refused.body, "2 backups are already being made")
	_, err := k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "n", Key: "a", Value: kv.StringValue("1")}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.streams.count() == 0 }, patience, time.Millisecond)
	require.Zero(t, k.cfg.Memory.Streams.Held())
	require.EqualValues(t, maxBackups, k.sse.Unread.Load())
	for _, reply := range slow {
		text, err := io.ReadAll(reply.Body)
		require.Error(t, err, "the connection is broken, not closed")
		_, err = readBackup(bytes.NewReader(text))
		require.ErrorContains(t, err, "incomplete")
	}
	// This one need not be read in time, only begun.
	reply, err := k.client.Get(k.url + "/v1/backup")
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, 200, reply.StatusCode)
}

func TestABackupEndsWithTheServer(t *testing.T) {
	k := start(t, nil)
	k.fillStore()
	reply, err := k.client.Get(k.url + "/v1/backup")
	require.NoError(t, err)
	defer reply.Body.Close()
	k.stop()
	_, err = readBackup(reply.Body)
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF))
}
