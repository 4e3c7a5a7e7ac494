package confcenter_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// modules are the directories of this module and of those beside it, as `go list` needs them. The
// Makefile has the same list.
var modules = []string{".", "tools", "integration"}

// What is measured and tested must be what is shipped: a module that two of them need has one
// version, and no workspace raises it.
func TestModulesAgreeOnVersions(t *testing.T) {
	type requirement struct{ Path, Version string }
	in := map[string]map[string]string{}
	language := map[string]bool{}
	for _, dir := range modules {
		var file struct {
			Go      string
			Require []requirement
		}
		require.NoError(t, json.Unmarshal([]byte(goTool(t, dir, "mod", "edit", "-json")), &file))
		require.NotEmpty(t, file.Require, dir)
		language[file.Go] = true
		for _, r := range file.Require {
			if in[r.Path] == nil {
				in[r.Path] = map[string]string{}
			}
			in[r.Path][r.Version] = dir
		}
	}
	require.Len(t, language, 1, "modules name different versions of Go")
	for path, versions := range in {
		require.Len(t, versions, 1, "%s has several versions: %v", path, versions)
	}
	_, err := os.Stat("go.work")
	require.ErrorIs(t, err, os.ErrNotExist, "a workspace would build the product with the versions that its tests need")
	found, err := filepath.Glob("*/go.mod")
	require.NoError(t, err)
	require.Len(t, found, len(modules)-1, "a module that no list has is neither vetted nor tested")
}
