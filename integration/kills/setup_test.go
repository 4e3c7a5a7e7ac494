package kills

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/integration/process"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		process.RemoveBinary()
		os.Exit(code)
	}))
}

// emptyConf is a directory to serve that has no document.
func emptyConf(t *testing.T) string {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	return conf
}
