package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

func newGet() *cobra.Command {
	var t target
	var how traffic
	var files int
	var path string
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Ask for documents: GETCONFIG",
		Long: `Ask for documents whose names are drawn at random from those that "ccload
files" writes, with the members of the request in varied order. Without --rate
each answer is followed by the next request (closed loop); with it requests go
out when they are due and latency counts from that time (open loop).`,
		Example: `  ccload get --conns 16 --depth 16
  ccload get --rate 50000 --duration 10s -o json
  ccload get --path /part`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := how.check(); err != nil {
				return err
			}
			if files < 1 {
				return usageError{fmt.Errorf("--files %d must be at least 1", files)}
			}
			return runTraffic(cmd, &t, &how, "get", func(rnd *rand.Rand, _ int) source {
				return getSource(rnd, files, path)
			})
		},
	}
	t.bind(cmd)
	how.bind(cmd)
	cmd.Flags().IntVarP(&files, "files", "n", 1000, "names to draw from")
	cmd.Flags().StringVar(&path, "path", "", "ask for this key path instead of the whole document")
	return cmd
}

func getSource(rnd *rand.Rand, files int, path string) source {
	names := fileNames(files)
	if path == "" {
		return readTape(rnd, names)
	}
	paths := make([]string, tapeLength)
	for i := range paths {
		paths[i] = path
	}
	return pathTape(rnd, names, paths)
}

// newRandom is the same for the same thread in every run, so that two runs ask
// for the same.
func newRandom(thread int) *rand.Rand { return rand.New(rand.NewPCG(0xCC10AD, uint64(thread))) }

// runTraffic runs one load on how.threads loops and prints what they counted.
func runTraffic(cmd *cobra.Command, t *target, how *traffic, verb string, src func(*rand.Rand, int) source) error {
	bar := newProgress(cmd.ErrOrStderr(), verb)
	tallies := make([]*tally, how.threads)
	errs := make([]error, how.threads)
	var wg sync.WaitGroup
	for i := range how.threads {
		wg.Go(func() {
			mine := bar
			if i > 0 {
				mine = nil
			}
			tallies[i], errs[i] = runThread(cmd.Context(), t, how, i, src(newRandom(i), i), mine)
		})
	}
	wg.Wait()
	bar.done()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	all := tallies[0]
	for _, o := range tallies[1:] {
		all.merge(o)
	}
	name := fmt.Sprintf("%s/conns=%d/depth=%d", verb, how.conns, how.depth)
	if how.rate > 0 {
		name = fmt.Sprintf("%s/conns=%d/rate=%.0f", verb, how.conns, how.rate)
	}
	if err := all.result(name).print(cmd.OutOrStdout(), t.output); err != nil {
		return err
	}
	return all.err()
}

// runThread is the share of one loop.
func runThread(ctx context.Context, t *target, how *traffic, thread int, src source, bar *progress) (*tally, error) {
	l, err := newLoop(ctx, t.spin)
	if err != nil {
		return nil, err
	}
	defer l.close()
	n := share(how.conns, how.threads, thread)
	conns, err := l.identify(dialing{addr: t.addr}, n)
	if err != nil {
		return nil, err
	}
	bar.during(l, how.duration+min(how.duration/10, 200*time.Millisecond))
	if how.rate > 0 {
		return newOpenLoop(l, conns, src).run(how.rate*float64(n)/float64(how.conns), how.duration)
	}
	return newClosedLoop(l, conns, how.depth, src).run(how.duration)
}

// share is thread's part of total things among threads.
func share(total, threads, thread int) int {
	n := total / threads
	if thread < total%threads {
		n++
	}
	return n
}
