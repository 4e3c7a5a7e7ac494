package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	_ "github.com/go-sql-driver/mysql"
)

// mariadb is a MariaDB with a database of its own, which a server can land in.
type mariadb struct {
	*process
	*sql.DB
	dsn string // for the server
}

// startMariaDB starts a MariaDB on all cores. What it has acknowledged survives its own end,
// not that of the machine, as most who run it beside a store set it.
func (g *stage) startMariaDB() *mariadb {
	dir := must(os.MkdirTemp(g.work, "mariadb-"))
	files := []string{"--no-defaults", "--datadir=" + dir + "/data"}
	if os.Geteuid() == 0 {
		files = append(files, "--user=root")
	}
	install := exec.Command(sbin("mariadb-install-db"), append(files, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	// Another MariaDB that starts removes the temporary files that it finds in their usual place.
	temporary := "TMPDIR=" + dir
	install.Env = append(os.Environ(), temporary)
	if out, err := install.CombinedOutput(); err != nil {
		check(fmt.Errorf("mariadb-install-db: %w: on Debian, apt-get install mariadb-server\n%s", err, out))
	}
	socket := dir + "/socket"
	db := &mariadb{dsn: "mysql://root@/bench?socket=" + socket}
	db.DB = must(sql.Open("mysql", "root@unix("+socket+")/?interpolateParams=true&maxAllowedPacket=0"))
	argv := append(g.everywhere(), "env", temporary, sbin("mariadbd"))
	argv = append(append(argv, files...), "--socket="+socket, "--pid-file="+dir+"/pid", "--skip-networking",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M", "--innodb-log-file-size=256M")
	db.process = g.launch("mariadb", socket, func(ctx context.Context, _ string) error { return db.PingContext(ctx) }, argv...)
	db.do("CREATE DATABASE bench")
	return db
}

// sbin finds what Debian does not put into everybody's PATH.
func sbin(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}

// everywhere begins a command line that may use all cores, although its parent may not.
func (g *stage) everywhere() []string {
	if g.core < 0 {
		return nil
	}
	return []string{"taskset", "-c", fmt.Sprintf("%d,%d", serverCore, loadCore)}
}

// do runs a statement.
func (db *mariadb) do(statement string, args ...any) {
	_, err := db.ExecContext(context.Background(), statement, args...)
	check(err)
}

// landedTable is where the fields of app 1 and region 1 are landed.
const landedTable = "bench.`1_1`"

// bareInsert writes all that has been landed once more into a table like it, in statements of
// bareInsert writes rows into a table like the landed one, as many in a statement as landing
// does.
func (db *mariadb) bareInsert(rows [][]any) {
	const atOnce = 1000
	for len(rows) > 0 {
		n := min(atOnce, len(rows))
		one := "(" + strings.Repeat("?,", len(rows[0])-1) + "?)"
		args := make([]any, 0, n*len(rows[0]))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		db.do("INSERT INTO bench.bare VALUES "+strings.Repeat(one+",", n-1)+one, args...)
		rows = rows[n:]
	}
}

// rows are those of the table, as they are inserted.
func (db *mariadb) rows() (all [][]any) {
	found, err := db.QueryContext(context.Background(), "SELECT * FROM "+landedTable)
	check(err)
	defer found.Close()
	columns := must(found.Columns())
	for found.Next() {
		row := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		check(found.Scan(into...))
		all = append(all, row)
	}
	check(found.Err())
	return all
}
