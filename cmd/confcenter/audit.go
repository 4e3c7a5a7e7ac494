package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"confcenter/access/audit"
	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/op"
	"confcenter/protocol"
)

// auditCommand lists lines of the audit; below it are the verbs that check them.
func auditCommand(a *verb.App) *cobra.Command {
	lines := &audit.Operations[0]
	question := lines.Ask().(*audit.LinesAsk)
	command := &cobra.Command{}
	defineWords(a, command, lines, question)
	command.Use, command.Short, command.Args = "audit", "Who did what, and what was refused", verb.OnlyVerbs
	command.Long = `Audit prints the newest 50 lines of the audit, or all that the flags select; with --limit
the newest so many of these, and with --after or --from the first. With -o json each is one
line of JSON, as it is kept, so that verify can check them.`
	command.Example = `  confcenter audit --kind denied --follow
  confcenter audit --what config:game/ --last 100000 -o json
  confcenter audit verify`
	follow := command.Flags().Bool("follow", false, "go on with lines as they come")
	c := a.Connect(command)
	c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		chosen := func(m op.Member) bool { return command.Flags().Changed(m.Name) }
		if !slices.ContainsFunc(op.MembersOf(lines.Question()), chosen) {
			question.Last = shownLines
		}
		return auditLines(ctx, c, calls.Audit(connected), question, *follow)
	})
	command.AddCommand(auditVerifyCommand(a), operationCommand(a, &audit.Operations[2], protocol.OfModel("audit", 2), special{show: as(showHead)}))
	return command
}

// shownLines are those that audit prints if nothing is chosen.
const shownLines = 50

// auditEvery is how often new lines are asked for.
const auditEvery = 500 * time.Millisecond

