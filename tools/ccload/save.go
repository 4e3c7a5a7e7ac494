package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"confcenter/protocol"
)

// saveName is the file that is saved as a person would.
const saveName = "save.json"

// saver changes a file in the server's conf directory and waits to be told.
type saver struct {
	loop *loop
	dir  string
	conn *conn
	n    int
	told int64 // when the last push came
	want bool
}

// newSaver writes the file, waits until the server has it and subscribes.
func newSaver(l *loop, addr, dir string) (*saver, error) {
	s := &saver{loop: l, dir: dir, n: int(time.Now().UnixMilli())}
	if err := s.write(saveInPlace); err != nil {
		return nil, err
	}
	conns, err := l.identify(dialing{addr: addr}, 1)
	if err != nil {
		return nil, err
	}
	s.conn = conns[0]
	s.conn.to = s
	body := protocol.AppendSubscription(nil, protocol.Subscription{File: saveName, MissingOK: true})
	if _, err := l.ask(s.conn, protocol.BookCfgChange, body); err != nil {
		return nil, err
	}
	// What was written above is told now or is in service already; only then does
	// a push belong to a save of ours.
	return s, l.wait(500 * time.Millisecond)
}

// The ways people's programs save: over the old content, or a new file renamed
// onto the old one.
const (
	saveInPlace = "in place"
	saveRename  = "by rename"
)

func (s *saver) write(way string) error {
	s.n++
	text := fmt.Appendf(nil, "{\n    \"n\": %d,\n    \"name\": \"saved\"\n}\n", s.n)
	path := filepath.Join(s.dir, saveName)
	if way == saveInPlace {
		return os.WriteFile(path, text, 0o644)
	}
	// The name is one that a server does not take for a config.
	tmp := filepath.Join(s.dir, saveName+"~")
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// save writes once and returns how long after it the push came, in nanoseconds.
func (s *saver) save(way string) (int64, error) {
	s.want = true
	if err := s.write(way); err != nil {
		return 0, err
	}
	saved := s.loop.clock()
	if err := s.loop.until(askLimit, func() bool { return !s.want }); err != nil {
		return 0, fmt.Errorf("save %s: not told: %w", way, err)
	}
	return s.told - saved, nil
}

// samples saves n times each way and returns the times in milliseconds.
func (s *saver) samples(way string, n int, pause time.Duration) ([]float64, error) {
	var times []float64
	for range n {
		ns, err := s.save(way)
		if err != nil {
			return nil, err
		}
		times = append(times, millis(ns))
		if err := s.loop.wait(pause); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func (s *saver) reply(*conn, []byte) {}

func (s *saver) push(_ *conn, _ []byte, now int64) {
	if s.want {
		s.told, s.want = now, false
	}
}

func (s *saver) settle(*conn, int64) {}

func newSave() *cobra.Command {
	var t target
	var dir string
	var n int
	var pause time.Duration
	cmd := &cobra.Command{
		Use:     "save DIR",
		Short:   "Save a file in the server's conf directory, see when subscribers are told",
		Example: `  ccload save ./conf --saves 100`,
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir = args[0]
			if n < 1 {
				return usageError{fmt.Errorf("--saves %d must be at least 1", n)}
			}
			l, err := newLoop(cmd.Context(), t.spin)
			if err != nil {
				return err
			}
			defer l.close()
			s, err := newSaver(l, t.addr, dir)
			if err != nil {
				return err
			}
			r := result{Name: "save"}
			for _, way := range []string{saveRename, saveInPlace} {
				times, err := s.samples(way, n, pause)
				if err != nil {
					return err
				}
				r.Values = append(r.Values, value{way + " p50", median(times), "ms"}, value{way + " p99", quantile(times, 0.99), "ms"})
			}
			return r.print(cmd.OutOrStdout(), t.output)
		},
	}
	t.bind(cmd)
	cmd.Flags().IntVar(&n, "saves", 50, "how often the file is saved each way")
	cmd.Flags().DurationVar(&pause, "pause", 20*time.Millisecond, "time between being told and the next save")
	return cmd
}
