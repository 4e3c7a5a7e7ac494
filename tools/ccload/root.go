package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// usageError is a wrong command line.
type usageError struct{ error }

// errMissed says that a figure is on the wrong side of its target.
var errMissed = errors.New("a target was missed")

func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errMissed):
		return exitMissed
	}
	return exitFailed
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "ccload",
		Short:         "Load generator for confcenter",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newGet(), newSet(), newPush(), newIdle(), newStallVerb(), newSave(), newFiles(), newCeiling(), newCeilingHTTP(), newBench())
	return root
}

// exactArgs is cobra.ExactArgs with our exit code.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// target is what every verb that loads a running server asks for.
type target struct {
	addr   string
	output format
	spin   time.Duration
}

func (t *target) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&t.addr, "addr", "a", "127.0.0.1:4800", "server to load")
	f.DurationVar(&t.spin, "spin", 0, "poll this long before sleeping; costs a core, spares the server the wake-ups")
	t.output.bind(cmd)
}

// traffic is how requests are sent.
type traffic struct {
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
	f.Float64VarP(&t.rate, "rate", "r", 0, "requests a second in all, sent when due whatever the answers do; 0 sends when answered")
	f.IntVar(&t.threads, "threads", 1, "event loops, each with its share of the connections")
	f.DurationVarP(&t.duration, "duration", "d", 3*time.Second, "time to measure, after a short warm-up")
}

func (t *traffic) check() error {
	switch {
	case t.threads < 1 || t.conns < t.threads:
		return usageError{fmt.Errorf("--conns %d must be at least --threads %d, and that at least 1", t.conns, t.threads)}
	case t.depth < 1 || t.depth > maxDepth:
		return usageError{fmt.Errorf("--depth %d must be between 1 and %d", t.depth, maxDepth)}
	case t.rate < 0:
		return usageError{fmt.Errorf("--rate %v must not be negative", t.rate)}
	case t.duration <= 0:
		return usageError{fmt.Errorf("--duration %v must be greater than 0", t.duration)}
	}
	return nil
}
