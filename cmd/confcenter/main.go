//go:build !profile

// Command confcenter is the configuration center: "serve" is the server, every
// other verb a client of one, and "check" looks at a directory without a server.
//
// A newcomer reads root.go, the list of verbs, and then the file with a verb's name.
// Package verb has what they share, kvverbs the verbs of the state store, serving
// serve's settings, its start and its stop, and exit.go the exit codes.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
