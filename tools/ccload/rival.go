package main

import (
	"fmt"
	"time"
)

// rival is one side of a comparison.
type rival struct {
	pid   int  // its server
	waits bool // for the disk, so how much of its core it has says nothing
	run   func() (sample, error)
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

func (r *rival) measure() (sample, error) {
	cpu, began := cpuTime(r.pid), time.Now()
	s, err := r.run()
	s.busy = float64(cpuTime(r.pid)-cpu) / float64(time.Since(began))
	return s, err
}

// compare measures a and b pair by pair, taking turns at going first, and returns the
// median ratio of a's rate to b's.
func compare(a, b *rival, pairs int) (float64, error) {
	var disturbed [][2]sample
	keep := func(pairs ...[2]sample) {
		for _, pair := range pairs {
			a.kept, b.kept = append(a.kept, pair[0]), append(b.kept, pair[1])
		}
	}
	for i := 0; len(a.kept) < pairs && i < maxAttempts*pairs; i++ {
		pair, err := measurePair(a, b, i%2 == 1)
		if err != nil {
			return 0, err
		}
		if !a.waits && min(pair[0].busy, pair[1].busy) < quietShare {
			disturbed = append(disturbed, pair)
			continue
		}
		keep(pair)
	}
	if len(a.kept) < (pairs+1)/2 {
		keep(disturbed...)
	}
	return median(ratios(a.rates(), b.rates())), nil
}

func measurePair(a, b *rival, swap bool) (pair [2]sample, err error) {
	order := [2]int{0, 1}
	if swap {
		order = [2]int{1, 0}
	}
	for _, i := range order {
		if pair[i], err = [2]*rival{a, b}[i].measure(); err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// each applies of to every element.
func each[T any](list []T, of func(T) float64) []float64 {
	var values []float64
	for _, one := range list {
		values = append(values, of(one))
	}
	return values
}

func (r *rival) rates() []float64 {
	return each(r.kept, func(s sample) float64 { return s.rate })
}

func (r *rival) busy() float64 {
	return median(each(r.kept, func(s sample) float64 { return s.busy }))
}

func (r *rival) String() string {
	text := fmt.Sprintf("%.0f/s", median(r.rates()))
	if p99 := median(each(r.kept, func(s sample) float64 { return s.p99 })); p99 > 0 {
		text += fmt.Sprintf(" (p99 %.0f µs)", p99)
	}
	if busy := r.busy(); !r.waits && busy < quietShare {
		text += fmt.Sprintf(" (disturbed: core only %.0f%%)", 100*busy)
	}
	return text
}
