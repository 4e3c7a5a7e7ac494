// Command ccload loads a confcenter server, or anything that speaks CppCloud's
// protocol, and reports how fast it was.
//
// `ccload get`, `set`, `push` and `stall` load a server that is already running
// (verbs.go). `ccload bench` starts servers of its own and prints each figure that
// the project promises beside its target; `make bench` runs it. bench.go lists
// the groups of figures; bench_*.go measures them on a stage (stage.go) against a
// rival (rival*.go): a bare server that answers with ready-made bytes
// (ceiling.go), Redis, etcd, or the same server under other conditions.
//
// The load side is one epoll loop per thread (loop.go, conn.go). On top of it are
// two kinds of load (drive.go): a closed loop sends the next request when one is
// answered, an open loop sends at a fixed rate however late the replies are.
// source.go and http.go make the requests.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes: 1 something failed, 2 the command line is wrong, 3 a target of
// `bench --strict` was missed.
const (
	exitFailed = 1
	exitUsage  = 2
	exitMissed = 3
)

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errMissed says that a figure is on the wrong side of its target.
var errMissed = errors.New("a target was missed")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return exitCode(err)
}

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
	root.AddCommand(newGet(), newSet(), newPush(), newStallVerb(), newCeiling(), newTenant(), newBench())
	for _, cmd := range root.Commands() {
		cmd.Args = noArgs
	}
	return root
}

// noArgs is cobra.NoArgs with our exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}
