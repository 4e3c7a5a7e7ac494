package main

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// rival is one side of a comparison.
type rival struct {
	pid   int  // its server
	waits bool // for the disk, so how much of its core it has says nothing
	run   func() sample
	kept  []sample
}

// sample is one measurement of a rival.
type sample struct {
	rate     float64 // a second
	p50, p99 float64 // µs; 0 if it is not known
	busy     float64 // part of the time that its server has run
}

const (
	// quietShare is how much of a core a saturated server gets when nothing else uses
	// it. A pair in which one side got less is measured again.
	quietShare = 0.9
	// maxAttempts bounds the measurements for each one wanted; after that disturbed
	// pairs count too.
	maxAttempts = 3
)

func (r *rival) measure() sample {
	cpu, began := cpuTime(r.pid), time.Now()
	s := r.run()
	s.busy = float64(cpuTime(r.pid)-cpu) / float64(time.Since(began))
	return s
}

// cpuTime is the processor time of a process so far, 0 if it cannot be read.
func cpuTime(pid int) time.Duration {
	threads, _ := procfs.AllThreads(pid)
	var sum uint64
	for _, t := range threads {
		s, _ := t.Schedstat()
		sum += s.RunningNanoseconds
	}
	return time.Duration(sum)
}

// compare measures a and b pair by pair, taking turns at going first, and returns the
// median ratio of a's rate to b's.
func compare(a, b *rival, pairs int) float64 {
	var all, quiet [][2]sample
	for i := 0; len(quiet) < pairs && i < maxAttempts*pairs; i++ {
		pair := measurePair(a, b, i%2 == 1)
		all = append(all, pair)
		if a.waits || min(pair[0].busy, pair[1].busy) >= quietShare {
			quiet = append(quiet, pair)
		}
	}
	if len(quiet) < (pairs+1)/2 {
		quiet = all
	}
	for _, pair := range quiet {
		a.kept, b.kept = append(a.kept, pair[0]), append(b.kept, pair[1])
	}
	return median(ratios(a.rates(), b.rates()))
}

func measurePair(a, b *rival, swap bool) (pair [2]sample) {
	if swap {
		pair[1], pair[0] = b.measure(), a.measure()
	} else {
		pair[0], pair[1] = a.measure(), b.measure()
	}
	return pair
}

func (r *rival) rates() []float64 {
	return each(r.kept, func(s sample) float64 { return s.rate })
}

func (r *rival) busy() float64 {
	return median(each(r.kept, func(s sample) float64 { return s.busy }))
}

func (r *rival) p99() float64 { return median(each(r.kept, func(s sample) float64 { return s.p99 })) }

func (r *rival) String() string {
	text := fmt.Sprintf("%.0f/s", median(r.rates()))
	if p99 := r.p99(); p99 > 0 {
		text += fmt.Sprintf(" (p99 %.0f µs)", p99)
	}
	if busy := r.busy(); !r.waits && busy < quietShare {
		text += fmt.Sprintf(" (disturbed: core only %.0f%%)", 100*busy)
	}
	return text
}

// closed is a rival that runs a closed loop of depth requests on each connection.
func (b *bench) closed(pid int, conns []*conn, depth int, requests *tape) *rival {
	return &rival{pid: pid, run: func() sample {
		t := newLoad(conns, requests).closed(depth, b.slice)
		return sample{rate: t.perSecond(), p50: t.micros(50), p99: t.micros(99)}
	}}
}

// durable is closed for writes.
func (b *bench) durable(pid int, conns []*conn, depth int, requests *tape) *rival {
	r := b.closed(pid, conns, depth, requests)
	r.waits = true
	return r
}

// versus compares two rivals and reports the ratio of their rates.
func (b *bench) versus(name string, ours, theirs *rival, target float64) {
	ratio := compare(ours, theirs, b.pairs)
	b.atLeast(name, ratio, target, "", "%v of %v", ours, theirs)
}
