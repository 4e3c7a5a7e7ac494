package main

import (
	"fmt"
	"time"
)

// idleMemory is what a connection costs that only identifies itself.
func (b *bench) idleMemory() error {
	s, err := b.serve(benchFiles, "--max-connections", fmt.Sprint(b.cfg.idle+100))
	if err != nil {
		return err
	}
	defer s.stop()
	each, err := perConnection(b.loop, s.addr, s.pid, b.cfg.idle, time.Second)
	if err != nil {
		return err
	}
	resident, err := memory(s.pid, residentNow)
	if err != nil {
		return err
	}
	return b.report(figure{
		Name: fmt.Sprintf("memory of an idle connection, of %d", b.cfg.idle), Value: each / 1024, AtMost: true, Target: 2.5, Unit: "KiB",
		Detail: fmt.Sprintf("resident %.1f MiB", mebibytes(resident)),
	})
}

// saves measures from a saved file to a subscriber who knows.
func (b *bench) saves() error {
	s, err := b.serve(benchFiles)
	if err != nil {
		return err
	}
	defer s.stop()
	w, err := newSaver(b.loop, s.addr, s.conf)
	if err != nil {
		return err
	}
	defer w.conn.close()
	for _, way := range []string{saveRename, saveInPlace} {
		times, err := w.samples(way, 8*b.cfg.pairs, 20*time.Millisecond)
		if err != nil {
			return err
		}
		if err := b.report(figure{
			Name: "file saved " + way + " to subscriber told, p50", Value: median(times), AtMost: true, Target: 8, Unit: "ms",
			Detail: fmt.Sprintf("p99 %.2f ms of %d", quantile(times, 0.99), len(times)),
		}); err != nil {
			return err
		}
	}
	return nil
}

// restarts is how often a server is started again.
const restarts = 3

// starts measures from the start of the process to the last file answered: once
// with nothing in the data directory, then with what that start left there.
func (b *bench) starts() error {
	s, err := b.prepare(b.cfg.startFiles)
	if err != nil {
		return err
	}
	first, err := b.startTime(s)
	if err != nil {
		return err
	}
	var again []float64
	for range restarts {
		seconds, err := b.startTime(s)
		if err != nil {
			return err
		}
		again = append(again, seconds)
	}
	for _, f := range []figure{
		{Name: fmt.Sprintf("first start with %d files", b.cfg.startFiles), Value: first},
		{Name: fmt.Sprintf("start again with %d files", b.cfg.startFiles), Value: median(again)},
	} {
		f.AtMost, f.Target, f.Unit = true, 0.4, "s"
		f.Detail = "from exec to the last file answered, on one core"
		if err := b.report(f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startTime(s *served) (float64, error) {
	begun := time.Now()
	if err := b.start(s); err != nil {
		return 0, err
	}
	defer s.stop()
	conns, err := b.loop.identify(dialing{addr: s.addr}, 1)
	if err != nil {
		return 0, err
	}
	defer b.loop.closeAll(conns)
	names := fileNames(b.cfg.startFiles)
	_, err = b.loop.document(conns[0], names[len(names)-1])
	return time.Since(begun).Seconds(), err
}

const stallChanges = 6

// stalls measures what clients that do not read do to memory and to others.
func (b *bench) stalls() error {
	s, err := b.serve(benchFiles, "--max-connections", fmt.Sprint(b.cfg.stalled+100))
	if err != nil {
		return err
	}
	defer s.stop()
	st, err := newStall(b.loop, s.addr, benchFiles)
	if err != nil {
		return err
	}
	defer st.close()
	out, err := st.run(s.addr, stallSetup{clients: b.cfg.stalled, changes: stallChanges, pause: b.cfg.stallPause}, nil)
	if err != nil {
		return err
	}
	peak, err := memory(s.pid, residentPeak)
	if err != nil {
		return err
	}
	if err := b.report(figure{
		Name: fmt.Sprintf("peak memory with %d clients not reading", b.cfg.stalled), Value: mebibytes(peak), AtMost: true, Target: float64(b.cfg.bound), Unit: "MiB",
		Detail: fmt.Sprintf("1 MB asked for on each of %d changes; %d not closed, the kernel held %.0f MiB", stallChanges, out.left, mebibytes(out.kernel)),
	}); err != nil {
		return err
	}
	return b.report(figure{
		Name: "healthy client's p99 among them, of without", Value: out.slowdown(), AtMost: true, Target: 2, Unit: "x",
		Detail: fmt.Sprintf("%.0f of %.0f µs at %d/s, same changes; %d failed", micros(out.during.ValueAtQuantile(99)), micros(out.before.ValueAtQuantile(99)), healthyRate, out.failed),
	})
}
