package confstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// fakeGit has a script found in place of git, with the real one as $REAL.
func fakeGit(t *testing.T, script string) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// newCommitted is a store that is not open yet, with a file in a commit.
func newCommitted(t *testing.T) (k *kit, commit string) {
	k = newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	return k, k.commit("first")
}

func TestNothingWaitsForGit(t *testing.T) {
	k, _ := newCommitted(t)
	base := t.TempDir()
	running := filepath.Join(base, "running")
	k.cfg.GitPatience = 500 * time.Millisecond
	var log bytes.Buffer
	k.cfg.Log = zerolog.New(&log)
	path := os.Getenv("PATH")
	fakeGit(t, fmt.Sprintf("echo $$ >>%s\nsleep 1000 &\nwait\n", running))
	began := time.Now()
	k.open()
	for i := range 5 {
		k.put("a.json", fmt.Sprintf(`{"v":"%d"}`, i))
		k.all("a.json")
	}
	_, err := os.Stat(running)
	k.await("git to be run", func() bool { _, err = os.Stat(running); return err == nil })
	k.await("git to be ended", func() bool { return k.Stats().GitFailed > 0 })
	require.GreaterOrEqual(t, time.Since(began), k.cfg.GitPatience)
	require.Equal(t, byOwner(t), k.by("a.json"))
	require.Positive(t, k.Stats().Uncommitted)
	require.Positive(t, k.Stats().GitAsked)

	t.Setenv("PATH", path)
	commit := k.commit("in time")
	k.becomes("a.json", byAda(commit, "in time"))
	fakeGit(t, "sleep 1000\n")
	k.put("a.json", `{"v":2}`)
	k.all("a.json")
	require.NoError(t, k.Close(), "which ends git")
	require.Contains(t, log.String(), "git did not say with which commits files came, so they are their owners': it has taken longer than 500ms")
}

func TestWithoutGitFilesAreTheirOwners(t *testing.T) {
	k, _ := newCommitted(t)
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	var log bytes.Buffer
	k.cfg.Log = zerolog.New(&log)
	k.open()
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.put("a.json", `{"v":2}`)
	k.all("a.json")
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"))
	require.Zero(t, k.Stats().GitFailed)
	t.Setenv("PATH", path)
	k.becomes("a.json", byAda(k.commit("second"), "second"))
	require.NoError(t, k.Close())
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("there is no git to ask")), "it is said once")
}

// Git is asked once for files that come together, however many they are.
func TestGitIsAskedOnceABatch(t *testing.T) {
	k, first := newCommitted(t)
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprintf("%03d.json", i))
		k.put(want[i], `{}`)
	}
	many := k.commit("many")
	k.git("checkout", "--quiet", first)
	k.open()
	k.becomes("a.json", byAda(first, "first"))
	asked := k.Stats().GitAsked
	k.git("checkout", "--quiet", many)
	require.Equal(t, want, names(k.next()))
	k.becomes("299.json", byAda(many, "many"))
	k.becomes("000.json", byAda(many, "many"))
	require.Equal(t, asked+1, k.Stats().GitAsked)
}

// A repository whose owner may not have changed the files is not asked.
func TestARepositoryOfAStrangerIsNotAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root may give a repository away
	}
	k, first := newCommitted(t)
	require.NoError(t, os.Chown(k.path(".git"), 7003, -1))
	ran := filepath.Join(t.TempDir(), "ran")
	fakeGit(t, "touch "+ran+"\nexit 1\n")
	require.NoError(t, os.Chown(k.cfg.Dir, 7001, -1))
	k.open()
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"))
	require.NoFileExists(t, ran)
	require.NotEmpty(t, first)
}
