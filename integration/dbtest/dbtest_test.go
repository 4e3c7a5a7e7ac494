package dbtest_test

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/dbtest"
)

var servers = map[string]func(testing.TB) *dbtest.Server{"MariaDB": dbtest.MariaDB, "PostgreSQL": dbtest.PostgreSQL}

func TestDatabasesAreOfTheirOwn(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			one, other := server(t).Database(t), server(t).Database(t)
			require.NotEqual(t, one, other)
			require.Same(t, server(t), server(t), "one for all tests of the process")
		})
	}
}

func TestAKilledServerKeepsWhatWasCommitted(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			db := s.DB(t)
			for _, statement := range []string{"CREATE SCHEMA kept", "CREATE TABLE kept.t (n INT PRIMARY KEY)", "INSERT INTO kept.t VALUES (1), (2)"} {
				_, err := db.Exec(statement)
				require.NoError(t, err)
			}
			for range 2 {
				s.Kill(t)
				require.Error(t, db.Ping())
				s.Start(t)
			}
			var n int
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM kept.t").Scan(&n))
			require.Equal(t, 2, n)
			for _, statement := range []string{"DROP TABLE kept.t", "DROP SCHEMA kept"} {
				_, err := db.Exec(statement)
				require.NoError(t, err)
			}
		})
	}
}

// The process that panics is this test's own program, which runs TestPanics only.
func TestNothingIsLeftOfAProcessThatPanics(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanics$")
	cmd.Env = append(os.Environ(), panics+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var dirs []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if dir, ok := strings.CutPrefix(lines.Text(), "directory "); ok {
			dirs = append(dirs, dir)
		}
	}
	require.Error(t, cmd.Wait())
	require.Len(t, dirs, 2)
	for _, dir := range dirs {
		require.Eventually(t, func() bool {
			_, err := os.Stat(dir)
			return errors.Is(err, fs.ErrNotExist)
		}, time.Minute, 10*time.Millisecond, dir)
	}
}

const panics = "DBTEST_PANICS"

func TestPanics(t *testing.T) {
	if os.Getenv(panics) == "" {
		return
	}
	for _, server := range servers {
		_, _ = os.Stdout.WriteString("directory " + server(t).Dir() + "\n")
	}
	panic("as a test may")
}
