package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/player/landing"
)

// A watch of fields outlives the server and its data: it is told to begin again, what only the
// database has is no part of its state, and loading that is no change.
func TestStorageChangeNotificationAfterALostDataDirectory(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "players.db")
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"), []byte(`{"homo.dirty.landing.delayTime":20}`), 0o644))
	d, err := landing.OpenDatabase(dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	p := StartProcess(t, conf, "--landing", dsn)
	bag, done := bagOf(t, p)
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), 3*servertest.Patience)
	defer cancel()
	set := func(name, value string) {
		_, err := bag.Update(ctx, map[string][]byte{name: []byte(value)})
		require.NoError(t, err)
	}
	w, err := bag.Watch(ctx, client.WatchOptions{})
	require.NoError(t, err)
	defer w.Stop()
	// next is what comes until there is a change, or a state is complete.
	next := func() (kinds []kv.NoticeKind, changes []client.FieldChange) {
		for {
			n, err := w.Next(ctx)
			require.NoError(t, err, "after %v", kinds)
			kinds = append(kinds, n.Kind)
			changes = append(changes, n.Changes...)
			if n.Kind == kv.Synced || len(n.Changes) > 0 {
				return kinds, changes
			}
		}
	}

	set("gold", "1")
	kinds, changes := next()
	require.Equal(t, []kv.NoticeKind{kv.Changed}, kinds)
	require.Len(t, changes, 1)
	landsIn(t, d, map[string]string{"gold": "1"})
	p.Kill()
	require.NoError(t, os.RemoveAll(p.Data))
	other := process.New(t, conf, "--landing", dsn, "--landing-moved") // as its store is another one
	other.Data, other.Addr = p.Data, p.Addr
	other.Start()
	kinds, changes = next()
	require.Equal(t, []kv.NoticeKind{kv.Resync, kv.Synced}, kinds)
	require.Empty(t, changes, "it is cold")
	all, err := bag.All(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"gold": []byte("1")}, all)
	set("name", "Ann")
	_, changes = next()
	require.Len(t, changes, 1)
	require.Equal(t, "name", changes[0].Name, "not gold, which was only loaded")
}
