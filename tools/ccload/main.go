// Command ccload loads a confcenter server, or anything that speaks CppCloud's
// wire, and says how fast it was.
//
// Start with `ccload get --help`: one verb for each kind of load (get, set,
// push, idle, stall, save), each of them usable against a server that is
// already running. `ccload ceiling` is a server that does nothing but answer
// with ready-made bytes, to know what the machine can give at most. `ccload
// bench` starts both kinds of server and prints each figure the project has
// promised beside its target; `make bench` runs it.
//
// The load side is one epoll loop per thread (loop.go, conn.go) and, on top of
// it, the two ways to ask: closed.go sends when it is answered, open.go sends
// when it is time, whatever the answers do. Everything the verbs do is a
// combination of these.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
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
