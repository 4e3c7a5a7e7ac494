//go:build profile

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// With the tag profile, confcenter writes a profile of its processor time to a file of
// its own in the directory CPU_PROFILES, from which `make profile` makes profile.pgo.
func main() {
	f, err := os.CreateTemp(os.Getenv("CPU_PROFILES"), "cpu-")
	if err == nil {
		runtime.SetCPUProfileRate(1000) // StartCPUProfile says that it cannot set its own, lower one
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
