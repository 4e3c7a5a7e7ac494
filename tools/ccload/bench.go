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
	server, dump string   // the confcenter and the ccdump binary
	before       string   // an earlier confcenter; empty: there is none to compare with
	dir          string   // where the servers' files go
	only         []string // groups to run; none is all
	slice        time.Duration
	stallPause   time.Duration
	siege        time.Duration
	strict       bool
	output       format
	benchSizes
}

// benchSizes is how much is measured; sizes explains each.
//
// wide: settings, each with a default.
type benchSizes struct {
	pairs, paths, startFiles, versions, subscribers, idle         int
	stalled, bound                                                int
	keys, many, watchers, streams, dumpSize, dirty, landed, tasks int
}

// size is a numeric flag with a lower bound.
type size struct {
	to           *int
	name         string
	least, value int
	usage        string
}

func (c *benchSizes) sizes() []size {
	return []size{
		{&c.pairs, "pairs", 1, 7, "measurements of each of two rivals"},
		{&c.paths, "paths", 1, 10_000, "members of the large document, 100 B each"},
		{&c.startFiles, "start-files", 1, 10_000, "files that a server starts with"},
		{&c.versions, "versions", 2, 100, "versions of each of these files, for one of the starts"},
		{&c.subscribers, "subscribers", 2, 9000, "subscribers of one document"},
		{&c.idle, "idle", 1, 10_000, "idle connections"},
		{&c.stalled, "stalled", 1, 5000, "clients that do not read"},
		{&c.bound, "bound", 0, 512, "the server's stated bound with clients that do not read, in MiB"},
		{&c.keys, "keys", 1, 100_000, "keys of the state store that is read and written"},
		{&c.many, "many-keys", 1, 1_000_000, "keys of the state store that is started and listed"},
		{&c.watchers, "watchers", 2, 1000, "watchers of one key"},
		{&c.streams, "streams", 2, 1000, "streams of one namespace over HTTP, read and unread"},
		{&c.dirty, "dirty-fields", 1, 100_000, "fields of players that are landed"},
		{&c.landed, "landed-fields", 1, 1_000_000, "fields that only the database has; the promise is about 10,000,000"},
		{&c.tasks, "tasks", 1, 10_000, "nodes of one flow that are listed and claimed, 10,000 at most"},
		{&c.dumpSize, "dump-size", 1, 512, "capture that is added up, in MiB"},
	}
}

// groups lists the figures by the server they share, in the order they run.
var groups = []struct {
	name string
	run  func(*bench)
}{
	{"get", (*bench).gets},
	{"path", (*bench).paths},
	{"change", (*bench).changes},
	{"push", (*bench).pushes},
	{"idle", (*bench).idleMemory},
	{"tls", (*bench).secured},
	{"access", (*bench).controlled},
	{"isolation", isolated},
	{"set", (*bench).sets},
	{"save", (*bench).saves},
	{"history", (*bench).histories},
	{"start", (*bench).starts},
	{"startold", (*bench).startsOld},
	{"stall", (*bench).stalls},
	{"kvget", (*bench).kvGets},
	{"kvput", (*bench).kvPuts},
	{"kvwatch", (*bench).kvWatches},
	{"kvmillion", (*bench).kvMillion},
	{"storage", (*bench).fields},
	{"landing", (*bench).landings},
	{"cold", (*bench).colds},
	{"flow", (*bench).flows},
	{"node", (*bench).nodes},
	{"httpput", (*bench).httpPuts},
	{"httpget", (*bench).httpGets},
	{"httpsse", (*bench).httpStreams},
	{"httpunread", httpUnread},
	{"siege", sieges},
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
	// benchSpin keeps the load side awake: the server should not pay for waking it.
	benchSpin = time.Millisecond
	// benchConns is how many connections the rate figures refer to.
	benchConns = 16
	benchFiles = 1000
	// maxOthers is the part of the machine that other programs may use before it is
	// worth mentioning.
	maxOthers = 0.03
)

// bench runs the figures and prints each as soon as it is known.
//
// Groups are scripts (attempt.go).
//
// wide: each group of figures is a method.
type bench struct {
	stage
	cfg    benchConfig
	out    io.Writer
	status io.Writer // for messages that are not results
	bar    *progress
	missed int
}

// counted is must for a load, where an error reply is a failure too.
func counted(t *tally, err error) *tally {
	check(err)
	check(t.err)
	return t
}

