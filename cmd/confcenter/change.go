package main

import (
	"context"
	"fmt"
	"strings"

	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
)

// showChange prints what a change has done, or would do.
func showChange(a *verb.App, change *history.ChangeAnswer) error {
	switch {
	case len(change.Refused) > 0:
		return nil // an error follows
	case change.Count == 0:
		return a.Printf("nothing to do\n")
	}
	for _, d := range change.Documents {
		if err := a.Printf("%-8s %s\n", d.Kind, screen.Visible(d.Name)); err != nil {
			return err
		}
	}
	if more := change.Count - int64(len(change.Documents)); more > 0 {
		fmt.Fprintf(a.Stdout, "and %d more\n", more)
	}
	if change.Revision > 0 {
		return a.Printf("revision %d, %d documents\n", change.Revision, change.Count)
	}
	return nil
}

// showTold prints which programs would be told of a change, and whether it would have to wait.
func showTold(a *verb.App, change *history.ChangeAnswer) {
	if change.Held {
		fmt.Fprintf(a.Stdout, "it would be held until another person approves, because of %s\n", screen.Cell(screen.Visible(strings.Join(change.Approval, ", "))))
	}
	if change.Told == 0 {
		fmt.Fprintln(a.Stdout, "no connected program uses them")
		return
	}
	fmt.Fprintf(a.Stdout, "programs that would be told: %d\n", change.Told)
	for _, p := range change.Programs {
		fmt.Fprintf(a.Stdout, "  %s %s: %s\n", screen.Cell(screen.Visible(p.Name)), p.Address, screen.Visible(strings.Join(p.Files, ", ")))
	}
	if more := change.Told - int64(len(change.Programs)); more > 0 {
		fmt.Fprintf(a.Stdout, "  and %d more\n", more)
	}
}

// showUndone prints what was changed on the server and would be undone.
func showUndone(a *verb.App, change *history.ChangeAnswer) {
	for _, u := range change.Undone {
		who := ""
		if u.By != nil {
			who = fmt.Sprintf(" (%s, %s: %s)", screen.Cell(whoMade(u.By)), screen.Time(u.By.Time), screen.Cell(screen.Shortened(u.By.Comment)))
		}
		fmt.Fprintf(a.Stdout, "would be refused: %s was changed by revision %d%s, and that would be undone\n", u.Name, u.Revision, who)
	}
}

// refusedBy is the error for a dry run that would be refused.
func refusedBy(change *history.ChangeAnswer) error {
	if len(change.Refused) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "the change would be refused, because of %d documents:", len(change.Refused))
	code := codes.Conflict
	for _, r := range change.Refused {
		if code == codes.Conflict {
			code = codes.Code(r.Code)
		}
		text.WriteString("\n  " + screen.Visible(r.Desc))
	}
	return &codes.Error{Code: code, Text: text.String()}
}

// mostDiffs is how many documents a dry run shows line by line.
const mostDiffs = 100

// rolledBack shows what a dry run would change, line by line.
func rolledBack(ctx context.Context, q *asked) error {
	a, change := q.App, q.answer.(*history.ChangeAnswer)
	if !q.question.(*history.RollbackAsk).DryRun {
		return nil
	}
	if err := refusedBy(change); err != nil || change.Count == 0 {
		return err
	}
	calls := calls.History(q.connected)
	for _, d := range change.Documents[:min(len(change.Documents), mostDiffs)] {
		if d.Kind == log.Deleted {
			continue
		}
		if d.Broken != "" {
			next, err := textAt(ctx, calls, d.Name, fmt.Sprint(change.At))
			if err == nil {
				err = showThere(a, d.Name, d.There, next)
			}
			if err != nil {
				return err
			}
			continue
		}
		for q := (history.DiffAsk{Name: d.Name, From: "~0", To: fmt.Sprint(change.At)}); ; {
			diff, err := calls.Diff(ctx, &q)
			if err != nil {
				return err
			}
			fmt.Fprint(a.Stdout, diff.Text)
			if q.From, q.Offset = fmt.Sprint(diff.From.At), diff.Next; q.Offset == 0 {
				break
			}
		}
	}
	showTold(a, change)
	return errDiffers
}
