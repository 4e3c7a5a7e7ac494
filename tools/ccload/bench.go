package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// benchConfig is what `ccload bench` can be told.
type benchConfig struct {
	server      string        // the confcenter binary
	dump        string        // the ccdump binary
	dir         string        // where the servers' files go
	only        []string      // groups to run; none is all
	pairs       int           // measurements of each of two rivals
	slice       time.Duration // length of one of them
	paths       int           // members of the large document
	startFiles  int
	subscribers int
	idle        int
	stalled     int
	stallPause  time.Duration // after each change of the document that is not read
	bound       int           // of the server's memory with stalled clients, in MiB
	keys        int           // of the store that reads and writes are measured with
	many        int           // of the store that starts and lists are measured with
	watchers    int
	streams     int // over HTTP
	dumpSize    int // of the capture that is added up, in MiB
	strict      bool
	output      format
}

// group is a set of figures that share a server.
type group struct {
	name string
	run  func(*bench) error
}

var groups = []group{
	{"get", (*bench).gets},
	{"path", (*bench).paths},
	{"change", (*bench).changes},
	{"push", (*bench).pushes},
	{"idle", (*bench).idleMemory},
	{"save", (*bench).saves},
	{"start", (*bench).starts},
	{"stall", (*bench).stalls},
	{"kvget", (*bench).kvGets},
	{"kvput", (*bench).kvPuts},
	{"kvwatch", (*bench).kvWatches},
	{"kvmillion", (*bench).kvMillion},
	{"httpput", (*bench).httpPuts},
	{"httpget", (*bench).httpGets},
	{"httpsse", (*bench).httpStreams},
	{"dump", (*bench).dumps},
	{"tap", (*bench).taps},
}

func groupNames() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// The servers have one core and the load side another; with a single core both
// share it and the figures say little.
const (
	serverCore = 0
	loadCore   = 1
	// benchSpin keeps the load side awake: a server should not pay for waking it.
	benchSpin = time.Millisecond
	// benchConns is how many connections the rate figures speak of.
	benchConns = 16
	benchFiles = 1000
	// maxOthers is the part of the machine other programs may use before it is
	// worth a word.
	maxOthers = 0.03
)

// bench runs the figures and prints each as soon as it is known.
type bench struct {
	cfg    benchConfig
	out    io.Writer
	status io.Writer // for what is no result
	loop   *loop
	bar    *progress
	core   int // the servers'; below 0 if there is only one
	work   string
	missed int
}

