package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/access/token"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
)

// authCommand is the group of verbs for tokens, and for what roles allow.
func authCommand(a *verb.App) *cobra.Command {
	return modelCommand(a, &cobra.Command{
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
	}, token.Operations, map[string]special{"can": {show: as(showDecision)}, "token": {show: as(showToken)}, "quotas": {show: as(showQuotas)}, "revoke": {show: as(showRevoked), follow: offerToEnd}, "end": {define: func(command *cobra.Command) {
		command.MarkFlagsOneRequired("id", "who")
		command.MarkFlagsMutuallyExclusive("id", "who")
	}}})
}

// showQuotas prints each limit, also those that no one has set.
func showQuotas(a *verb.App, answer *token.QuotasAnswer) error {
	return a.Table("LIMIT\tUSED\tMOST\tBY", screen.RowsOf(answer.Quotas, func(q token.QuotaUse) []any {
		most := "any"
		if q.Most != 0 {
			most = strconv.FormatInt(q.Most, 10)
		}
		return []any{q.Limit, q.Used, most, screen.Cell(q.Quota)}
	}))
}

// showDecision prints yes or no, and the rules behind it.
func showDecision(a *verb.App, can *token.CanAnswer) error {
	word := "no"
	switch {
	case can.Allowed:
		word = "yes"
	case len(can.Rules) == 0:
		word = "no: no rule allows it"
	}
	if err := a.Printf("%s\n", word); err != nil {
		return err
	}
	for _, r := range can.Rules {
		if err := a.Printf("%s by %s: %s\n", r.Says, r.Rule, r.What); err != nil {
			return err
		}
	}
	if can.Trouble != "" {
		return a.Printf("%v\n", can.Trouble)
	}
	return nil
}

// showToken prints a new token alone, so that it can be sent into a file, and what people need to
// know of it beside that.
func showToken(a *verb.App, made *token.Made) error {
	a.Tell("the token %s, which is not shown again:", made.ID)
	if made.Held > 0 {
		a.Tell("held as change %d: it is of no use before another person approves", made.Held)
	}
	return a.Printf("%v\n", made.Text)
}

// showRevoked says what has ended, and which tokens still count that it had made.
func showRevoked(a *verb.App, revoked *token.Revoked) error {
	if err := a.Printf("revoked; it counts no more from revision %d on\n", revoked.Revision); err != nil {
		return err
	}
	for _, part := range []struct {
		list []token.Token
		text string
	}{{revoked.Ended, "ended as well, as it had made them:"}, {revoked.Made, "tokens that one of its name had made, and these in turn, still count:"}} {
		if len(part.list) == 0 {
			continue
		}
		if err := a.Printf("%s\n", part.text); err != nil {
			return err
		}
		if err := showRows(a, reflect.ValueOf(part.list)); err != nil {
			return err
		}
	}
	return nil
}

// offerToEnd ends what a revoked token had made, if the one who sits at the terminal says so.
func offerToEnd(ctx context.Context, q *asked) error {
	a, made := q.App, q.answer.(*token.Revoked).Made
	switch {
	case len(made) == 0:
		return nil
	case !screen.IsTerminal(a.Stdin):
		a.Tell("to end one of them, give its id to auth revoke; auth revoke --made ends them with the token")
		return nil
	}
	fmt.Fprintf(a.Stderr, "End these %d as well? Type yes: ", len(made))
	typed, err := bufio.NewReader(io.LimitReader(a.Stdin, 64)).ReadString('\n')
	if err != nil || strings.TrimSpace(typed) != "yes" {
		a.Tell("none was ended")
		return nil
	}
	for _, one := range made {
		_, err := calls.Auth(q.connected).Revoke(ctx, &token.RevokeAsk{ID: one.ID})
		if err != nil && codes.Of(err) != codes.NotFound {
			return fmt.Errorf("token %s: %w", one.ID, err)
		}
		if err := a.Printf("revoked %s\n", one.ID); err != nil {
			return err
		}
	}
	return nil
}
