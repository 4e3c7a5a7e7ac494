package main

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// startRedis starts a Redis that acknowledges what is on the disk and does nothing else
// meanwhile: no snapshots, no rewriting of its log.
func (g *stage) startRedis() *process {
	addr := must(freeAddr())
	host, port, err := net.SplitHostPort(addr)
	check(err)
	return g.startInstalled("redis", addr, "redis-server", "--port", port, "--bind", host, "--dir", g.work,
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--save", "", "--daemonize", "no")
}

// redisRival lets redis-benchmark write for about one slice.
func (b *bench) redisRival(p *process, depth int) *rival {
	host, port, err := net.SplitHostPort(p.addr)
	check(err)
	write := func(n int) (float64, error) {
		argv := []string{"redis-benchmark", "-h", host, "-p", port, "-t", "set", "-c", strconv.Itoa(kvConns), "-P", strconv.Itoa(depth),
			"-n", strconv.Itoa(n), "-r", strconv.Itoa(b.cfg.keys), "-d", strconv.Itoa(kvValueSize), "--csv"}
		out, err := exec.CommandContext(b.loop.ctx, argv[0], argv[1:]...).Output()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
		return redisRate(out)
	}
	rate := must(write(kvConns * depth * 10))
	return &rival{pid: p.pid, run: func() (sample, error) {
		rate, err := write(max(kvConns*depth, int(rate*b.cfg.slice.Seconds())))
		return sample{rate: rate}, err
	}}
}

var redisSets = regexp.MustCompile(`(?m)^"SET","([0-9.]+)"`)

// redisRate finds the requests per second in the output of redis-benchmark --csv.
func redisRate(out []byte) (float64, error) {
	found := redisSets.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("redis-benchmark printed no rate: %.200q", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
