package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram makes the test binary be ccload itself, or a server too, for the tests
// that start it.
const asProgram = "CCLOAD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "ccload":
		main()
	case "both": // the bench starts both kinds of server
		if len(os.Args) > 1 && os.Args[1] == "serve" {
			os.Exit(serveReal(os.Args[2:]))
		}
		if len(os.Args) > 1 && os.Args[1] == "auth" { // as confcenter does; there is a token already
			text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[len(os.Args)-1]), os.Args[3]+".token"))
			if err != nil {
				panic(err)
			}
			fmt.Print(string(text))
			os.Exit(0)
		}
		main()
	}
	code := m.Run()
	if sharedCeiling.stop != nil {
		sharedCeiling.stop()
		if err := <-sharedCeiling.ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	// The pool is gnet's own and lives as long as the process.
	if err := goleak.Find(
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// sharedCeiling is one for all tests: stopping one takes half a second.
var sharedCeiling struct {
	once  sync.Once
	addr  string
	stop  context.CancelFunc
	ended chan error
}

func ceilingAddr(t *testing.T) string {
	t.Helper()
	c := &sharedCeiling
	c.once.Do(func() {
		var err error
		c.addr, err = freeAddr()
		require.NoError(t, err)
		var ctx context.Context
		ctx, c.stop = context.WithCancel(context.Background())
		booted := make(chan struct{})
		c.ended = make(chan error, 1)
		go func() { c.ended <- serveCeiling(ctx, c.addr, replySize, func() { close(booted) }) }()
		select {
		case <-booted:
		case err := <-c.ended:
			c.ended <- err
			require.NoError(t, err)
		}
	})
	return c.addr
}

func testLoop(t *testing.T) *loop {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	l, err := newLoop(ctx, 0)
	require.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

// script fails the test with the script's failure.
func script(t *testing.T, steps func()) {
	t.Helper()
	require.NoError(t, attempt(func() {}, steps))
}

func ccload(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestWrongCommandLinesExitWith2(t *testing.T) {
	for _, args := range [][]string{
		{"get", "--nope"},
		{"get", "extra"},
		{"get", "-o", "xml"},
		{"get", "--depth", "0"},
		{"get", "--depth", "40000"},
		{"get", "--conns", "1", "--threads", "2"},
		{"get", "--rate", "-1"},
		{"get", "--duration", "0s"},
		{"get", "--files", "0"},
		{"set", "--files", "0"},
		{"push", "--subscribers", "0"},
		{"stall", "--clients", "0"},
		{"ceiling", "extra"},
		{"bench", "--server", "/does/not/exist"},
		{"bench", "--only", "nope"},
		{"bench", "--server", "main_test.go", "--only", "builds"},
		{"bench", "--pairs", "0"},
		{"bench", "--watchers", "1"},
		{"bench", "--slice", "0s"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, stdout, stderr := ccload(t, args...)
			require.Equal(t, exitUsage, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "ccload")
		})
	}
}

func TestNobodyListensExitsWith1(t *testing.T) {
	addr, err := freeAddr()
	require.NoError(t, err)
	for _, verb := range []string{"get", "set", "push"} {
		code, _, stderr := ccload(t, verb, "--addr", addr)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, "connection refused")
	}
}

func TestEveryVerbHasHelp(t *testing.T) {
	for _, cmd := range newRoot(os.Stdout, os.Stderr).Commands() {
		require.NotEmpty(t, cmd.Short, cmd.Name())
		require.Contains(t, cmd.Example, "ccload "+cmd.Name(), cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", cmd.Name(), f.Name) })
	}
}

func TestGetAgainstTheCeiling(t *testing.T) {
	addr := ceilingAddr(t)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"closed", []string{"get", "--conns", "4", "--depth", "8"}, "get/conns=4/depth=8"},
		{"two threads", []string{"get", "--conns", "3", "--threads", "2"}, "get/conns=3/depth=1"},
		{"open", []string{"get", "--conns", "2", "--rate", "2000"}, "get/conns=2/rate=2000"},
		{"path", []string{"get", "--conns", "1", "--path", partPath}, "get/conns=1/depth=1"},
		{"set", []string{"set", "--conns", "2", "--files", "3"}, "set/conns=2/depth=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append(tt.args, "--addr", addr, "--duration", "100ms", "-o", "json")
			code, stdout, stderr := ccload(t, args...)
			require.Zero(t, code, stderr)
			require.Empty(t, stderr, "no progress line where nobody looks")
			var r result
			require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
			require.Equal(t, tt.want, r.Name)
			require.Positive(t, r.Requests)
			require.Zero(t, r.Failed)
			require.InDelta(t, float64(r.Requests)/r.Seconds, r.PerSecond, 1)
			require.Positive(t, r.Latency.P50)
			require.LessOrEqual(t, r.Latency.P50, r.Latency.Max)
		})
	}
}

func TestPushVerb(t *testing.T) {
	code, stdout, stderr := ccload(t, "push", "--addr", ceilingAddr(t), "--subscribers", "30", "--changes", "4", "-o", "json")
	require.Zero(t, code, stderr)
	var r result
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
	require.EqualValues(t, 120, r.Requests)
	require.Len(t, r.Values, 4)
}

func TestStallVerb(t *testing.T) {
	code, stdout, stderr := ccload(t, "stall", "--addr", ceilingAddr(t), "--clients", "20", "--changes", "2", "--pause", "20ms", "--pid", fmt.Sprint(os.Getpid()))
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "20 clients")
	require.Contains(t, stdout, "resident peak")
}

func TestCompletionKnowsTheFormats(t *testing.T) {
	code, stdout, _ := ccload(t, cobra.ShellCompRequestCmd, "get", "-o", "")
	require.Zero(t, code)
	for _, f := range formats {
		require.Contains(t, stdout, f)
	}
}
