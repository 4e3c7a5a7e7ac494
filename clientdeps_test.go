package confcenter_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that imports client must not come to need the server's libraries: "go mod
// tidy" follows the tests of every package in client's closure.
func TestUsersOfClientNeedNoServer(t *testing.T) {
	closure := strings.Fields(goTool(t, ".", "list", "-deps", "./client"))
	own := slices.DeleteFunc(closure, func(name string) bool { return !within(name, module) })
	require.Contains(t, own, module+"/client")
	var wrong []string
	for _, needed := range strings.Fields(goTool(t, ".", append([]string{"list", "-deps", "-test"}, own...)...)) {
		if library := serverLibrary(needed); library != "" {
			wrong = append(wrong, "client or a test in its closure needs "+needed+"; move the test out, as to integration/client")
		}
	}
	complain(t, wrong)
}

// serverLibrary is the library a package belongs to if users of client are spared
// that, empty otherwise.
func serverLibrary(name string) string {
	for _, library := range []string{"github.com/panjf2000/gnet/v2", "github.com/cockroachdb/pebble/v2", "github.com/fsnotify/fsnotify", module + "/server", module + "/kvstore/disk"} {
		if within(name, library) {
			return library
		}
	}
	return ""
}

// The same in someone else's module, tidied with what this machine has.
func TestTidyModuleOfAUserOfClientNeedsNoServer(t *testing.T) {
	root, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/user\n\ngo 1.26.0\n\nrequire confcenter v0.0.0\n\nreplace confcenter => " + root + "\n",
		"main.go": `package main

import (
	"context"

	"confcenter/client"
)

func main() { client.Dial(context.Background(), client.Config{}) }
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	// Tidying looks at modules that nothing of ours is built from. What cannot be had is told by what follows.
	fetch := exec.CommandContext(t.Context(), "go", "mod", "download")
	fetch.Dir = root
	_ = fetch.Run()
	goTool(t, dir, "mod", "tidy", "-e") // -e: libraries have tests whose needs this machine may lack
	goTool(t, dir, "build", "-o", os.DevNull, ".")
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), "json-iterator", "it has been tidied")
		require.NotContains(t, string(text), "gnet")
		require.NotContains(t, string(text), "pebble")
	}
}

// goTool runs the go command in dir with the module cache alone and gives its output.
func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %v: %s", args, &stderr)
	return string(out)
}