func newBench() *cobra.Command {
	var cfg benchConfig
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Print each figure the project promises beside its target",
		Long: `Start a real server and a bare one, both on core 0 and this program on core 1,
and measure each figure the project promises. Where the target is a ratio, the two
sides are measured alternately and the median of the pairs counts, so that other
load on the machine affects both.`,
		Example: `  ccload bench --server bin/confcenter
  ccload bench --server bin/confcenter --only get,push -o json
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
			return runBench(cmd.Context(), cfg, core, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&cfg.server, "server", "s", "bin/confcenter", "the confcenter binary")
	f.StringVar(&cfg.before, "before", "", "an earlier build of the server, which "+buildsGroup+" compares it with")
	f.StringVar(&cfg.dump, "ccdump", "bin/ccdump", "the ccdump binary, for dump and tap")
	f.StringVar(&cfg.dir, "dir", "", "directory for the servers' files, whose disk affects the figures (default: a temporary one)")
	f.StringSliceVar(&cfg.only, "only", nil, "groups to run: "+strings.Join(groupNames(), ", "))
	f.DurationVar(&cfg.slice, "slice", 300*time.Millisecond, "length of one measurement of a rate")
	f.DurationVar(&cfg.stallPause, "stall-pause", 500*time.Millisecond, "time after each change of the document that they do not read")
	f.DurationVar(&cfg.siege, "siege", time.Minute, "length of the flood of connections")
	f.BoolVar(&cfg.strict, "strict", false, "exit with 3 if a target is missed")
	for _, c := range cfg.sizes() {
		f.IntVar(c.to, c.name, c.value, c.usage)
	}
	cfg.output.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(groupNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *benchConfig) check() error {
	for _, name := range c.only {
		if !slices.Contains(groupNames(), name) {
			return usagef("--only %s: there are %s", name, strings.Join(groupNames(), ", "))
		}
	}
	for _, n := range c.sizes() {
		if *n.to < n.least {
			return usagef("--%s %d must be at least %d", n.name, *n.to, n.least)
		}
	}
	for name, d := range map[string]time.Duration{"slice": c.slice, "siege": c.siege} {
		if d <= 0 {
			return usagef("--%s %v must be greater than 0", name, d)
		}
	}
	if _, err := os.Stat(c.server); err != nil {
		return usagef("--server: %w; build it with `go build -o %s ./cmd/confcenter`", err, c.server)
	}
	if c.wants(buildsGroup) {
		if _, err := os.Stat(c.before); err != nil {
			return usagef("--only %s needs the path of an earlier build in --before: %w", buildsGroup, err)
		}
	}
	if !c.wants("dump") && !c.wants("tap") {
		return nil
	}
	if _, err := os.Stat(c.dump); err != nil {
		return usagef("--ccdump: %w; build it with `go build -o %s ./tools/ccdump`", err, c.dump)
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

func runBench(ctx context.Context, cfg benchConfig, core int, out, status io.Writer) error {
	work, err := os.MkdirTemp(cfg.dir, "ccload-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{stage: stage{core: core, binary: cfg.server, work: work}, cfg: cfg, out: out, status: status}
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
		b.bar.Describe(g.name)
		b.bar.to(float64(i) / float64(len(groups)))
		before := useNow(begun)
		if err := attempt(b.clear, func() { g.run(b) }); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		if others := useNow(begun).others(before, runtime.NumCPU()); others > maxOthers {
			b.bar.clear()
			fmt.Fprintf(b.status, "%s: other programs had %.0f%% of this machine; latencies above are theirs too\n", g.name, 100*others)
		}
	}
	return nil
}

// atLeast and atMost report a figure with its target and, as detail, the values behind
// it.
func (b *bench) atLeast(name string, value, target float64, unit, detail string, args ...any) {
	b.report(figure{Name: name, Value: value, Target: target, Unit: unit, Detail: fmt.Sprintf(detail, args...)})
}

func (b *bench) atMost(name string, value, target float64, unit, detail string, args ...any) {
	b.report(figure{Name: name, Value: value, AtMost: true, Target: target, Unit: unit, Detail: fmt.Sprintf(detail, args...)})
}

func (b *bench) report(f figure) {
	if !f.met() {
		b.missed++
	}
	b.bar.clear()
	check(f.print(b.out, b.cfg.output))
}

// closed is a rival that runs a closed loop of depth requests on each connection.
func (b *bench) closed(pid int, conns []*conn, depth int, src source) *rival {
	return &rival{pid: pid, run: func() (sample, error) {
		t, err := newLoad(b.loop, conns, src).closed(depth, b.cfg.slice)
		if err == nil {
			err = t.err
		}
		if err != nil {
			return sample{}, err
		}
		return sample{rate: t.perSecond(), p50: micros(t.latency.ValueAtQuantile(50)), p99: micros(t.latency.ValueAtQuantile(99))}, nil
	}}
}

// proberRate is the rate at which probe asks, in requests a second.
const proberRate = 1000

// probe measures requests from src, sent at a steady rate while work runs.
func (b *bench) probe(addr string, src source, work func()) *tally {
	prober := newLoad(b.loop, b.dialUrgent(addr, 4), src)
	prober.begin(proberRate)
	work()
	return counted(prober.end())
}

func (b *bench) reportProbe(what string, t *tally) {
	l := quantiles(t.latency)
	b.atMost("p99 of "+what, l.P99/1000, 5, "ms", "p50 %.2f ms, max %.2f ms of %d requests at %d/s", l.P50/1000, l.Max/1000, t.done, proberRate)
}
