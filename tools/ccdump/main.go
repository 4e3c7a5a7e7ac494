// Command ccdump shows the conversations between programs and a confcenter server: from
// a capture file, from an interface, or as a tap between the two.
//
// `ccdump FILE` prints a line for each frame, `ccdump summary FILE` adds them up; `ccdump
// live` captures, `ccdump tap` forwards connections and shows them, `ccdump replay`
// sends a capture's requests to another server and compares its answers.
//
// Package capture supplies packets, package stream turns them into frames, and package
// talk knows what the frames are about. This package has the command line (root.go),
// the path through the others (view.go) and a file for each verb.
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
	context.AfterFunc(ctx, stop) // a second signal ends the program at once, without its last words
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes: 1 something failed, or a capture could not be read to its end; 2 the
// command line is wrong; 3 a replay was answered differently.
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
