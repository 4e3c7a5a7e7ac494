package main

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	_ "github.com/go-sql-driver/mysql"
)

// redis starts a Redis that acknowledges what is on the disk and does nothing else meanwhile:
// no snapshots, no rewriting of its log. The rivals let redis-benchmark write for about one slice.
func (b *bench) redis() func(depth int) *rival {
	addr := freeAddr()
	host, port, err := net.SplitHostPort(addr)
	check(err)
	p := b.launch(addr, connect, "redis-server", "--port", port, "--bind", host, "--dir", b.work,
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--save", "", "--daemonize", "no")
	return func(depth int) *rival {
		write := func(n int) float64 {
			return must(redisRate(must(exec.CommandContext(b.ctx, "redis-benchmark", "-h", host, "-p", port, "-t", "set", "-c", strconv.Itoa(kvConns), "-P", strconv.Itoa(depth),
				"-n", strconv.Itoa(n), "-r", strconv.Itoa(b.of(keys)), "-d", strconv.Itoa(kvValueSize), "--csv").Output())))
		}
		rate := write(kvConns * depth * 10)
		return &rival{pid: p.pid, waits: true, run: func() sample { return sample{rate: write(max(kvConns*depth, int(rate*b.slice.Seconds())))} }}
	}
}

// redisRate finds the requests per second in the output of redis-benchmark --csv.
func redisRate(out []byte) (float64, error) {
	_, rest, _ := strings.Cut(string(out), `"SET","`)
	rate, _, _ := strings.Cut(rest, `"`)
	return strconv.ParseFloat(rate, 64)
}

// mariadb is a MariaDB with a database of its own, which a server can land in.
type mariadb struct {
	*sql.DB
	dsn string // for the server
}

// startMariaDB starts a MariaDB on all cores. What it has acknowledged survives its own end,
// not that of the machine, as most who run it beside a store set it.
func (g *stage) startMariaDB() *mariadb {
	check(os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")) // where Debian has what is not for everyone
	dir := must(os.MkdirTemp(g.work, "mariadb-"))
	files := []string{"--no-defaults", "--datadir=" + dir + "/data"}
	if os.Geteuid() == 0 {
		files = append(files, "--user=root")
	}
	install := exec.Command("mariadb-install-db", append(files, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	// Another MariaDB that starts removes the temporary files that it finds in their usual place.
	temporary := "TMPDIR=" + dir
	install.Env = append(os.Environ(), temporary)
	if out, err := install.CombinedOutput(); err != nil {
		check(fmt.Errorf("mariadb-install-db: %w: on Debian, apt-get install mariadb-server\n%s", err, out))
	}
	socket := dir + "/socket"
	db := &mariadb{dsn: "mysql://root@/bench?socket=" + socket}
	db.DB = must(sql.Open("mysql", "root@unix("+socket+")/?interpolateParams=true&maxAllowedPacket=0"))
	argv := append(g.everywhere(), "env", temporary, "mariadbd")
	g.launch(socket, func(string) error { return db.Ping() }, append(append(argv, files...), "--socket="+socket, "--pid-file="+dir+"/pid", "--skip-networking",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M", "--innodb-log-file-size=256M")...)
	db.do("CREATE DATABASE bench")
	return db
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
	_, err := db.Exec(statement, args...)
	check(err)
}

// landedTable is where the fields of app 1 and region 1 are landed.
const landedTable = "bench.`1_1`"
