package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// perConnection opens n idle identified connections and returns what each adds to
// the resident memory of process pid, in bytes. The server is given settle time
// before both readings, for what it frees late.
func perConnection(l *loop, addr string, pid, n int, settle time.Duration) (float64, error) {
	// The first connection pays for what all share.
	first, err := l.identify(dialing{addr: addr}, 1)
	if err != nil {
		return 0, err
	}
	defer l.closeAll(first)
	before, err := settled(l, pid, settle)
	if err != nil {
		return 0, err
	}
	conns, err := l.identify(dialing{addr: addr}, n)
	if err != nil {
		return 0, err
	}
	defer l.closeAll(conns)
	after, err := settled(l, pid, settle)
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(n), nil
}

func settled(l *loop, pid int, settle time.Duration) (int64, error) {
	if err := l.wait(settle); err != nil {
		return 0, err
	}
	return memory(pid, residentNow)
}

func newIdle() *cobra.Command {
	var t target
	var n, pid int
	var settle time.Duration
	cmd := &cobra.Command{
		Use:     "idle",
		Short:   "Open connections that do nothing, see what they cost in memory",
		Example: `  ccload idle --conns 10000 --pid $(pidof confcenter)`,
		Args:    exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || pid < 1 {
				return usageError{fmt.Errorf("--conns %d and --pid %d must be at least 1", n, pid)}
			}
			l, err := newLoop(cmd.Context(), t.spin)
			if err != nil {
				return err
			}
			defer l.close()
			each, err := perConnection(l, t.addr, pid, n, settle)
			if err != nil {
				return err
			}
			r := result{Name: fmt.Sprintf("idle/conns=%d", n), Values: []value{{"resident per connection", each, "B"}}}
			return r.print(cmd.OutOrStdout(), t.output)
		},
	}
	t.bind(cmd)
	f := cmd.Flags()
	f.IntVarP(&n, "conns", "c", 10000, "connections to open")
	f.IntVar(&pid, "pid", 0, "process of the server, on this machine")
	f.DurationVar(&settle, "settle", 2*time.Second, "wait before each reading")
	return cmd
}