// auditLines prints lines and, if it is to follow, those that come.
func auditLines(ctx context.Context, c *verb.Connection, from *calls.AuditCalls, q *audit.LinesAsk, follow bool) error {
	for {
		// As far as this is looked at, even if none of the lines is of interest.
		head, err := from.Head(ctx, &audit.HeadAsk{})
		if err == nil {
			err = auditPages(ctx, c, from, q)
		}
		switch {
		case err != nil && follow && ctx.Err() != nil:
			return nil
		case err != nil || !follow:
			return err
		}
		seen, err := audit.ParseHead(head.Head)
		if err != nil {
			return err
		}
		q.After, q.Last, q.Limit = max(q.After, seen.Seq), 0, 0
		select {
		case <-time.After(auditEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// auditPages prints what there is now, and leaves the last line that it has printed in q.After.
// Of a limit without a beginning the newest lines are meant, which the server does not tell apart.
func auditPages(ctx context.Context, c *verb.Connection, from *calls.AuditCalls, q *audit.LinesAsk) error {
	limit, newest := int(q.Limit), q.Limit > 0 && q.After == 0 && q.From == 0
	if newest {
		q.Limit = 0
	}
	if newest && q.Last == 0 && q.Filter == (audit.Filter{}) {
		q.Last = int64(limit)
	}
	var kept []audit.Line
	for {
		answer, err := from.Lines(ctx, q)
		if err != nil {
			return err
		}
		if kept = append(kept, answer.Lines...); newest {
			kept = kept[max(0, len(kept)-limit):]
		}
		more := answer.Next > 0 && (limit == 0 || newest || int64(len(kept)) < q.Limit)
		if limit > 0 && !newest {
			q.Limit -= int64(len(kept))
		}
		for ; len(kept) > 0 && !(newest && more); kept = kept[1:] {
			if err := showAuditLine(c, &kept[0]); err != nil {
				return err
			}
			q.After = max(q.After, kept[0].Seq)
		}
		if !more {
			return nil
		}
		q.After, q.Last = answer.Next, 0
	}
}

func showAuditLine(c *verb.Connection, l *audit.Line) error {
	if c.JSON() {
		return c.Printf("%s\n", l.Append(nil))
	}
	text := fmt.Sprintf("%d %s %s %s", l.Seq, screen.Moment(l.Time), l.Kind, screen.Cell(cmp.Or(l.Who, l.Says)))
	for _, more := range []string{l.From, l.Do, strings.Join(l.What, " ")} {
		if more != "" {
			text += " " + more
		}
	}
	if l.More > 0 {
		text += fmt.Sprintf(" and %d more", l.More)
	}
	if l.Rev > 0 {
		text += fmt.Sprintf(" revision %d", l.Rev)
	}
	if l.Outcome != "ok" {
		text += ": " + l.Outcome
	}
	if l.Count > 1 {
		text += fmt.Sprintf(" (%d times)", l.Count)
	}
	return c.Printf("%v\n", text)
}

// showHead prints a head as --head takes it; what was removed is in its JSON.
func showHead(a *verb.App, answer *audit.HeadAnswer) error {
	return a.Printf("%v\n", answer.Head)
}

// auditVerifyCommand checks the chain, of the server or of a file that was exported.
func auditVerifyCommand(a *verb.App) *cobra.Command {
	verify := &audit.Operations[1]
	question := verify.Ask().(*audit.VerifyAsk)
	command := &cobra.Command{}
	defineWords(a, command, verify, question)
	command.Use, command.Args = "verify [FILE]", verb.Arguments
	command.Short = "Check that no line of the audit was changed or removed"
	command.Long = `Verify checks that each line has the hash of the one before, and that the last one is the
server's newest. With a FILE of lines as --audit-file writes them, or - for standard
input, it asks no server: what is missing at the end then shows only in a --head that was
kept, as confcenter audit head prints it. Lines that go on behind those of another file are
verified with --after and the head of that.

The exit code is 0 if all lines are right, and 1 if one was changed or is gone, if the
first is not line 1 and none says that those before were removed for their age, or if FILE
has none.`
	c := a.Connect(command)
	c.WaitLong(command)
	online := c.Asks(command, func(ctx context.Context, connected *client.Client, _ []string) error {
		return verifyAudit(ctx, c, calls.Audit(connected), question)
	}).RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return online(command, args)
		}
		answer, err := verifyAuditFile(a, args[0], question)
		if err != nil {
			return err
		}
		return showVerified(c, answer)
	}
	return command
}

// verifyAudit has the server check all of its lines, some at a time.
func verifyAudit(ctx context.Context, c *verb.Connection, from *calls.AuditCalls, q *audit.VerifyAsk) error {
	whole := q.After == ""
	var all audit.VerifyAnswer
	for parts := 1; ; parts++ {
		part, err := from.Verify(ctx, q)
		if err != nil {
			return err
		}
		all.First = cmp.Or(all.First, part.First)
		all.Lines, all.Head, all.Fault, all.Line, all.Pruned = all.Lines+part.Lines, part.Head, part.Fault, part.Line, max(all.Pruned, part.Pruned)
		if part.Next == "" {
			if parts > 1 && whole && all.Fault == "" && all.Pruned < all.First-1 { // a part alone cannot tell
				all.Fault, all.Line = audit.Unexplained(all.Pruned, all.First-1).Error(), all.Pruned+1
			}
			return showVerified(c, &all)
		}
		q.After = part.Next
	}
}

// verifyAuditFile checks the lines of a file.
func verifyAuditFile(a *verb.App, name string, q *audit.VerifyAsk) (*audit.VerifyAnswer, error) {
	in := a.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	var c audit.Checker
	if err := c.Expect(q.After, q.Head); err != nil {
		return nil, verb.UsageError{Err: err}
	}
	err := c.ReadAll(in)
	answer := &audit.VerifyAnswer{Lines: c.Lines, First: c.First, Head: c.Head.String(), Pruned: c.Pruned}
	if fault := audit.FaultOf(err); fault != nil {
		answer.Fault, answer.Line, err = fault.Text, fault.Seq, nil
	} else if err == nil && c.Lines == 0 {
		err = fmt.Errorf("%s: there are no lines", name)
	}
	return answer, err
}

// showVerified prints what was found; a fault is an error.
func showVerified(c *verb.Connection, v *audit.VerifyAnswer) error {
	if c.JSON() {
		if err := c.PrintJSON(v); err != nil {
			return err
		}
	}
	switch {
	case v.Fault != "":
		return fmt.Errorf("the audit is not as it was written: %s", v.Fault)
	case c.JSON():
		return nil
	case v.Lines == 0:
		return c.Printf("there are no lines\n")
	}
	return c.Printf("%d lines are right, the first is %d\nhead: %s\n", v.Lines, v.First, v.Head)
}
