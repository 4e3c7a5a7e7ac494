package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// benchConfig holds the flags of `ccload bench`.
type benchConfig struct {
	server, dump string // the confcenter and the ccdump binary
	before       string // an earlier confcenter; empty: there is none to compare with
	dir          string // where the servers' files go
	only         []string
	pairs        int           // measurements of each of two rivals
	slice        time.Duration // length of one measurement of a rate
	part         int           // tests measure so small a part of what is promised; 1: all of it
}

// How much the project's promises are about; of is what is measured of it.
const (
	members     = 10_000    // of the large document, 100 B each
	startFiles  = 10_000    // that a server starts with
	versions    = 100       // of each of these files, for one of the starts
	subscribers = 9000      // of one document
	secureOnes  = 5000      // of these, over TLS
	idle        = 10_000    // connections
	keys        = 100_000   // of the state store that is read and written
	watchers    = 1000      // of one key
	streams     = 1000      // of one namespace over HTTP, read and unread
	dirtyFields = 100_000   // of players, that are landed
	coldFields  = 1_000_000 // that only the database has; the promise is about 10,000,000
	flowTasks   = 10_000    // of one flow, that are listed and claimed
	dumpSize    = 512       // MiB of a capture that is added up
)

func (c *benchConfig) of(promised int) int { return max(2, promised/c.part) }

// groups lists the figures by the server they share, in the order they run.
var groups = []struct {
	name string
	run  func(*bench)
}{
	{"get", (*bench).gets},
	{"path", (*bench).paths},
	{"push", (*bench).pushes},
	{"idle", (*bench).idleMemory},
	{"tls", (*bench).secured},
	{"isolation", (*bench).isolated},
	{"set", (*bench).sets},
	{"save", (*bench).saves},
	{"history", (*bench).histories},
	{"start", (*bench).starts},
	{"startold", (*bench).startsOld},
	{"kvget", (*bench).kvGets},
	{"kvput", (*bench).kvPuts},
	{"kvwatch", (*bench).kvWatches},
	{"landing", (*bench).landings},
	{"cold", (*bench).colds},
	{"flow", (*bench).flows},
	{"node", (*bench).nodes},
	{"httpput", (*bench).httpPuts},
	{"httpget", (*bench).httpGets},
	{"httpsse", (*bench).httpStreams},
	{"httpunread", (*bench).httpUnread},
	{"siege", (*bench).sieges},
	{"dump", (*bench).dumps},
	{"tap", (*bench).taps},
	{buildsGroup, (*bench).builds},
}

// buildsGroup is the group that needs --before.
const buildsGroup = "builds"

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
	// benchConns is how many connections the rate figures refer to.
	benchConns = 16
	benchFiles = 1000
)

// bench runs the figures and prints each as soon as it is known.
//
// wide: each group of figures is a method.
type bench struct {
	stage
	benchConfig
	out io.Writer
}

func newBench() *cobra.Command {
	cfg := benchConfig{part: 1}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Print each figure the project promises beside its target",
		Args:  cobra.NoArgs,
		Long: `Start a real server and a bare one, both on core 0 and this program on core 1,
and measure each figure the project promises. Where the target is a ratio, the two
sides are measured alternately and the median of the pairs counts, so that other
load on the machine affects both.`,
		Example: `  ccload bench --server bin/confcenter
  ccload bench --server bin/confcenter --only get,push
  ccload bench --server bin/confcenter --only builds --before old/confcenter`,
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
			return runBench(cmd.Context(), cfg, core, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&cfg.server, "server", "s", "bin/confcenter", "the confcenter binary")
	f.StringVar(&cfg.before, "before", "", "an earlier build of the server, which "+buildsGroup+" compares it with")
	f.StringVar(&cfg.dump, "ccdump", "bin/ccdump", "the ccdump binary, for dump and tap")
	f.StringVar(&cfg.dir, "dir", "", "directory for the servers' files, whose disk affects the figures (default: a temporary one)")
	f.StringSliceVar(&cfg.only, "only", nil, "groups to run: "+strings.Join(groupNames(), ", "))
	f.IntVar(&cfg.pairs, "pairs", 7, "measurements of each of two rivals")
	f.DurationVar(&cfg.slice, "slice", 300*time.Millisecond, "length of one measurement of a rate")
	return cmd
}

func (c *benchConfig) check() error {
	for _, name := range c.only {
		if !slices.Contains(groupNames(), name) {
			return fmt.Errorf("--only %s: there are %s", name, strings.Join(groupNames(), ", "))
		}
	}
	switch {
	case c.pairs < 1 || c.slice <= 0:
		return fmt.Errorf("--pairs %d and --slice %v must be greater than 0", c.pairs, c.slice)
	case c.wants(buildsGroup) && c.before == "":
		return fmt.Errorf("--only %s needs the path of an earlier build in --before", buildsGroup)
	}
	return nil
}

// wants reports whether the named group is to run.
func (c *benchConfig) wants(group string) bool {
	if len(c.only) == 0 {
		return group != buildsGroup || c.before != ""
	}
	return slices.Contains(c.only, group)
}

func runBench(ctx context.Context, cfg benchConfig, core int, out io.Writer) error {
	work, err := os.MkdirTemp(cfg.dir, "ccload-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{stage: stage{loop: newLoop(ctx, longSpin), core: core, binary: cfg.server, work: work}, benchConfig: cfg, out: out}
	for _, g := range groups {
		if cfg.wants(g.name) {
			err := attempt(func() {
				defer b.clear()
				g.run(b)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
		}
	}
	return nil
}

// atLeast and atMost print a figure beside its target and, as detail, the values behind it.
func (b *bench) atLeast(name string, value, target float64, unit, detail string, args ...any) {
	b.print(name, value, ">=", target, unit, value >= target, fmt.Sprintf(detail, args...))
}

func (b *bench) atMost(name string, value, target float64, unit, detail string, args ...any) {
	b.print(name, value, "<=", target, unit, value <= target, fmt.Sprintf(detail, args...))
}

func (b *bench) print(name string, value float64, sign string, target float64, unit string, met bool, detail string) {
	verdict := "ok"
	if !met {
		verdict = "MISSED"
	}
	fmt.Fprintf(b.out, "%-50s %9.3f %s %-9.4g %-5s %-6s  %s\n", name, value, sign, target, unit, verdict, detail)
}

// proberRate is the rate at which probe asks, in requests a second.
const proberRate = 1000

// probe measures requests, sent at a steady rate while work runs.
func (b *bench) probe(addr string, requests *tape, work func()) *tally {
	prober := newLoad(b.dial(addr, 4), requests)
	prober.begin(proberRate)
	work()
	return prober.end()
}
