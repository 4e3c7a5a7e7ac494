package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/protocol"
)

// historyCommands are the verbs for what has become of documents. They stand beside get and set.
func historyCommands(a *verb.App) (list []*cobra.Command) {
	specials := map[string]special{
		"log": {show: as(showLog), example: "  confcenter log app1-dev\n  confcenter log --limit 10 -o json"},
		"show": {show: as(showText), follow: rest(moreText),
			example: "  confcenter show 'app1-dev@~1'\n  confcenter show app1-dev 2026-11-23T05:00 --resolved"},
		"diff": {define: defineDiff, instead: diffTwo, show: as(showDiff), follow: rest(moreDiff),
			example: "  confcenter diff app1-dev\n  confcenter diff app1-dev '~3' --paths\n  confcenter diff app1-dev app1-prod --resolved\n  confcenter diff app1-dev --against prod.example.com:4800"},
		"blame":   {show: as(showBlame), example: "  confcenter blame app1-dev\n  confcenter blame app1-dev /database"},
		"explain": {show: as(showExplain), example: "  confcenter explain app1-dev /database/host"},
		"prune":   {long: true, show: as(showPrune), follow: rest(morePrune), example: "  confcenter history prune --dry-run"},
		"rollback": {long: true, show: as(showChange), follow: rolledBack,
			before: func(q *asked) {
				_, moment := q.question.(*history.RollbackAsk).Target()
				a.RepeatTime(moment)
			},
			example: "  confcenter rollback app1-dev '~1' -m \"the new limits were too low\"\n  confcenter rollback --all 2026-11-23T03:00 --dry-run\n\n  # bring back a file that was deleted\n  confcenter rollback app1-dev"},
	}
	own := map[string]*cobra.Command{"apply": applyCommand(a), "export": exportCommand(a), "stage": nil, "preview": nil, "uses": nil}
	for place := range history.Operations {
		o := &history.Operations[place]
		if verb, is := own[o.Name]; is {
			if verb != nil {
				list = append(list, verb)
			}
			continue
		}
		verb := operationCommand(a, o, protocol.OfModel("history", place), specials[o.Name])
		speakTo(verb)
		if o.Name == "prune" {
			verb = retentionCommand(verb)
		}
		list = append(list, verb)
	}
	return list
}

// speakTo puts the help of a verb into the imperative, as that of all others beside it is. The table
// has it in the third person: "lists", not "list".
func speakTo(verb *cobra.Command) {
	word, rest, _ := strings.Cut(verb.Short, " ")
	short := strings.TrimSuffix(word, "s") + " " + rest
	verb.Long = short + strings.TrimPrefix(verb.Long, verb.Short)
	verb.Short = short
}

// retentionCommand is the group of verbs that remove from the past.
func retentionCommand(verbs ...*cobra.Command) *cobra.Command {
	return verb.Grouped(&cobra.Command{
		Use:   "history",
		Short: "How long the past of files is kept",
		Long: `Versions of files stay until they are removed by name: nothing does so by itself. Prune
removes versions that are both many and old, and by default leaves 1,000 of each file
and all of the last 365 days.`,
		Example: "  confcenter history prune --dry-run\n  confcenter history prune --keep 200 --days 90",
	}, "history needs a verb; confcenter history --help lists them", verbs...)
}

// showLog prints changes, a line for each.
func showLog(a *verb.App, log *history.LogAnswer) error {
	err := a.Table("REVISION\tTIME\tBY\tCHANGE\tCOMMENT", screen.RowsOf(log.Changes, func(c history.Change) []any {
		return []any{c.Revision, screen.Time(c.Time), screen.Cell(whoMade(&c.By)), whatChanged(&c, log.Name != ""), screen.Cell(screen.Shortened(c.Comment))}
	}))
	switch {
	case err != nil:
	case log.Next > 0:
		err = a.Printf("more: --before %d\n", log.Next)
	case log.Compacted:
		err = a.Printf("earlier ones are no longer kept\n")
	}
	return err
}

// whoMade names who made a change as well as it is known.
func whoMade(by *history.By) string {
	return cmp.Or(by.Author, strings.TrimSpace(by.Origin+" "+by.Peer))
}

// whatChanged says what a change did, to a document or to all that it touched.
func whatChanged(c *history.Change, one bool) string {
	const some = 3
	var parts []string
	for _, d := range c.Documents[:min(some, len(c.Documents))] {
		if one {
			return string(d.Kind)
		}
		part := fmt.Sprintf("%s %s", d.Name, d.Kind)
		if d.By != nil {
			part += " by " + whoMade(d.By)
		}
		parts = append(parts, part)
	}
	if more := c.Count - int64(len(parts)); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return screen.Cell(strings.Join(parts, ", "))
}

