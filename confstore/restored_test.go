package confstore

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

// restore has the next open find a data directory that was just restored, with the documents of
// the store so far, and a configuration directory with other files.
func (k *kit) restore(files map[string]string) {
	k.t.Helper()
	require.NoError(k.t, k.Close())
	base := k.t.TempDir()
	k.cfg.Dir, k.cfg.DataDir = filepath.Join(base, "conf"), filepath.Join(base, "data")
	require.NoError(k.t, os.Mkdir(k.cfg.Dir, 0o755))
	require.NoError(k.t, os.Mkdir(k.cfg.DataDir, 0o755))
	require.NoError(k.t, os.WriteFile(filepath.Join(k.cfg.DataDir, RestoredMark), nil, 0o600))
	k.cfg.State = anotherStore{k.cfg.State}
	for name, text := range files {
		k.put(name, text)
	}
	k.open()
}

// anotherStore has the contents of a store, but is another.
type anotherStore struct{ State }

func (s anotherStore) Identity() string { return s.State.Identity() + "'" }

// onDiskBelow reads all files below a directory.
func onDiskBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	}))
	return files
}

func TestARestoredStoreFillsAnEmptyDirectory(t *testing.T) {
	was := map[string]string{"a.json": `{"a":1}`, "b/c.json": "{\n\"c\": 1 }\n", "_meta.json": `{"inherit":{"a.json":["b/c.json"]}}`}
	k := newKit(t, was)
	epoch, served := k.Epoch(), k.Snapshot().Node("a.json").Mtime(true)
	k.restore(nil)
	require.Equal(t, was, onDiskBelow(t, k.cfg.Dir))
	require.NotEqual(t, epoch, k.Epoch())
	require.Greater(t, k.Snapshot().Node("a.json").Mtime(true), served)
	require.NoFileExists(t, filepath.Join(k.cfg.DataDir, RestoredMark))
	epoch, served = k.Epoch(), k.Snapshot().Node("a.json").Mtime(true)
	k.reopen()
	require.Equal(t, epoch, k.Epoch())
	require.GreaterOrEqual(t, k.Snapshot().Node("a.json").Mtime(true), served)
}

// What is found is as it was after the backup: the backup counts, and nothing is lost.
func TestARestoredStoreSetsOtherFilesAside(t *testing.T) {
	k := newKit(t, map[string]string{"same.json": `{"a":1}`, "other.json": `{"a":1}`, "gone.json": `{}`})
	require.NoError(t, os.Remove(k.path("gone.json")))
	k.all("gone.json")
	k.restore(map[string]string{"same.json": `{"a":1}`, "other.json": `{"a":2}`, "gone.json": `{"a":3}`, "dir/new.json": `{"a":4}`, "torn.json": `{"a":`, "README": "people's"})
	require.Equal(t, map[string]string{"same.json": `{"a":1}`, "other.json": `{"a":1}`, "README": "people's"}, onDiskBelow(t, k.cfg.Dir))
	aside := map[string]bool{}
	for _, text := range onDiskBelow(t, filepath.Join(k.cfg.DataDir, asideDir)) {
		aside[text] = true
	}
	require.Equal(t, map[string]bool{`{"a":2}`: true, `{"a":3}`: true, `{"a":4}`: true, `{"a":`: true}, aside)
	text, _ := k.Snapshot().Node("other.json").Contents(false)
	require.Equal(t, `{"a":1}`, string(text))
	require.True(t, k.Snapshot().Node("gone.json").Deleted())
	require.Nil(t, k.Snapshot().Node("dir/new.json"))
	k.none()
}

// A document that cannot be set aside is not removed either.
func TestARestoredStoreRemovesNothingThatItCannotKeep(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	require.NoError(t, k.Close())
	require.NoError(t, os.WriteFile(filepath.Join(k.cfg.DataDir, RestoredMark), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(k.cfg.DataDir, asideDir), nil, 0o600))
	k.put("new.json", `{"new":1}`)
	_, err := Open(k.cfg)
	require.ErrorContains(t, err, "new.json")
	require.FileExists(t, k.path("new.json"))
	require.NoError(t, os.Remove(filepath.Join(k.cfg.DataDir, asideDir)))
	k.open()
	require.NoFileExists(t, k.path("new.json"))
}

// A backup is not to be trusted: its documents have any names.
func TestARestoredStoreWritesNothingElsewhere(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"mine":1}`})
	doc, _ := k.cfg.State.Get([]byte(kv.ConfigNamespace), []byte("doc/a.json"))
	page, err := k.cfg.State.ListArchive(context.Background(), kv.List{NS: kv.ConfigNamespace + "/versions"})
	require.NoError(t, err)
	for _, name := range []string{"../x.json", "/tmp/x.json", "b/../../x.json", ".x.json", "link/x.json", "dir.json"} {
		txn := &kv.Txn{System: true, Then: []kv.Op{
			{Kind: kv.OpPut, NS: kv.ConfigNamespace, Key: "doc/" + name, Value: doc.Value},
			{Kind: kv.OpPut, NS: kv.ConfigNamespace + "/versions", Key: name + "//0000000001", Value: page.Entries[0].Value},
		}}
		_, err := kv.Commit(context.Background(), k.cfg.State, txn)
		require.NoError(t, err)
	}
	outside := t.TempDir()
	require.NoError(t, k.Close())
	require.NoError(t, os.Symlink(outside, k.path("link")))
	require.NoError(t, os.Mkdir(k.path("dir.json"), 0o755))
	require.NoError(t, os.Remove(k.path("a.json")))
	require.NoError(t, os.WriteFile(filepath.Join(k.cfg.DataDir, RestoredMark), nil, 0o600))
	before := onDiskBelow(t, filepath.Dir(k.cfg.Dir))
	k.open()
	after := onDiskBelow(t, filepath.Dir(k.cfg.Dir))
	for name := range after {
		if name != "conf/a.json" && filepath.Dir(name) != "data" {
			require.Contains(t, before, name)
		}
	}
	require.Empty(t, onDiskBelow(t, outside))
	require.FileExists(t, k.path("a.json"))
}

func TestARestoredDocumentIsNewerThanAnythingAClientHasSeen(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"a":1}`})
	k.touch("a.json", time.Now().Add(time.Hour).Unix())
	k.restore(nil)
	first := k.Snapshot().Node("a.json").Mtime(true)
	k.restore(nil)
	require.Greater(t, k.Snapshot().Node("a.json").Mtime(true), first)
}
