package main

import (
	"context"

	"github.com/spf13/cobra"

	"confcenter/access/secret"
	"confcenter/client"
	"confcenter/codes"
)

// secretCommand is the group of verbs for the keys of sealed values.
func (a *app) secretCommand() *cobra.Command {
	return a.modelCommand(&cobra.Command{
		Use:   "secret",
		Short: "The keys of sealed values",
		Long: `Secret tells which data keys there are, by which the server encrypts values, makes new
ones, and has older values sealed by the newest. Values are sealed by set --secret and
kv put --secret; docs/access.md has how.`,
		Example: `  confcenter secret status
  confcenter secret rotate
  confcenter secret reseal
  confcenter secret status --uses`,
	}, "secret", secret.Operations, map[string]special{"reseal": {long: true, follow: resealAll}, "status": {long: true}})
}

// resealAll takes step after step, each of which is printed. What is done stays done if it is
// interrupted.
func resealAll(_ context.Context, _ *client.Client, question, answer any, ask func() (any, error), print func(any) error) error {
	did := answer.(*secret.Resealed)
	left := did.Left
	for did.Next != "" {
		question.(*secret.ResealAsk).From = did.Next
		answer, err := ask()
		if err != nil {
			return err
		}
		did = answer.(*secret.Resealed)
		left += did.Left
		if err := print(did); err != nil {
			return err
		}
	}
	if left > 0 {
		return codes.Errorf(codes.Conflict, "%d values are sealed by older data keys still; see why", left)
	}
	return nil
}
