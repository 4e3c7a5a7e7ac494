package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// errNotInstalled says what to install.
var errNotInstalled = errors.New("not installed: on Debian, apt-get install redis-server redis-tools etcd-server")

// startOther starts a rival's server on the core that ours has in its turn.
func (b *bench) startOther(name, addr string, argv []string) (*process, error) {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], errNotInstalled)
	}
	p, err := startProcess(b.core, b.work, name, argv)
	if err != nil {
		return nil, err
	}
	p.addr = addr
	if err := b.listens(p, addr); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// listens waits until somebody who connects to addr, one of p's, is let in.
func (b *bench) listens(p *process, addr string) error {
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen: %w\n%s", p.name, err, p.printed())
		}
		select {
		case <-p.gone:
			return fmt.Errorf("%s has ended: %s", p.name, p.printed())
		case <-b.loop.ctx.Done():
			return context.Cause(b.loop.ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startRedis starts a Redis that acknowledges what is on the disk, and does
// nothing else meanwhile: no snapshots, no rewriting of its log.
func (b *bench) startRedis() (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return b.startOther("redis", addr, []string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", b.work,
		"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--save", "", "--daemonize", "no"})
}

// redisRival lets redis-benchmark write as much as takes about one slice.
func (b *bench) redisRival(p *process, depth int) (*rival, error) {
	rate, err := b.redisBenchmark(p, depth, kvConns*depth*10)
	if err != nil {
		return nil, err
	}
	return &rival{pid: p.pid, run: func() (sample, error) {
		n := max(kvConns*depth, int(rate*b.cfg.slice.Seconds()))
		rate, err := b.redisBenchmark(p, depth, n)
		return sample{rate: rate}, err
	}}, nil
}

// redisBenchmark writes n values and returns how many a second.
func (b *bench) redisBenchmark(p *process, depth, n int) (float64, error) {
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		return 0, err
	}
	argv := []string{"redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "set", "-c", strconv.Itoa(kvConns), "-P", strconv.Itoa(depth),
		"-n", strconv.Itoa(n), "-r", strconv.Itoa(b.cfg.keys), "-d", strconv.Itoa(kvValueSize), "--csv"}
	out, err := exec.CommandContext(b.loop.ctx, argv[0], argv[1:]...).Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return redisRate(out)
}

// redisRate finds requests a second in what redis-benchmark prints with --csv.
func redisRate(out []byte) (float64, error) {
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark printed %.200q: %w", out, err)
	}
	for _, row := range rows {
		if len(row) > 1 && row[0] == "SET" {
			return strconv.ParseFloat(row[1], 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark printed no rate: %.200q", out)
}
