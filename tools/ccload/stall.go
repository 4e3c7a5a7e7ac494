package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"confcenter/protocol"
)

const (
	// stallName is the large document that nobody reads.
	stallName = "stall.json"
	// stallMembers make it 1 MB.
	stallMembers = 10_000
	// healthyRate is how often the healthy client asks, in requests a second.
	healthyRate = 2000
	// stallAskRate is how fast the clients ask after a change, all together, in
	// requests a second: not slower than a server can tell them of it.
	stallAskRate = 20_000
)

// stallSetup is one experiment with clients that do not read.
type stallSetup struct {
	clients int
	changes int
	pause   time.Duration // between two changes
}

// stallOutcome is what the experiment has shown.
type stallOutcome struct {
	before, during *hdrhistogram.Histogram // latency of the healthy client
	left           int                     // clients the server has not closed
	failed         int64                   // requests of the healthy client
	kernel         int64                   // most the kernel held in TCP buffers, in bytes
}

// slowdown is the healthy client's p99 over what it was with the same changes and
// nobody stalled.
func (o *stallOutcome) slowdown() float64 {
	before := o.before.ValueAtQuantile(99)
	if before == 0 {
		return 0
	}
	return float64(o.during.ValueAtQuantile(99)) / float64(before)
}

// stall is the clients that subscribe, ask and do not read.
type stall struct {
	loop    *loop
	healthy *openLoop
	writer  *conn
	clients []*conn
	version int
	kernel  int64

	// as a ticker: who still has to ask after a change
	ask   []byte
	asked int
	pace  pacer
}

// newStall opens the healthy client and the writer and puts the document there.
func newStall(l *loop, addr string, files int) (*stall, error) {
	s := &stall{loop: l, ask: protocol.AppendFrame(nil, protocol.GetConfig, 0, protocol.AppendConfigQuery(nil, stallName, "", 0, false))}
	conns, err := l.identify(dialing{addr: addr, urgent: true}, 3)
	if err != nil {
		return nil, err
	}
	s.writer = conns[0]
	s.healthy = newOpenLoop(l, conns[1:], readTape(newRandom(0), fileNames(files)))
	return s, s.change()
}

func (s *stall) change() error {
	s.version++
	_, err := s.loop.set(s.writer, stallName, largeDocument(stallMembers, s.version))
	return err
}

// run measures the healthy client while the document changes, first alone and
// then among the clients that do not read.
func (s *stall) run(addr string, how stallSetup, bar *progress) (*stallOutcome, error) {
	alone, err := s.changes(how, bar)
	if err != nil {
		return nil, err
	}
	if s.clients, err = s.loop.identify(dialing{addr: addr}, how.clients); err != nil {
		return nil, err
	}
	if err := s.loop.subscribe(s.clients, stallName); err != nil {
		return nil, err
	}
	for _, c := range s.clients {
		c.mayEnd = true
		if err := c.mute(); err != nil {
			return nil, err
		}
	}
	among, err := s.changes(how, bar)
	if err != nil {
		return nil, err
	}
	out := &stallOutcome{before: alone.latency, during: among.latency, failed: alone.failed + among.failed, kernel: s.kernel}
	for _, c := range s.clients {
		if !c.closed {
			out.left++
		}
	}
	return out, nil
}

// changes changes the document and lets everybody ask for it, how.changes times.
func (s *stall) changes(how stallSetup, bar *progress) (*tally, error) {
	s.healthy.begin(healthyRate)
	defer s.loop.stop(s)
	for i := range how.changes {
		if err := s.change(); err != nil {
			return nil, fmt.Errorf("change %d: %w", i+1, err)
		}
		s.loop.stop(s)
		s.asked, s.pace = 0, newPacer(s.loop.clock(), stallAskRate)
		s.loop.every(s)
		if err := s.loop.wait(how.pause); err != nil {
			return nil, err
		}
		s.kernel = max(s.kernel, kernelTCP())
		bar.to(float64(i+1) / float64(how.changes))
	}
	return s.healthy.end()
}

// tick lets the next few clients ask.
func (s *stall) tick(now int64) int64 {
	for range maxBurst {
		if s.asked == len(s.clients) {
			return now + int64(time.Hour)
		}
		at, due := s.pace.take(now)
		if !due {
			break
		}
		if c := s.clients[s.asked]; !c.closed && c.inflight < maxDepth-1 {
			c.request(s.ask, at)
		}
		s.asked++
	}
	return s.pace.next()
}

func (s *stall) close() {
	s.writer.close()
	s.loop.closeAll(s.healthy.conns)
	s.loop.closeAll(s.clients)
}

func newStallVerb() *cobra.Command {
	var t target
	var how stallSetup
	var files, pid int
	cmd := &cobra.Command{
		Use:   "stall",
		Short: "Ask for a large document on each change and never read it",
		Long: `Clients subscribe to a 1 MB document, ask for it after each change and do not
read. A healthy client asks for small documents all the while; its p99 is set
against what it was with the same changes and nobody stalled.`,
		Example: `  ccload stall --clients 5000 --pid $(pidof confcenter)`,
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if how.clients < 1 || how.changes < 1 {
				return usageError{fmt.Errorf("--clients %d and --changes %d must be at least 1", how.clients, how.changes)}
			}
			l, err := newLoop(cmd.Context(), t.spin)
			if err != nil {
				return err
			}
			defer l.close()
			r, err := runStall(l, t.addr, how, files, pid, newProgress(cmd.ErrOrStderr(), "stall"))
			if err != nil {
				return err
			}
			return r.print(cmd.OutOrStdout(), t.output)
		},
	}
	t.bind(cmd)
	f := cmd.Flags()
	f.IntVarP(&how.clients, "clients", "c", 5000, "clients that do not read")
	f.IntVar(&how.changes, "changes", 5, "how often the document is changed")
	f.DurationVar(&how.pause, "pause", 500*time.Millisecond, "time after each change")
	f.IntVarP(&files, "files", "n", 1000, "documents the healthy client draws from")
	f.IntVar(&pid, "pid", 0, "process of the server, on this machine, to read its memory")
	return cmd
}

func runStall(l *loop, addr string, how stallSetup, files, pid int, bar *progress) (result, error) {
	defer bar.done()
	s, err := newStall(l, addr, files)
	if err != nil {
		return result{}, err
	}
	defer s.close()
	out, err := s.run(addr, how, bar)
	if err != nil {
		return result{}, err
	}
	r := result{Name: fmt.Sprintf("stall/clients=%d", how.clients), Failed: out.failed, Latency: quantiles(out.during), Values: []value{
		{"p99 without", micros(out.before.ValueAtQuantile(99)), "µs"},
		{"p99 ratio", out.slowdown(), "x"},
		{"not closed", float64(out.left), "clients"},
		{"kernel buffers", mebibytes(out.kernel), "MiB"},
	}}
	if pid > 0 {
		peak, err := memory(pid, residentPeak)
		if err != nil {
			return result{}, err
		}
		r.Values = append(r.Values, value{"resident peak", mebibytes(peak), "MiB"})
	}
	return r, nil
}
