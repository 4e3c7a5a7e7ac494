// Package dbtest gives tests real databases: a MariaDB and a PostgreSQL of their own, which
// Debian's packages bring (make packages). Each is started when a test first asks for it,
// in a temporary directory and on a socket there, with settings that are quick and yet lose
// nothing when the server is killed. It ends with the test's process, however that ends.
//
// Start with [MariaDB] and [Server.Database].
package dbtest

import (
	"bufio"
	"context"
	"database/sql"
	_ "embed" // for keeper
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/go-sql-driver/mysql" // the databases' drivers
	_ "github.com/jackc/pgx/v5/stdlib"
)

// Server is one instance of a database server. Its methods may be called by one test at
// a time.
type Server struct {
	make  func(dir string) *exec.Cmd                         // prepares the directory, set at open
	run   func(dir string) []string                          // the server's command, set at open
	admin func(dir string) (driver, name string)             // how to connect to it, set at open
	named func(dir, database string) (dsn, statement string) // set at open
	says  func(dir string) bool                              // whether it says that it is ready; may be nil

	start     sync.Once
	err       error // of the start, set once
	dir       string
	orders    io.Writer     // to the keeper
	answers   *bufio.Reader // from the keeper
	databases atomic.Int64
}

// MariaDB is the test process's own MariaDB.
func MariaDB(t testing.TB) *Server { return mariadb.started(t) }

// CaselessMariaDB is another MariaDB of the test process's, whose names of tables have no case, as
// on Windows.
func CaselessMariaDB(t testing.TB) *Server { return caseless.started(t) }

// PostgreSQL is the test process's own PostgreSQL.
func PostgreSQL(t testing.TB) *Server { return postgres.started(t) }

var mariadb, caseless = newMariaDB(), newMariaDB("--lower-case-table-names=1")

func newMariaDB(flags ...string) *Server {
	return &Server{
		make: func(dir string) *exec.Cmd {
			return exec.Command(program("mariadb-install-db"), append([]string{"--no-defaults", "--datadir=" + dir + "/data",
				"--auth-root-authentication-method=normal", "--skip-test-db"}, flags...)...)
		},
		run: func(dir string) []string {
			return append([]string{program("mariadbd"), "--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/socket", "--pid-file=" + dir + "/pid",
				"--skip-networking", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"}, flags...)
		},
		admin: func(dir string) (string, string) { return "mysql", "root@unix(" + dir + "/socket)/" },
		named: func(dir, database string) (string, string) {
			return "mysql://root@/" + database + "?socket=" + dir + "/socket", "CREATE DATABASE " + database
		},
	}
}

var postgres = &Server{
	make: func(dir string) *exec.Cmd {
		return exec.Command(program("initdb"), "--pgdata="+dir+"/data", "--auth=trust", "--username=root", "--encoding=UTF8", "--locale=C", "--no-sync")
	},
	run: func(dir string) []string {
		return []string{program("postgres"), "-D", dir + "/data", "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100"}
	},
	admin: func(dir string) (string, string) {
		return "pgx", "user=root dbname=postgres sslmode=disable host=" + dir
	},
	named: func(dir, database string) (string, string) {
		return "postgres://root@/" + database + "?sslmode=disable&host=" + dir, "CREATE DATABASE " + database
	},
	says: func(dir string) bool {
		state, _ := os.ReadFile(dir + "/data/postmaster.pid")
		return strings.Contains(string(state), "\nready")
	},
}

// program finds what Debian does not put into everyone's PATH.
func program(name string) string {
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/", "/usr/bin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return name // and PATH has it, or the error names it
}

func (s *Server) started(t testing.TB) *Server {
	t.Helper()
	s.start.Do(func() { s.err = s.open() })
	require.NoError(t, s.err, "the packages mariadb-server and postgresql must be installed: make packages")
	return s
}

// patience is how long a server may take to start.
const patience = time.Minute

func (s *Server) open() error {
	dir, err := os.MkdirTemp("", "dbtest-")
	if err != nil {
		return err
	}
	s.dir = dir
	// In a session of its own, so that ^C ends the test first, and the test's end hangs
	// up no server.
	attributes := &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 { // which the servers refuse to run as
		const nobody = 65534
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return err
		}
	}
	prepare := s.make(dir)
	prepare.Dir, prepare.Env, prepare.SysProcAttr = dir, s.environment(), attributes
	if out, err := prepare.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("%s: %w\n%s", prepare.Path, err, out)
	}
	if err := s.keep(attributes); err != nil {
		return err
	}
	return s.ready()
}

// environment has a directory for temporary files of its own: MariaDB removes those that it
// finds when it starts, also if another server has just made them.
func (s *Server) environment() []string { return append(os.Environ(), "TMPDIR="+s.dir) }

// keeper runs the server and does what it is told. It outlives this process by a moment:
// at the end of its input it kills the server and removes the directory.
//
//go:embed keeper.sh
var keeper string

func (s *Server) keep(attributes *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/sh", append([]string{"-c", keeper, "keeper", s.dir}, s.run(s.dir)...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", s.environment(), attributes
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.orders, s.answers = orders, bufio.NewReader(answers)
	return cmd.Start()
}

// ready waits until the server takes connections. PostgreSQL says so in a file, so that it need
// not be disturbed while it recovers.
func (s *Server) ready() error {
	db, err := sql.Open(s.admin(s.dir))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		if s.says == nil || s.says(s.dir) {
			if err = db.PingContext(ctx); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
			said, _ := os.ReadFile(s.dir + "/log")
			return fmt.Errorf("the database did not start: %w\n…%s", err, said[max(0, len(said)-2000):])
		case <-look.C:
		}
	}
}

// Database makes an empty database and returns its DSN as the landing takes it.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	dsn, statement := s.named(s.dir, fmt.Sprintf("test%d", s.databases.Add(1)))
	_, err := s.DB(t).Exec(statement)
	require.NoError(t, err)
	return dsn
}

// DB connects as the server's administrator, until the test ends.
func (s *Server) DB(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.admin(s.dir))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the server may have been killed
	return db
}

// Dir is the server's directory. Anyone may read its file log.
func (s *Server) Dir() string { return s.dir }

// Kill ends the server as kill -9 does: with all of its processes, in the middle of
// whatever they do. What was committed is still there after Start.
func (s *Server) Kill(t testing.TB) { s.order(t, "kill") }

// Start starts a killed server again and waits until it takes connections. It must be
// called before the test ends, for the sake of the others.
func (s *Server) Start(t testing.TB) {
	s.order(t, "start")
	require.NoError(t, s.ready())
}

func (s *Server) order(t testing.TB, order string) {
	t.Helper()
	_, err := io.WriteString(s.orders, order+"\n")
	require.NoError(t, err)
	answer, err := s.answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, order+"\n", answer)
}
