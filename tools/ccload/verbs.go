package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// target has the flags of every verb that loads a running server.
type target struct {
	addr   string
	output format
	spin   time.Duration
	secure security
}

// newLoop makes a loop for connections to the target.
func (t *target) newLoop(ctx context.Context) (*loop, error) {
	l, err := newLoop(ctx, t.spin)
	if err == nil {
		l.tls, err = t.secure.config()
	}
	return l, err
}

// verb completes cmd with t's flags and a run function that prints the result of work.
func (t *target) verb(cmd *cobra.Command, work func(context.Context, *progress) result) *cobra.Command {
	f := cmd.Flags()
	f.StringVarP(&t.addr, "addr", "a", "127.0.0.1:4800", "server to load")
	f.DurationVar(&t.spin, "spin", 0, "poll this long before sleeping, which costs a core and spares the server the wake-ups")
	t.secure.bind(cmd)
	t.output.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		bar := newProgress(cmd.ErrOrStderr(), cmd.Name())
		return attempt(bar.done, func() {
			r := work(cmd.Context(), bar)
			bar.clear()
			check(r.print(cmd.OutOrStdout(), t.output))
			check(r.failure)
		})
	}
	return cmd
}

// traffic has the flags of the verbs that send requests.
type traffic struct {
	target
	conns    int
	depth    int
	rate     float64
	threads  int
	duration time.Duration
}

func (t *traffic) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&t.conns, "conns", "c", 16, "connections")
	f.IntVarP(&t.depth, "depth", "p", 1, "requests in flight on each connection")
	f.Float64VarP(&t.rate, "rate", "r", 0, "requests a second in all, sent when due however late the answers; 0 sends when answered")
	f.IntVar(&t.threads, "threads", 1, "event loops, each with its share of the connections")
	f.DurationVarP(&t.duration, "duration", "d", 3*time.Second, "time to measure, after a short warm-up")
}

func (t *traffic) check() error {
	switch {
	case t.threads < 1 || t.conns < t.threads:
		return usagef("--conns %d must be at least --threads %d, and that at least 1", t.conns, t.threads)
	case t.depth < 1 || t.depth > maxDepth:
		return usagef("--depth %d must be between 1 and %d", t.depth, maxDepth)
	case t.rate < 0:
		return usagef("--rate %v must not be negative", t.rate)
	case t.duration <= 0:
		return usagef("--duration %v must be greater than 0", t.duration)
	}
	return nil
}

// run sends the requests of src, on a loop for each thread.
func (t *traffic) run(ctx context.Context, bar *progress, verb string, src func(thread int) source) result {
	tallies := make([]*tally, t.threads)
	errs := make([]error, t.threads)
	var wg sync.WaitGroup
	for i := range t.threads {
		wg.Go(func() { tallies[i], errs[i] = t.thread(ctx, i, src(i), bar) })
	}
	wg.Wait()
	for i, err := range errs {
		check(err)
		if i > 0 {
			tallies[0].merge(tallies[i])
		}
	}
	name := fmt.Sprintf("%s/conns=%d/depth=%d", verb, t.conns, t.depth)
	if t.rate > 0 {
		name = fmt.Sprintf("%s/conns=%d/rate=%.0f", verb, t.conns, t.rate)
	}
	return tallies[0].result(name)
}

// thread does the share of one loop. The first moves the progress bar.
func (t *traffic) thread(ctx context.Context, thread int, src source, bar *progress) (*tally, error) {
	l, err := t.newLoop(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close()
	n := share(t.conns, t.threads, thread)
	conns, err := l.identify(t.addr, n, false)
	if err != nil {
		return nil, err
	}
	if thread == 0 {
		bar.during(l, t.duration+warmup(t.duration))
	}
	load := newLoad(l, conns, src)
	if t.rate > 0 {
		return load.open(t.rate*float64(n)/float64(t.conns), t.duration)
	}
	return load.closed(t.depth, t.duration)
}

// share is one thread's part of total.
func share(total, threads, thread int) int {
	n := total / threads
	if thread < total%threads {
		n++
	}
	return n
}

// newRandom is seeded by the thread, so that every run asks for the same.
func newRandom(thread int) *rand.Rand { return rand.New(rand.NewPCG(0xCC10AD, uint64(thread))) }

func newGet() *cobra.Command {
	var t traffic
	var files int
	var path string
	var fill bool
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Ask for documents: GETCONFIG",
		Long: `Ask for documents f00000.json and on, drawn at random, with the members of the
request in varied order. --fill writes them first. Without --rate each answer is
followed by the next request (closed loop); with it requests go out when they are
due and latency counts from that time (open loop).`,
		Example: `  ccload get --fill --conns 16 --depth 16
  ccload get --rate 50000 --duration 10s -o json
  ccload get --path /part`,
	}
	t.bind(cmd)
	cmd.Flags().IntVarP(&files, "files", "n", 1000, "names to draw from")
	cmd.Flags().StringVar(&path, "path", "", "ask for this key path instead of the whole document")
	cmd.Flags().BoolVar(&fill, "fill", false, "write the documents to the server first")
	return t.verb(cmd, func(ctx context.Context, bar *progress) result {
		check(t.check())
		if files < 1 {
			check(usagef("--files %d must be at least 1", files))
		}
		names := fileNames(files)
		if fill {
			l := must(t.newLoop(ctx))
			defer l.close()
			check(l.fill(t.addr, names))
		}
		return t.run(ctx, bar, "get", func(thread int) source { return readTape(newRandom(thread), names, path) })
	})
}

