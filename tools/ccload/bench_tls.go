package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"confcenter/internal/authority"
)

// secureSubscribers is how many subscribers over TLS are told of a change.
const secureSubscribers = 5000

// secured measures TLS: reads against a server that has nothing but crypto/tls, an idle
// connection, and a push.
func (b *bench) secured() {
	files := must(os.MkdirTemp(b.work, "keys-"))
	ca, cert, key := filepath.Join(files, "ca.pem"), filepath.Join(files, "cert.pem"), filepath.Join(files, "key.pem")
	from := must(authority.New())
	pair := must(from.Issue("server", time.Now().Add(24*time.Hour)))
	check(os.WriteFile(ca, from.PEM(), 0o600))
	check(os.WriteFile(cert, pair.Cert, 0o600))
	check(os.WriteFile(key, pair.Key, 0o600))
	trust := must((&security{ca: ca}).config())
	trust.ServerName = "localhost"
	defer func() { b.loop.tls = nil }()
	serve := func(connections int) (*served, string) {
		addr := must(freeAddr())
		s := b.serve(benchFiles, "--max-connections", strconv.Itoa(connections+100), "--tls-listen", addr, "--tls-cert", cert, "--tls-key", key)
		b.loop.tls = trust
		return s, addr
	}

	s, addr := serve(b.cfg.subscribers)
	conns := b.dial(addr, benchConns)
	names := fileNames(benchFiles)
	size := b.checkDocuments(conns[0], names)
	bareAddr := must(freeAddr())
	bare := b.launch("ceiling-tls", bareAddr, connect, must(os.Executable()), "ceiling", "--listen", bareAddr, "--reply-size", strconv.Itoa(size), "--tls-cert", cert, "--tls-key", key)
	bareConns := b.dial(bareAddr, benchConns)
	for _, depth := range []int{1, 16} {
		src := readTape(newRandom(depth), names, "")
		ours, theirs := b.closed(s.pid, conns, depth, src), b.closed(bare.pid, bareConns, depth, src)
		b.atLeast(fmt.Sprintf("GETCONFIG of %d B over TLS, depth %d, of crypto/tls", size, depth), must(compare(ours, theirs, b.cfg.pairs)), 0.6, "", "%v of %v", ours, theirs)
	}

	n := min(b.cfg.subscribers, secureSubscribers)
	var took []float64
	for _, r := range newFanout(b.loop, addr, n).rounds(fanoutWarmup, 4*b.cfg.pairs, pushPause, b.bar) {
		took = append(took, millis(r.all))
	}
	b.atMost(fmt.Sprintf("push to %d subscribers over TLS", n), median(took), 150, "ms", "from the change to the last one, p90 %.1f ms", quantile(took, 0.9))
	b.clear()

	b.loop.tls = nil
	s, addr = serve(b.cfg.idle)
	b.idleOver("memory of an idle connection over TLS, of %d", s, addr, 24)
}
