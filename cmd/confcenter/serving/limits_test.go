package serving

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/server/http"
)

func TestConnectionLimit(t *testing.T) {
	cases := []struct {
		name               string
		asked, files, want int
		refused            string
	}{
		{"derived", 0, 20000, 20000 - reservedFiles, ""},
		{"asked", 100, 20000, 100, ""},
		{"exactly all", 1000, 1000 + reservedFiles, 1000, ""},
		{"one too many", 1001, 1000 + reservedFiles, 0, "raise it (ulimit -n) to 1513"},
		{"no room at all", 0, reservedFiles, 0, "leaves none"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := connectionLimit(c.asked, c.files, reservedFiles)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFileLimitIsRaisedToTheHardOne(t *testing.T) {
	files, err := raiseFileLimit()
	require.NoError(t, err)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.Equal(t, limit.Max, limit.Cur)
	require.EqualValues(t, min(limit.Max, 1<<30), files)
}

// HTTP's connections are open files like all others, and are kept apart for it.
func TestShareOfHTTPInOpenFiles(t *testing.T) {
	for _, c := range []struct {
		listen       string
		asked, files int
		want         int
	}{
		{"", 0, 1024, 0}, {"", 10, 1024, 0}, {"127.0.0.1:0", 0, 1024, 256}, {"127.0.0.1:0", 0, 1 << 20, 8192}, {"127.0.0.1:0", 10, 1 << 20, 10},
	} {
		o := httpOptions{Config: http.Config{Listen: c.listen, MaxConnections: c.asked}}
		require.Equal(t, c.want, o.connections(c.files), c)
	}
}
