package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

// buildDir is where tests that need a process put the binary.
var buildDir string

// The event loop's library starts goroutines when it is imported; they are
// no leak of a test.
func TestMain(m *testing.M) {
	// Nothing depends on the machine's zone, so it is another than UTC. That of the process is read once.
	err := os.Setenv("TZ", "Asia/Shanghai")
	if _, east := time.Now().Zone(); err != nil || east == 0 {
		panic("there is no other time zone to test in")
	}
	if buildDir, err = os.MkdirTemp("", "confcenter-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// Scripts take 4 for a server that cannot be reached.
func TestAServerThatCannotBeClosedHasFailed(t *testing.T) {
	hangs := errors.Join(nil, codes.Errorf(codes.Timeout, "the state store cannot be closed"))
	require.Equal(t, exitFailed, exitCode(failed(hangs)))
	require.Equal(t, exitUsage, exitCode(failed(verb.UsageError{Err: hangs})))
	require.Equal(t, exitUsage, exitCode(failed(serving.Unusable{Err: hangs})))
	require.Equal(t, exitOK, exitCode(failed(nil)))
}