func newSet() *cobra.Command {
	var t traffic
	var files, size int
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Write documents: SETCONFIG",
		Long: `Write documents named w00000.json and on, each write different from the one
before. The server flushes each write to its disk before it answers, so the figures
are mostly those of the disk.`,
		Example: `  ccload set --conns 4 --size 4096
  ccload set --rate 100 --files 1`,
	}
	t.bind(cmd)
	cmd.Flags().IntVarP(&files, "files", "n", 100, "documents to write")
	cmd.Flags().IntVar(&size, "size", 200, "size of a document in bytes, about")
	return t.verb(cmd, func(ctx context.Context, bar *progress) result {
		check(t.check())
		if files < t.threads {
			check(usagef("--files %d must be at least --threads %d", files, t.threads))
		}
		// Each thread has files of its own, and numbers that no earlier run had.
		first := int(time.Now().UnixMilli())
		return t.run(ctx, bar, "set", func(thread int) source {
			return newWrites(writeNames(files, t.threads, thread), size, first)
		})
	})
}

func writeNames(files, threads, thread int) []string {
	var names []string
	for i := thread; i < files; i += threads {
		names = append(names, fmt.Sprintf("w%05d.json", i))
	}
	return names
}

func newPush() *cobra.Command {
	var t target
	var n, changes int
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Subscribe many, change once, see when each is told",
		Example: `  ccload push --subscribers 9000 --changes 50
  ccload push --addr 127.0.0.1:4801   # what a bare loop reaches`,
	}
	cmd.Flags().IntVarP(&n, "subscribers", "n", 1000, "connections that subscribe to one document")
	cmd.Flags().IntVar(&changes, "changes", 20, "how often it is changed")
	return t.verb(cmd, func(ctx context.Context, bar *progress) result {
		if n < 1 || changes < 1 {
			check(usagef("--subscribers %d and --changes %d must be at least 1", n, changes))
		}
		l := must(t.newLoop(ctx))
		defer l.close()
		f := newFanout(l, t.addr, n)
		begun := l.clock()
		rounds := f.rounds(0, changes, 0, bar)
		seconds := time.Duration(l.clock() - begun).Seconds()
		told := f.delay.TotalCount()
		p50 := func(of func(round) float64) float64 { return median(each(rounds, of)) }
		return result{
			Name:     fmt.Sprintf("push/subscribers=%d", n),
			Requests: told, Seconds: seconds, PerSecond: float64(told) / seconds,
			Latency: quantiles(f.delay),
			Values: []value{
				{"first push p50", p50(round.firstPush), "ms"},
				{"all told p50", p50(round.allTold), "ms"},
				{"writer reply p50", p50(func(r round) float64 { return millis(r.reply) }), "ms"},
				{"first to last p50", p50(f.perSecond), "push/s"},
			},
		}
	})
}

func newStallVerb() *cobra.Command {
	var t target
	var how stallSetup
	var files, pid int
	cmd := &cobra.Command{
		Use:   "stall",
		Short: "Ask for a large document on each change and never read it",
		Long: `Clients subscribe to a 1 MB document, ask for it after each change and never read.
Meanwhile a healthy client asks for small documents; its p99 is compared with its
p99 under the same changes without stalled clients.`,
		Example: `  ccload stall --clients 5000 --pid $(pidof confcenter)`,
	}
	f := cmd.Flags()
	f.IntVarP(&how.clients, "clients", "c", 5000, "clients that do not read")
	f.IntVar(&how.changes, "changes", 5, "how often the document is changed")
	f.DurationVar(&how.pause, "pause", 500*time.Millisecond, "time after each change")
	f.IntVarP(&files, "files", "n", 1000, "documents the healthy client draws from")
	f.IntVar(&pid, "pid", 0, "process of the server, on this machine, to read its memory")
	return t.verb(cmd, func(ctx context.Context, bar *progress) result {
		if how.clients < 1 || how.changes < 1 {
			check(usagef("--clients %d and --changes %d must be at least 1", how.clients, how.changes))
		}
		l := must(t.newLoop(ctx))
		defer l.close()
		out := newStall(l, t.addr, files, stallMembers).run(how, bar)
		r := result{Name: fmt.Sprintf("stall/clients=%d", how.clients), Failed: out.failed, Latency: quantiles(out.during), Values: []value{
			{"p99 without", micros(out.before.ValueAtQuantile(99)), "µs"},
			{"p99 ratio", out.slowdown(), "x"},
			{"not closed", float64(out.left), "clients"},
			{"kernel buffers", mebibytes(out.kernel), "MiB"},
		}}
		if pid > 0 {
			r.Values = append(r.Values, value{"resident peak", mebibytes(must(memoryOf(pid)).peak), "MiB"})
		}
		return r
	})
}