func newBench() *cobra.Command {
	var cfg benchConfig
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Print each figure the project promises beside its target",
		Long: `Start a real server and a bare one, both on core 0 and this program on core 1,
and measure each figure the project promises. Where the target is a ratio the two
sides are measured in turn, pair by pair, and the median of the pairs counts: what
else the machine does at the time hits both.`,
		Example: `  ccload bench --server bin/confcenter
  ccload bench --server bin/confcenter --only get,push -o json`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.check(); err != nil {
				return err
			}
			core := serverCore
			if runtime.NumCPU() < 2 {
				core = -1
				fmt.Fprintln(cmd.ErrOrStderr(), "one core only: the servers and the load share it")
			} else if err := pinSelf(loadCore); err != nil {
				return err
			}
			return runBench(cmd.Context(), cfg, core, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&cfg.server, "server", "s", "bin/confcenter", "the confcenter binary")
	f.StringVar(&cfg.dump, "ccdump", "bin/ccdump", "the ccdump binary, for dump and tap")
	f.StringVar(&cfg.dir, "dir", "", "directory for the servers' files; what it is on is part of the figures (default: a temporary one)")
	f.StringSliceVar(&cfg.only, "only", nil, "groups to run: "+strings.Join(groupNames(), ", "))
	f.IntVar(&cfg.pairs, "pairs", 7, "measurements of each of two rivals")
	f.DurationVar(&cfg.slice, "slice", 300*time.Millisecond, "length of one measurement of a rate")
	f.IntVar(&cfg.paths, "paths", 10000, "members of the large document, 100 B each")
	f.IntVar(&cfg.startFiles, "start-files", 10000, "files that a server starts with")
	f.IntVar(&cfg.subscribers, "subscribers", 9000, "subscribers of one document")
	f.IntVar(&cfg.idle, "idle", 10000, "idle connections")
	f.IntVar(&cfg.stalled, "stalled", 5000, "clients that do not read")
	f.DurationVar(&cfg.stallPause, "stall-pause", 500*time.Millisecond, "time after each change of the document they do not read")
	f.IntVar(&cfg.bound, "bound", 512, "what the server states as its bound with clients that do not read, in MiB")
	f.IntVar(&cfg.keys, "keys", 100_000, "keys of the state store that is read and written")
	f.IntVar(&cfg.many, "many-keys", 1_000_000, "keys of the state store that is started and listed")
	f.IntVar(&cfg.watchers, "watchers", 1000, "watchers of one key")
	f.IntVar(&cfg.streams, "streams", 1000, "streams of one namespace over HTTP")
	f.IntVar(&cfg.dumpSize, "dump-size", 512, "capture that is added up, in MiB")
	f.BoolVar(&cfg.strict, "strict", false, "exit with 3 if a target is missed")
	cfg.output.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(groupNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *benchConfig) check() error {
	for _, name := range c.only {
		if !slices.Contains(groupNames(), name) {
			return usageError{fmt.Errorf("--only %s: there are %s", name, strings.Join(groupNames(), ", "))}
		}
	}
	if c.pairs < 1 || c.slice <= 0 || c.paths < 1 || c.startFiles < 1 || c.subscribers < 2 || c.idle < 1 || c.stalled < 1 ||
		c.keys < 1 || c.many < 1 || c.watchers < 2 || c.streams < 2 || c.dumpSize < 1 {
		return usageError{errors.New("--pairs, --slice, --paths, --start-files, --subscribers (2), --idle, --stalled, --keys, --many-keys, --watchers (2), --streams (2) and --dump-size must be at least 1")}
	}
	if _, err := os.Stat(c.server); err != nil {
		return usageError{fmt.Errorf("--server: %w; build it with `go build -o %s ./cmd/confcenter`", err, c.server)}
	}
	if !c.wants("dump") && !c.wants("tap") {
		return nil
	}
	if _, err := os.Stat(c.dump); err != nil {
		return usageError{fmt.Errorf("--ccdump: %w; build it with `go build -o %s ./tools/ccdump`", err, c.dump)}
	}
	return nil
}

// wants says that the group of that name is to run.
func (c *benchConfig) wants(group string) bool {
	return len(c.only) == 0 || slices.Contains(c.only, group)
}

func runBench(ctx context.Context, cfg benchConfig, core int, out, status io.Writer) error {
	work, err := os.MkdirTemp(cfg.dir, "ccload-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{cfg: cfg, out: out, status: status, work: work, core: core}
	if b.loop, err = newLoop(ctx, benchSpin); err != nil {
		return err
	}
	defer b.loop.close()
	b.bar = newProgress(status, "bench")
	defer b.bar.done()
	if err := b.groups(); err != nil {
		return err
	}
	if cfg.strict && b.missed > 0 {
		return fmt.Errorf("%d figures: %w", b.missed, errMissed)
	}
	return nil
}

func (b *bench) groups() error {
	begun := time.Now()
	for i, g := range groups {
		if !b.cfg.wants(g.name) {
			continue
		}
		b.bar.say(g.name)
		b.bar.to(float64(i) / float64(len(groups)))
		before := useNow(begun)
		if err := g.run(b); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		if others := useNow(begun).others(before, runtime.NumCPU()); others > maxOthers {
			b.bar.clear()
			fmt.Fprintf(b.status, "%s: other programs had %.0f%% of this machine; latencies above are theirs too\n", g.name, 100*others)
		}
	}
	return nil
}

// report prints a figure.
func (b *bench) report(f figure) error {
	if !f.met() {
		b.missed++
	}
	b.bar.clear()
	return f.print(b.out, b.cfg.output)
}

// served is a real server with its directories.
type served struct {
	*process
	conf, data string
	flags      []string
}

// prepare makes the directories of a server with n small documents. The server is
// not started.
func (b *bench) prepare(n int, flags ...string) (*served, error) {
	dir, err := os.MkdirTemp(b.work, "server-")
	if err != nil {
		return nil, err
	}
	s := &served{conf: filepath.Join(dir, "conf"), data: filepath.Join(dir, "data"), flags: flags}
	return s, writeFiles(s.conf, n)
}

// start starts a prepared server and waits until it answers.
func (b *bench) start(s *served) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	argv := append([]string{b.cfg.server, "serve", "--listen", addr, "--http=", "--conf", s.conf, "--data", s.data, "--log-level", "warn"}, s.flags...)
	if s.process, err = startProcess(b.core, b.work, "confcenter", argv); err != nil {
		return err
	}
	s.addr = addr
	if err := s.ready(b.loop.ctx, time.Minute); err != nil {
		s.stop()
		return err
	}
	return nil
}

// serve prepares and starts. The caller stops it.
func (b *bench) serve(n int, flags ...string) (*served, error) {
	s, err := b.prepare(n, flags...)
	if err != nil {
		return nil, err
	}
	return s, b.start(s)
}

// bare starts the ceiling server, which answers with bodies of size bytes. The
// caller stops it.
func (b *bench) bare(size int) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(b.core, b.work, "ceiling", []string{self, "ceiling", "--listen", addr, "--reply-size", fmt.Sprint(size)})
	if err != nil {
		return nil, err
	}
	p.addr = addr
	if err := p.ready(b.loop.ctx, time.Minute); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