// showText prints a piece of what a document was, as it is.
func showText(a *verb.App, show *history.ShowAnswer) error {
	if show.Deleted && show.Length == 0 {
		return codes.Errorf(codes.NotFound, "%s was deleted by revision %d (%s, %s); %[1]s@%d is what it was", show.Name, show.Change.Revision, whoMade(&show.Change.By), screen.Time(show.Change.Time), show.Change.Revision-1)
	}
	_, err := io.WriteString(a.Stdout, show.Text)
	return err
}

// rest asks for what is behind an answer, and prints it, as long as more has made a question for it.
func rest[Q, A any](more func(q *Q, a *A) bool) func(context.Context, *asked) error {
	return func(_ context.Context, q *asked) error {
		for more(q.question.(*Q), q.answer.(*A)) {
			if err := q.again(); err != nil {
				return err
			}
		}
		return nil
	}
}

// moreText asks for the pieces behind the first, at the same revision.
func moreText(q *history.ShowAsk, show *history.ShowAnswer) bool {
	q.Name, q.Rev, q.Offset = show.Name, strconv.FormatInt(show.At, 10), show.Next
	return show.Next > 0
}

// showDiff prints what differs, by line or by key path.
func showDiff(a *verb.App, diff *history.DiffAnswer) error {
	if _, err := io.WriteString(a.Stdout, diff.Text); err != nil {
		return err
	}
	for i := range diff.Paths {
		p := &diff.Paths[i]
		old, new := valueText(p.Old, p.OldLength), valueText(p.New, p.NewLength)
		var err error
		switch p.What {
		case history.Added:
			err = a.Printf("+ %s %s\n", cmp.Or(p.Path, "/"), new)
		case history.Removed:
			err = a.Printf("- %s %s\n", cmp.Or(p.Path, "/"), old)
		default:
			err = a.Printf("~ %s %s -> %s\n", cmp.Or(p.Path, "/"), old, new)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func valueText(value []byte, length int64) string {
	if length > 0 {
		return fmt.Sprintf("(%d bytes)", length)
	}
	return string(value)
}

// moreDiff asks for what is behind the first page, of the same revisions.
func moreDiff(q *history.DiffAsk, diff *history.DiffAnswer) bool {
	q.Name, q.From, q.To, q.Offset = diff.Name, strconv.FormatInt(diff.From.At, 10), strconv.FormatInt(diff.To.At, 10), diff.Next
	return diff.Next > 0
}

// showBlame prints who changed each value last.
func showBlame(a *verb.App, blame *history.BlameAnswer) error {
	err := a.Table("PATH\tFILE\tREVISION\tTIME\tBY\tCOMMENT", screen.RowsOf(blame.Keys, func(k history.Blamed) []any {
		revision := strconv.FormatInt(k.Revision, 10)
		if k.Earlier {
			revision = "<=" + revision
		}
		return []any{cmp.Or(k.Path, "/"), k.File, revision, screen.Time(k.Time), screen.Cell(whoMade(&k.By)), screen.Cell(screen.Shortened(k.Comment))}
	}))
	for _, l := range blame.Looked {
		if err == nil && l.Stopped != "" {
			err = a.Printf("%s: looked back %d versions: %s\n", l.File, l.Versions, l.Stopped)
		}
	}
	if err == nil && blame.Next > 0 {
		err = a.Printf("more: --offset %d --rev %d\n", blame.Next, blame.At)
	}
	return err
}

// showExplain prints what each file has to say, the weakest first.
func showExplain(a *verb.App, e *history.ExplainAnswer) error {
	err := a.Table("FILE\tROLE\tVALUE\tWHY", screen.RowsOf(e.Files, func(f history.Say) []any {
		return []any{f.Name, f.Role, screen.Cell(screen.Shortened(valueText(f.Value, f.Length))), f.Why}
	}))
	if err == nil && e.Value == nil && e.Length == 0 {
		return codes.Errorf(codes.NotFound, "%s has no %s", e.Name, e.Path)
	}
	if err == nil {
		err = a.Printf("%s = %s\n", cmp.Or(e.Path, "/"), valueText(e.Value, e.Length))
	}
	return err
}

// showPrune prints what is gone, or would go.
func showPrune(a *verb.App, prune *history.PruneAnswer) error {
	if prune.Versions > 0 {
		if err := showRows(a, reflect.ValueOf(prune.Documents)); err != nil {
			return err
		}
	}
	err := a.Printf("versions: %d\nbytes: %d\n", prune.Versions, prune.Bytes)
	if err == nil && !prune.DryRun {
		err = a.Printf("parts of files: %d\nchanges: %d\n", prune.Chunks, prune.Changes)
	}
	return err
}

// morePrune asks again as long as there is more to remove.
func morePrune(_ *history.PruneAsk, prune *history.PruneAnswer) bool {
	return prune.More && !prune.DryRun
}
