package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"confcenter/state/auth"
)

// authCommand is the group of verbs for tokens, and for what roles allow.
func (a *app) authCommand() *cobra.Command {
	return a.modelCommand(&cobra.Command{
		Use:   "auth",
		Short: "Tokens, sessions, and who may do what",
		Long: `Auth makes, lists and revokes the tokens by which programs prove who they are, lists and
ends the sessions of people at the console, and tells who may do what by which rule.
Roles are files in conf/_access, edited and rolled back like all others; docs/access.md
has what is in them.`,
		Example: `  confcenter auth token game-1 --groups games
  confcenter auth tokens
  confcenter auth end --who person:zoe@example.org
  confcenter auth can token:game-1 read config:game/limits.json`,
	}, "auth", auth.Operations, map[string]special{"can": {show: a.showDecision, verdict: unlessAllowed}, "token": {show: a.showToken}, "revoke": {show: a.showRevoked}, "quotas": {show: a.showQuotas}, "end": {define: func(command *cobra.Command) {
		command.MarkFlagsOneRequired("id", "who")
		command.MarkFlagsMutuallyExclusive("id", "who")
	}}})
}

// showQuotas prints each limit, also those that nobody has set.
func (a *app) showQuotas(answer any) error {
	return a.table("LIMIT\tUSED\tMOST\tBY", func(row func(string, ...any)) {
		for _, q := range answer.(*auth.QuotasAnswer).Quotas {
			most := "any"
			if q.Most != 0 {
				most = strconv.FormatInt(q.Most, 10)
			}
			row("%s\t%d\t%s\t%s", q.Limit, q.Used, most, dash(q.Quota))
		}
	})
}

// showDecision prints yes or no, and the rules behind it.
func (a *app) showDecision(answer any) error {
	can := answer.(*auth.CanAnswer)
	word := "no"
	switch {
	case can.Allowed:
		word = "yes"
	case len(can.Rules) == 0:
		word = "no: no rule allows it"
	}
	if _, err := fmt.Fprintln(a.stdout, word); err != nil {
		return err
	}
	for _, r := range can.Rules {
		if _, err := fmt.Fprintf(a.stdout, "%s by %s: %s\n", r.Says, r.Rule, r.What); err != nil {
			return err
		}
	}
	if can.Trouble != "" {
		_, err := fmt.Fprintln(a.stdout, can.Trouble)
		return err
	}
	return nil
}

func (a *app) showRevoked(answer any) error {
	_, err := fmt.Fprintf(a.stdout, "revoked: from revision %d on it is of no use\n", answer.(*auth.Revoked).Revision)
	return err
}

func unlessAllowed(answer any) error {
	if !answer.(*auth.CanAnswer).Allowed {
		return errMayNot
	}
	return nil
}

// showToken prints a new token alone, so that it can be sent into a file, and what people need to
// know of it beside that.
func (a *app) showToken(answer any) error {
	made := answer.(*auth.Made)
	fmt.Fprintf(a.stderr, "confcenter: the token %s, which is not shown again:\n", made.ID)
	if made.Held > 0 {
		fmt.Fprintf(a.stderr, "confcenter: held as change %d: it is of no use before another person approves\n", made.Held)
	}
	_, err := fmt.Fprintln(a.stdout, made.Text)
	return err
}
