// Command ccload measures a confcenter server on this machine.
//
// `ccload bench` starts servers of its own and prints each figure that the project
// promises beside its target; `make bench` runs it. bench.go lists the groups of figures;
// bench_*.go measures them on a stage (stage.go) against a rival (rival*.go): a bare server
// that answers with ready-made bytes (ceiling.go), Redis, or the same server under other
// conditions. The other verbs are programs that the benchmark starts.
//
// The load side is one epoll loop (loop.go, conn.go). On top of it are two kinds of load
// (load.go): a closed loop sends the next request when one is answered, an open loop sends
// at a fixed rate however late the replies are. source.go and http.go make the requests.
package main

import (
	"context"
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

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	root := &cobra.Command{Use: "ccload", Short: "Benchmarks of confcenter", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	root.AddCommand(newBench(), newCeiling(), newTenant())
	if cmd, err := root.ExecuteContextC(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
		return 1
	}
	return 0
}
