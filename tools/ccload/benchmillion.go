package main

import (
	"fmt"
	"time"
)

// listed is how many keys the long list has.
const listed = 10_000

// kvMillion fills a store, starts its server again, and looks at time, memory and
// a long list.
func (b *bench) kvMillion() error {
	s, err := b.prepare(1)
	if err != nil {
		return err
	}
	if err := b.fill(s); err != nil {
		return err
	}
	var times []float64
	for i := range restarts {
		begun := time.Now()
		if err := b.start(s); err != nil {
			return err
		}
		if err := b.lastKey(s); err != nil {
			s.stop()
			return err
		}
		times = append(times, time.Since(begun).Seconds())
		if i < restarts-1 {
			s.stop()
		}
	}
	defer s.stop()
	if err := b.report(figure{
		Name: fmt.Sprintf("start with %d keys of %d B", b.cfg.many, kvValueSize), Value: median(times), AtMost: true, Target: 3, Unit: "s",
		Detail: "from exec to the last key answered, on one core",
	}); err != nil {
		return err
	}
	if err := b.lists(s); err != nil {
		return err
	}
	resident, err := memory(s.pid, residentPeak)
	if err != nil {
		return err
	}
	return b.report(figure{
		Name: fmt.Sprintf("peak memory with %d keys of %d B", b.cfg.many, kvValueSize), Value: mebibytes(resident), AtMost: true, Target: 1024, Unit: "MiB",
		Detail: "start, lists and gets",
	})
}

// fill writes the keys and stops the server.
func (b *bench) fill(s *served) error {
	if err := b.start(s); err != nil {
		return err
	}
	defer s.stop()
	conns, err := b.loop.identify(dialing{addr: s.addr}, 1)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	return b.loop.loadKeys(conns[0], b.cfg.many, kvValueSize, b.bar.to)
}

func (b *bench) lastKey(s *served) error {
	conns, err := b.loop.identify(dialing{addr: s.addr}, 1)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	_, err = b.loop.kvGet(conns[0], b.cfg.many-1)
	return err
}

// lists times long lists while others ask for single keys.
func (b *bench) lists(s *served) error {
	lister, err := b.loop.identify(dialing{addr: s.addr}, 1)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(lister)
	conns, err := b.loop.identify(dialing{addr: s.addr, urgent: true}, 4)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	n := min(listed, b.cfg.many)
	var times []float64
	var all [][][]byte
	prober := newOpenLoop(b.loop, conns, kvGetTape(newRandom(0), b.cfg.many))
	prober.begin(proberRate)
	for range 4 * b.cfg.pairs {
		begun := b.loop.clock()
		pages, err := b.loop.kvList(lister[0], n)
		if err != nil {
			return err
		}
		times = append(times, millis(b.loop.clock()-begun))
		all = append(all, pages)
	}
	t, err := prober.end()
	if err == nil {
		err = t.err()
	}
	if err != nil {
		return err
	}
	for _, pages := range all {
		got, err := kvListed(pages)
		if err != nil || got != n {
			return fmt.Errorf("listed %d of %d keys: %w", got, n, err)
		}
	}
	if err := b.report(figure{
		Name: fmt.Sprintf("list of %d keys with values, of %d", n, b.cfg.many), Value: median(times), AtMost: true, Target: 20, Unit: "ms",
		Detail: fmt.Sprintf("p99 %.2f ms of %d", quantile(times, 0.99), len(times)),
	}); err != nil {
		return err
	}
	l := quantiles(t.latency)
	return b.report(figure{
		Name: "p99 of KVGET during the lists", Value: l.P99 / 1000, AtMost: true, Target: 5, Unit: "ms",
		Detail: fmt.Sprintf("p50 %.2f ms, max %.2f ms of %d requests at %d/s", l.P50/1000, l.Max/1000, t.done, proberRate),
	})
}
