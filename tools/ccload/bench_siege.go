package main

import (
	"fmt"
	"sync"
	"time"

	"confcenter/internal/flood"
)

// The besieged server's limits: the flood holds more than any of them allows.
const (
	siegeFiles  = "4096"
	siegeBudget = 512 // MiB
	siegeHold   = 8000
)

// siegeBurst is how many connects the load side makes before it looks at what has arrived:
// their time would count towards the latency.
const siegeBurst = 4

// attack is a flood on the loop, as fast as it can.
type attack struct {
	*flood.Flood
	err error
}

func (a *attack) tick(now int64) int64 {
	for range siegeBurst {
		if a.err == nil {
			a.err = a.Connect()
		}
	}
	return now
}

// newcomers come one after the other, until stopped, and say how long it took each.
type newcomers struct {
	stop chan struct{}
	all  sync.WaitGroup
	in   []float64 // seconds
}

// newcomerEvery is how often one comes.
const newcomerEvery = time.Second

func comeTo(b *bench, addr string) *newcomers {
	n := &newcomers{stop: make(chan struct{})}
	n.all.Go(func() {
		next := time.NewTicker(min(newcomerEvery, b.cfg.siege/4))
		defer next.Stop()
		for {
			begun := time.Now()
			for greet(b.loop.ctx, addr) != nil && time.Since(begun) < readyLimit && b.loop.ctx.Err() == nil {
				// turned away: at once again, as the worst of clients do
			}
			n.in = append(n.in, time.Since(begun).Seconds())
			select {
			case <-n.stop:
				return
			case <-next.C:
			}
		}
	})
	return n
}

// end waits for the one on its way.
func (n *newcomers) end() {
	close(n.stop)
	n.all.Wait()
}

// sieges measures what others notice of connects without end, over TCP and HTTP, from
// several addresses.
func sieges(b *bench) {
	s := b.prepare(benchFiles, "--exempt-networks", "192.0.2.0/24", "--memory", fmt.Sprintf("%dMiB", siegeBudget))
	s.under = []string{"prlimit", "--nofile=" + siegeFiles}
	web := b.startHTTP(s)
	a := &attack{Flood: must(flood.New(s.addr, web, siegeHold))}
	defer a.Close()
	var came *newcomers
	reads := readTape(newRandom(0), fileNames(benchFiles), "")
	before := b.probe(s.addr, reads, func() { check(b.loop.wait(b.cfg.siege / 10)) })
	t := b.probe(s.addr, reads, func() {
		came = comeTo(b, s.addr)
		defer came.end()
		b.loop.every(a)
		defer b.loop.stop(a)
		b.bar.during(b.loop, b.cfg.siege)
		check(b.loop.wait(b.cfg.siege))
	})
	check(a.err)
	b.atLeast("connects made under siege", float64(a.Begun)/t.elapsed().Seconds(), 6000, "/s",
		"over TCP and HTTP from %d addresses for %.0f s, up to %d held; the server has %s files and sent %d away, %d were not answered",
		flood.Sources, t.elapsed().Seconds(), siegeHold, siegeFiles, a.Evicted, a.Ignored)
	l := quantiles(t.latency)
	b.atMost("p99 of GETCONFIG under siege", l.P99/1000, 20, "ms", "p50 %.2f ms, max %.2f ms of %d requests at %d/s; p99 before it %.2f ms",
		l.P50/1000, l.Max/1000, t.done, proberRate, quantiles(before.latency).P99/1000)
	b.atMost("newcomer under siege is in, at worst", quantile(came.in, 1), 2, "s", "median %.4f s of %d, from a known address", median(came.in), len(came.in))
	b.atMost("peak memory under siege, of the budget", mebibytes(must(memoryOf(s.pid)).peak)/siegeBudget, 1.15, "x", "%.0f MiB of %d MiB", mebibytes(must(memoryOf(s.pid)).peak), siegeBudget)
}
