package main

import (
	"fmt"
	"time"

	"confcenter/protocol"
)

const (
	// proberRate is how often the connections that only read ask during a fan-out,
	// in requests a second.
	proberRate = 1000
	// fanoutWarmup is how many changes are made before they count.
	fanoutWarmup = 3
	// controlName is a document nobody subscribes to, changed like the other one.
	controlName = "alone.json"
	// pushPause lets a server end what a change has left to do before the next one
	// is timed.
	pushPause = 20 * time.Millisecond
)

// pushes compares a fan-out with a bare loop that writes the same frames, and
// looks at what it does to others.
func (b *bench) pushes() error {
	real, err := b.serve(benchFiles, "--max-connections", fmt.Sprint(b.cfg.subscribers+100))
	if err != nil {
		return err
	}
	defer real.stop()
	bare, err := b.bare(replySize)
	if err != nil {
		return err
	}
	defer bare.stop()
	ours, err := newFanout(b.loop, real.addr, b.cfg.subscribers)
	if err != nil {
		return err
	}
	defer ours.close()
	theirs, err := newFanout(b.loop, bare.addr, b.cfg.subscribers)
	if err != nil {
		return err
	}
	defer theirs.close()
	if err := b.pushRate(ours, theirs, real.pid, bare.pid); err != nil {
		return err
	}
	if err := b.firstPush(ours); err != nil {
		return err
	}
	return b.pushProbe(ours, real.addr)
}

func (b *bench) pushRate(ours, theirs *fanout, pid, barePID int) error {
	side := func(f *fanout, pid int) *rival {
		return &rival{pid: pid, run: func() (sample, error) {
			r, err := f.change()
			return sample{rate: f.perSecond(r)}, err
		}}
	}
	real, bare := side(ours, pid), side(theirs, barePID)
	for range fanoutWarmup {
		if _, err := measurePair(real, bare, false); err != nil {
			return err
		}
	}
	ratio, err := compare(real, bare, 2*b.cfg.pairs)
	if err != nil {
		return err
	}
	return b.report(figure{
		Name: fmt.Sprintf("push to %d subscribers, of ceiling", len(ours.subscribers)), Value: ratio, Target: 0.9,
		Detail: fmt.Sprintf("%v of %v, first to last", real, bare),
	})
}

// firstPush sets the first push against the reply to a change nobody is told of:
// that reply leaves when the change is durable, so what the first push takes
// longer is what came after.
func (b *bench) firstPush(f *fanout) error {
	var later, total []float64
	writes := newWrites([]string{controlName}, 200, 0)
	alone := func() (int64, error) {
		frame := writes.next(nil)
		if err := b.loop.wait(pushPause); err != nil {
			return 0, err
		}
		begun := b.loop.clock()
		_, err := b.loop.ask(f.writer, protocol.SetConfig, frame[protocol.HeaderSize:])
		return b.loop.clock() - begun, err
	}
	if _, err := alone(); err != nil {
		return err
	}
	for range 4 * b.cfg.pairs {
		durable, err := alone()
		if err != nil {
			return err
		}
		if err := b.loop.wait(pushPause); err != nil {
			return err
		}
		r, err := f.change()
		if err != nil {
			return err
		}
		later = append(later, millis(r.first-durable))
		total = append(total, millis(r.first))
	}
	return b.report(figure{
		Name: "first push after the change is durable", Value: median(later), AtMost: true, Target: 1, Unit: "ms",
		Detail: fmt.Sprintf("%.2f ms after the request, p90 of the difference %.2f ms", median(total), quantile(later, 0.9)),
	})
}

// pushProbe asks for small documents while one fan-out follows the other.
func (b *bench) pushProbe(f *fanout, addr string) error {
	conns, err := b.loop.identify(dialing{addr: addr, urgent: true}, 4)
	if err != nil {
		return err
	}
	defer b.loop.closeAll(conns)
	prober := newOpenLoop(b.loop, conns, readTape(newRandom(0), fileNames(benchFiles)))
	prober.begin(proberRate)
	for range 10 * b.cfg.pairs {
		if _, err := f.change(); err != nil {
			return err
		}
	}
	t, err := prober.end()
	if err == nil {
		err = t.err()
	}
	if err != nil {
		return err
	}
	l := quantiles(t.latency)
	return b.report(figure{
		Name: "p99 of GETCONFIG during the pushes", Value: l.P99 / 1000, AtMost: true, Target: 5, Unit: "ms",
		Detail: fmt.Sprintf("p50 %.2f ms, max %.2f ms of %d requests at %d/s", l.P50/1000, l.Max/1000, t.done, proberRate),
	})
}
