package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/access/review"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
)

// reviewCommand is the group of verbs for changes that wait for approval.
func reviewCommand(a *verb.App) *cobra.Command {
	return modelCommand(a, &cobra.Command{
		Use:   "review",
		Short: "Changes that wait for another person's approval",
		Long: `Review lists the changes that someone has asked for and someone else has to approve,
shows what they would do, and approves, rejects or withdraws them. What needs approval
is said by roles, see docs/access.md. Verbs whose change is held exit with code 7.`,
		Example: `  confcenter review list
  confcenter review show 12
  confcenter review approve 12 -m "as agreed"`,
	}, review.Operations, map[string]special{"show": {show: as(showReview)}})
}

// showReview prints a change and what it would do, line by line.
func showReview(a *verb.App, c *review.Shown) error {
	var b strings.Builder
	fmt.Fprintf(&b, "change %d, %s, by %s at %s", c.Number, c.State, screen.Cell(c.By), screen.Time(c.Made))
	if c.Author != "" {
		fmt.Fprintf(&b, " for %s", screen.Cell(c.Author))
	}
	b.WriteByte('\n')
	if c.Comment != "" {
		fmt.Fprintf(&b, "why: %s\n", screen.Cell(c.Comment))
	}
	if c.Decider != "" {
		fmt.Fprintf(&b, "decided by %s at %s %s\n", screen.Cell(c.Decider), screen.Time(c.Decided), screen.Cell(c.Reason))
	}
	for i := range c.Parts {
		showPart(&b, &c.Parts[i])
	}
	if c.Outdated {
		b.WriteString("it cannot be approved any more, because something has changed since it was asked for\n")
	}
	if c.Next > 0 {
		fmt.Fprintf(&b, "more: --offset %d\n", c.Next)
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

func showPart(b *strings.Builder, p *review.Part) {
	fmt.Fprintf(b, "%-8s %s", p.Kind, screen.Cell(p.What))
	if p.Outdated {
		b.WriteString(" (changed since)")
	}
	b.WriteByte('\n')
	if p.Old != "" || p.Kind == review.Deleted && p.Diff == "" {
		fmt.Fprintf(b, "- %s\n", screen.Cell(p.Old))
	}
	if p.Type != "" {
		fmt.Fprintf(b, "+ %s (%s)\n", screen.Cell(p.New), p.Type)
	}
	if p.TTL != 0 {
		fmt.Fprintf(b, "  ends %s after the approval\n", time.Duration(p.TTL)*time.Millisecond)
	}
	if p.Expires != 0 {
		fmt.Fprintf(b, "  ends at %s\n", screen.Time(p.Expires))
	}
	if p.If != "" {
		fmt.Fprintf(b, "  if: %s\n", screen.Cell(p.If))
	}
	b.WriteString(p.Diff)
	if p.Cut {
		b.WriteString("…\n")
	}
}
