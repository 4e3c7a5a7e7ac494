// Command ccdump shows what programs and a confcenter server say to each other: from
// a capture file, from an interface, or as a tap between the two.
//
// `ccdump FILE` prints a line for each frame, `ccdump summary FILE` adds up; `ccdump
// live` captures, `ccdump tap` passes connections on and shows them, `ccdump replay`
// sends a capture's requests to another server and compares what it answers.
//
// Packets come from package capture, package stream makes frames of them, package
// talk understands what they are about; what is here is the command line (root.go),
// the way from one to the other (view.go) and a file for each verb.
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
	context.AfterFunc(ctx, stop) // a second signal ends at once what cannot print its end
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes: 1 something failed, a capture that cannot be read to its end included;
// 2 the command line is wrong; 3 a replay was answered differently.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitDifferent = 3
)

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	return exitCode(err)
}
