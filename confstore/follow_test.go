package confstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStoreFollowsTheDirectoryWhateverHappens does random things to a directory
// tree, faster than events settle, and in the end the store must serve what is
// there. Only events tell it: the next scan is far away.
func TestStoreFollowsTheDirectoryWhateverHappens(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			k := &kit{t: t, cfg: Config{
				Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), ScanPeriod: time.Hour,
				RemoveDelay: 5 * time.Millisecond, ReplaceGrace: 10 * time.Millisecond, BreakDelay: 5 * time.Millisecond,
			}}
			require.NoError(t, os.Mkdir(k.cfg.Dir, 0o755))
			k.open()
			random := rand.New(rand.NewPCG(seed, 7))
			for round := range 8 {
				for range 25 {
					disturb(k, random)
				}
				k.follows(round)
			}
		})
	}
}

var places = []string{".", "d", "d/e", "f"}

// disturb does one thing; that it cannot be done is fine.
func disturb(k *kit, random *rand.Rand) {
	pick := func() string { return places[random.IntN(len(places))] }
	file := func() string { return k.path(filepath.Join(pick(), fmt.Sprintf("%d.json", random.IntN(5)))) }
	switch random.IntN(16) {
	case 0, 1, 2, 3:
		_ = os.WriteFile(file(), fmt.Append(nil, random.IntN(1000)), 0o644)
	case 4:
		_ = os.WriteFile(file(), []byte(`{"broken`), 0o644)
	case 5, 6:
		_ = os.Remove(file())
	case 7, 8:
		_ = os.Rename(file(), file())
	case 9, 10:
		_ = os.MkdirAll(k.path(pick()), 0o755)
	case 11:
		_ = os.Rename(k.path(pick()), k.path(pick()))
	case 12:
		if dir := pick(); dir != "." {
			_ = os.RemoveAll(k.path(dir))
		}
	case 13:
		_ = os.Symlink(fmt.Sprintf("%d.json", random.IntN(5)), file())
	case 14:
		_ = os.Symlink("d", k.path("f"))
	case 15:
		_ = os.Rename(k.cfg.Dir, k.path("../away"))
		_ = os.Rename(k.path("../away"), k.cfg.Dir)
	}
}

// follows waits until the live documents are the good files.
func (k *kit) follows(round int) {
	k.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		want, have := k.goodFiles(), k.served()
		if fmt.Sprint(want) == fmt.Sprint(have) {
			return
		}
		if time.Now().After(deadline) {
			require.Equal(k.t, want, have, "round %d\n%s", round, k.waits())
		}
		select {
		case <-k.batches:
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// goodFiles reads the tree as a person would understand it. A broken file is
// marked, because its last good version may be served.
func (k *kit) goodFiles() map[string]string {
	out := map[string]string{}
	for _, dir := range []string{".", "d", "d/e", "f", "f/e"} {
		entries, err := os.ReadDir(k.path(dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			text, err := os.ReadFile(k.path(name))
			if info, statErr := os.Stat(k.path(name)); err != nil || statErr != nil || !info.Mode().IsRegular() {
				continue
			}
			out[name] = string(text)
			if string(text) == `{"broken` {
				delete(out, name)
			}
		}
	}
	return out
}

// served are the documents whose files are good.
func (k *kit) served() map[string]string {
	out := map[string]string{}
	s := k.Snapshot()
	for _, name := range s.Names() {
		if n := s.Node(name); !n.Deleted() && n.Broken() == "" {
			out[name] = textOf(n, false)
		}
	}
	return out
}
