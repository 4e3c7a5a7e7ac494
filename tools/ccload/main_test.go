package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
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
			if err := serveReal(os.Args[2:]); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
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
	if sharedCeiling.ended != nil {
		if err := errors.Join((<-sharedCeiling.booted).Stop(context.Background()), <-sharedCeiling.ended); err != nil {
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
	once   sync.Once
	addr   string
	booted chan gnet.Engine
	ended  chan error
}

// bootedCeiling is a ceiling that says when it listens.
type bootedCeiling struct{ *ceiling }

// OnBoot implements gnet.EventHandler.
func (bootedCeiling) OnBoot(e gnet.Engine) gnet.Action {
	sharedCeiling.booted <- e
	return gnet.None
}

func ceilingAddr(t *testing.T) string {
	t.Helper()
	c := &sharedCeiling
	c.once.Do(func() {
		c.addr, c.booted, c.ended = freeAddr(), make(chan gnet.Engine, 1), make(chan error, 1)
		go func() {
			c.ended <- gnet.Run(bootedCeiling{newCeilingServer(replySize)}, "tcp://"+c.addr, gnet.WithNumEventLoop(1))
		}()
		select {
		case e := <-c.booted:
			c.booted <- e
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
	l := newLoop(ctx, 0)
	t.Cleanup(func() {
		l.hangUp()
		require.NoError(t, unix.Close(l.epfd))
	})
	return l
}

// dial opens n identified connections of a loop that ends with the test.
func dial(t *testing.T, addr string, n int) (conns []*conn) {
	t.Helper()
	l := testLoop(t)
	script(t, func() { conns = l.dial(addr, n) })
	return conns
}

// script fails the test with the script's failure.
func script(t *testing.T, steps func()) {
	t.Helper()
	require.NoError(t, attempt(steps))
}

func ccload(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"nope"},
		{"ceiling", "extra"},
		{"bench", "--nope"},
		{"bench", "extra"},
		{"bench", "--only", "nope"},
		{"bench", "--only", "builds"},
		{"bench", "--pairs", "0"},
		{"bench", "--slice", "0s"},
		{"tenant", "--token-file", "/does/not/exist"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, stdout, stderr := ccload(t, args...)
			require.Equal(t, 1, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "ccload")
		})
	}
}

func TestEveryVerbHasHelp(t *testing.T) {
	for _, cmd := range []*cobra.Command{newBench(), newCeiling(), newTenant()} {
		require.NotEmpty(t, cmd.Short, cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", cmd.Name(), f.Name) })
	}
}

func TestFigures(t *testing.T) {
	var out bytes.Buffer
	b := &bench{out: &out}
	b.atLeast("rate", 0.85, 0.85, "", "%v of %v", 1, 2)
	b.atLeast("rate", 0.84, 0.85, "", "")
	b.atMost("time", 8, 8, "ms", "")
	b.atMost("time", 8.1, 8, "ms", "")
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 5)
	require.Regexp(t, `^rate +0\.850 >= 0\.85 +ok +1 of 2$`, lines[0])
	require.Regexp(t, `^rate +0\.840 >= 0\.85 +MISSED`, lines[1])
	require.Regexp(t, `^time +8\.000 <= 8 +ms +ok`, lines[2])
	require.Regexp(t, `^time +8\.100 <= 8 +ms +MISSED`, lines[3])
}
