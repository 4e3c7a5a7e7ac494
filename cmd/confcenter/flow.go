package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/models/bench"
	"confcenter/models/flow"
)

// benchCommand is the group of verbs for nodes and jobs.
func (a *app) benchCommand() *cobra.Command {
	return a.modelCommand(&cobra.Command{
		Use:   "bench",
		Short: "Nodes and jobs of a benchmark cluster",
		Long: `Bench has a verb for everything that can be asked of the nodes and jobs of a benchmark
cluster. An argument or flag that is a text or JSON is "@FILE" for the contents of a file
and "-" for standard input.`,
		Example: `  confcenter bench nodes
  confcenter bench submit-job @job.yaml
  confcenter bench job JOB -o json`,
	}, "bench", bench.Operations, nil)
}

// flowCommand is the group of verbs for applications and their tasks.
func (a *app) flowCommand() *cobra.Command {
	var watch bool
	tree := special{show: as(a.showTree)}
	tree.define = func(command *cobra.Command) {
		command.Flags().BoolVar(&watch, "watch", false, "print the tree again whenever it changes")
	}
	tree.follow = func(ctx context.Context, connected *client.Client, question, answer any, ask func() (any, error), print func(any) error) error {
		if !watch {
			return nil
		}
		return followTree(ctx, connected, question.(*flow.TreeAsk).Scope, answer.(*flow.TreeAnswer), ask, print)
	}
	return a.modelCommand(&cobra.Command{
		Use:   "flow",
		Short: "Applications, their tasks, workers and schedulers",
		Long: `Flow has a verb for everything that can be asked of the applications, sessions, flows,
nodes, workers and schedulers of a cluster. An argument or flag that is a text or JSON is
"@FILE" for the contents of a file and "-" for standard input.`,
		Example: `  confcenter flow tree --watch
  confcenter flow register A --parts @parts.json
  confcenter flow workers -o json`,
	}, "flow", flow.Operations, map[string]special{"tree": tree})
}

// followTree prints the tree again and again, until ctx ends. What is watched begins where the
// answer ends, so that no change is missed.
func followTree(ctx context.Context, connected *client.Client, scope string, answer *flow.TreeAnswer, ask func() (any, error), print func(any) error) error {
	w, err := calls.Flow(connected).Watch(ctx, scope, "", answer.Revision)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		changes, err := w.Next(ctx)
		if err == nil && int64(changes.Revision) <= answer.Revision {
			continue
		}
		var again any
		if err == nil {
			again, err = ask()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		before := answer.Lines
		answer = again.(*flow.TreeAnswer)
		if reflect.DeepEqual(before, answer.Lines) {
			continue
		}
		if err := print(answer); err != nil {
			return err
		}
	}
}

// showTree prints applications with what is below them, indented.
func (a *app) showTree(tree *flow.TreeAnswer) error {
	err := a.table("MEMBER\tSTATUS\tNAME\tWORKER\tTASKS", screen.RowsOf(tree.Lines, func(line flow.TreeLine) []any {
		var tasks []string
		for _, status := range slices.Sorted(maps.Keys(line.Tasks)) {
			tasks = append(tasks, fmt.Sprintf("%d %s", line.Tasks[status], status))
		}
		return []any{strings.Repeat("  ", int(line.Depth)) + dash(line.Key), dash(string(line.Status)), dash(line.Name), dash(line.Worker), dash(strings.Join(tasks, ", "))}
	}))
	if err == nil && tree.Next != "" {
		_, err = fmt.Fprintf(a.stdout, "next: %s\n", tree.Next)
	}
	return err
}
