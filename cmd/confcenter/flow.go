package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/models/bench"
	"confcenter/models/flow"
)

// benchCommand is the group of verbs for nodes and jobs.
func benchCommand(a *verb.App) *cobra.Command {
	return modelCommand(a, &cobra.Command{
		Use:   "bench",
		Short: "Nodes and jobs of a benchmark cluster",
		Long: `Bench has a verb for everything that can be asked of the nodes and jobs of a benchmark
cluster. An argument or flag that is a text or JSON is "@FILE" for the contents of a file
and "-" for standard input.`,
		Example: `  confcenter bench nodes
  confcenter bench submit-job @job.yaml
  confcenter bench job JOB -o json`,
	}, bench.Operations, nil)
}

// flowCommand is the group of verbs for applications and their tasks.
func flowCommand(a *verb.App) *cobra.Command {
	var watch bool
	tree := special{show: as(showTree)}
	tree.define = func(command *cobra.Command) {
		command.Flags().BoolVar(&watch, "watch", false, "print the tree again whenever it changes")
	}
	tree.follow = func(ctx context.Context, q *asked) error {
		if !watch {
			return nil
		}
		return followTree(ctx, q)
	}
	return modelCommand(a, &cobra.Command{
		Use:   "flow",
		Short: "Applications, their tasks, workers and schedulers",
		Long: `Flow has a verb for everything that can be asked of the applications, sessions, flows,
nodes, workers and schedulers of a cluster. An argument or flag that is a text or JSON is
"@FILE" for the contents of a file and "-" for standard input.`,
		Example: `  confcenter flow tree --watch
  confcenter flow register A --parts @parts.json
  confcenter flow workers -o json`,
	}, flow.Operations, map[string]special{"tree": tree})
}

// followTree prints the tree again and again, until ctx ends. What is watched begins where the
// answer ends, so that no change is missed.
func followTree(ctx context.Context, q *asked) error {
	answer := q.answer.(*flow.TreeAnswer)
	w, err := calls.Flow(q.connected).Watch(ctx, q.question.(*flow.TreeAsk).Scope, "", answer.Revision)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		changes, err := w.Next(ctx)
		if err == nil && int64(changes.Revision) <= answer.Revision {
			continue
		}
		if err == nil {
			err = q.ask()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		before := answer.Lines
		answer = q.answer.(*flow.TreeAnswer)
		if reflect.DeepEqual(before, answer.Lines) {
			continue
		}
		if err := q.print(); err != nil {
			return err
		}
	}
}

// showTree prints applications with what is below them, indented.
func showTree(a *verb.App, tree *flow.TreeAnswer) error {
	err := a.Table("MEMBER\tSTATUS\tNAME\tWORKER\tTASKS", screen.RowsOf(tree.Lines, func(line flow.TreeLine) []any {
		var tasks []string
		for _, status := range slices.Sorted(maps.Keys(line.Tasks)) {
			tasks = append(tasks, fmt.Sprintf("%d %s", line.Tasks[status], status))
		}
		return []any{strings.Repeat("  ", int(line.Depth)) + screen.Cell(line.Key), screen.Cell(string(line.Status)), screen.Cell(line.Name), screen.Cell(line.Worker), screen.Cell(strings.Join(tasks, ", "))}
	}))
	if err == nil && tree.Next != "" {
		err = a.Printf("next: %s\n", tree.Next)
	}
	return err
}
