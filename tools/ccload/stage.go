package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// stage is where a group of the benchmark runs: a loop with its connections, and
// servers. A group opens what it needs; clear closes everything.
type stage struct {
	loop    *loop
	core    int    // the servers'; below 0 if there is only one
	binary  string // confcenter
	work    string // directory for the servers' files
	servers []*process
}

// clear closes all connections and stops all servers.
func (g *stage) clear() {
	g.loop.closeAll(g.loop.conns)
	for _, p := range slices.Backward(g.servers) {
		p.stop()
	}
	g.servers = nil
}

// dial opens n identified connections.
func (g *stage) dial(addr string, n int) []*conn { return must(g.loop.identify(addr, n, false)) }

func (g *stage) dialUrgent(addr string, n int) []*conn { return must(g.loop.identify(addr, n, true)) }

// launch starts a server on the servers' core and waits until it is ready.
func (g *stage) launch(name, addr string, knock knock, argv ...string) *process {
	p := must(startProcess(g.core, g.work, name, addr, argv))
	g.servers = append(g.servers, p)
	check(p.ready(g.loop.ctx, addr, knock))
	return p
}

// served is a real server with its directories.
type served struct {
	*process
	conf, data string
	flags      []string
	under      []string // program and arguments that start it
}

// prepare makes the directories of a server with n small documents, without starting
// it.
func (g *stage) prepare(n int, flags ...string) *served {
	dir := must(os.MkdirTemp(g.work, "server-"))
	s := &served{conf: filepath.Join(dir, "conf"), data: filepath.Join(dir, "data"), flags: flags}
	check(writeFiles(s.conf, n))
	return s
}

// start starts a prepared server and waits until it answers.
func (g *stage) start(s *served) {
	addr := must(freeAddr())
	argv := append(slices.Clone(s.under), g.binary, "serve", "--listen", addr, "--http=", "--conf", s.conf, "--data", s.data, "--log-level", "warn")
	s.process = g.launch("confcenter", addr, greet, append(argv, s.flags...)...)
}

// serve prepares and starts a server.
func (g *stage) serve(n int, flags ...string) *served {
	s := g.prepare(n, flags...)
	g.start(s)
	return s
}

// serveHTTP is serve with HTTP, whose address it returns.
func (g *stage) serveHTTP(flags ...string) (s *served, addr string) {
	s = g.prepare(1, flags...)
	return s, g.startHTTP(s)
}

// startHTTP is start with HTTP, whose address it returns.
func (g *stage) startHTTP(s *served) (addr string) {
	addr = must(freeAddr())
	s.flags = append(s.flags, "--http", addr)
	g.start(s)
	check(s.ready(g.loop.ctx, addr, connect))
	return addr
}

// bare starts the ceiling server, which answers with bodies of size bytes.
func (g *stage) bare(size int) *process {
	addr := must(freeAddr())
	return g.launch("ceiling", addr, greet, must(os.Executable()), "ceiling", "--listen", addr, "--reply-size", strconv.Itoa(size))
}

// bareHTTP starts a server that answers every request with body.
func (g *stage) bareHTTP(body []byte) *process {
	addr := must(freeAddr())
	return g.launch("ceiling-http", addr, connect, must(os.Executable()), "ceiling", "--listen", addr, "--http", string(body))
}

// startInstalled starts a program from a Debian package.
func (g *stage) startInstalled(name, addr string, argv ...string) *process {
	if _, err := exec.LookPath(argv[0]); err != nil {
		check(fmt.Errorf("%w: on Debian, apt-get install redis-server redis-tools etcd-server mariadb-server", err))
	}
	return g.launch(name, addr, connect, argv...)
}
