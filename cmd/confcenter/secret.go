package main

import (
	"context"

	"github.com/spf13/cobra"

	"confcenter/access/secret"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

// secretCommand is the group of verbs for the keys of sealed values.
func secretCommand(a *verb.App) *cobra.Command {
	return modelCommand(a, &cobra.Command{
		Use:   "secret",
		Short: "The keys of sealed values",
		Long: `Secret tells which data keys there are, by which the server encrypts values, makes new
ones, and has older values sealed by the newest. Values are sealed by set --secret and
kv put --secret; docs/access.md has how.`,
		Example: `  confcenter secret status
  confcenter secret rotate
  confcenter secret reseal
  confcenter secret status --uses`,
	}, secret.Operations, map[string]special{"reseal": {long: true, follow: resealAll}, "status": {long: true}})
}

// resealAll takes step after step, each of which is printed. What is done stays done if it is
// interrupted.
func resealAll(_ context.Context, q *asked) error {
	did := q.answer.(*secret.Resealed)
	left := did.Left
	for did.Next != "" {
		q.question.(*secret.ResealAsk).From = did.Next
		if err := q.again(); err != nil {
			return err
		}
		did = q.answer.(*secret.Resealed)
		left += did.Left
	}
	if left > 0 {
		return codes.Errorf(codes.Conflict, "%d values are sealed by older data keys still; see why", left)
	}
	return nil
}
