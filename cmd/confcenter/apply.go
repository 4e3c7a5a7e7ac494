package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/check"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

func applyCommand(a *verb.App) *cobra.Command {
	q := &history.ApplyAsk{Guard: true}
	command := &cobra.Command{
		Use:   "apply DIR",
		Short: "Bring the server's files to what a directory holds, all in one change",
		Long: `Apply reads DIR as a server would, hidden files and those that do not end in .json
left out, and makes the server's files the same, byte by byte: all of them in one
change, of which programs are told at once, or none. Files that the server has
besides stay, unless --prune is given.

If a file in DIR is not valid nothing is sent, and all that is wrong is printed; the
exit code is 1. If someone changes one of the files meanwhile, on the server or in
DIR, nothing is changed; the exit code is 5. So it is if a file on the server is broken,
because it is being edited by hand: --replace NAME writes that one all the same, and the
server keeps what it held. It is 0 if there was nothing to do, or
if it is done. With --dry-run nothing is changed: it prints what would be, line by
line, and which programs would be told; the exit code is 6 if there is anything.

The server remembers the last apply of each source: what --source says, else who is
proved to ask, else the author. If someone has changed a file on the server since, at
the console for example, and DIR has not got that change, nothing is changed, and the
change is named; the exit code is 5, and with --dry-run 6. Take it over into DIR, or
undo it with --replace NAME, or all such changes with --replace-all.`,
		Example: `  confcenter apply ./conf -m "limits for the sale"
  confcenter apply ./conf --prune --dry-run

  # in CI: bring the server to what the main branch has
  confcenter apply --prune -m "$(git log -1 --format=%s)" --author "$(git log -1 --format=%an)" conf`,
	}
	c := a.Connect(command)
	c.WaitLong(command)
	command.ValidArgsFunction = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	f := command.Flags()
	f.BoolVar(&q.Prune, "prune", false, "delete the server's files that DIR has not")
	f.StringVar(&q.Source, "source", "", "whose files DIR has, for example the repository; else it is who is proved to ask, else the author")
	f.StringArrayVar(&q.Replace, "replace", nil, "write this file whatever is there: what was changed since the last apply, or is broken because it is being edited by hand (may be repeated)")
	f.BoolVar(&q.ReplaceAll, "replace-all", false, "undo whatever was changed on the server since the last apply")
	f.BoolVar(&q.DryRun, "dry-run", false, "change nothing, but show what would be changed")
	defineWho(command, &q.Author, &q.Comment)
	command.RunE = func(command *cobra.Command, args []string) error {
		files, err := readDirectory(c, args[0])
		if err != nil {
			return err
		}
		return c.Do(command, func(ctx context.Context, connected *client.Client) error {
			p := &applying{Connection: c, calls: calls.History(connected), files: files, ask: q, replace: map[string]bool{}}
			for _, name := range q.Replace {
				p.replace[meta.Complete(name)] = true
			}
			return p.apply(ctx)
		})
	}
	return command
}

// readDirectory reads the documents in a directory as a server would.
func readDirectory(c *verb.Connection, dir string) (map[string][]byte, error) {
	files, r, err := check.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory cannot be applied: %w", err)
	}
	noteSkipped(c.App, r)
	if len(r.Found) > 0 {
		if err := printFindings(c, dir, r); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %d problems; nothing was changed", dir, len(r.Found))
	}
	if err := printList(c.Stderr, dir, "note: ", r.Notes); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there are no configuration files, so nothing was changed; is it the right directory?", dir)
	}
	return files, nil
}

// applying is an apply under way.
type applying struct {
	*verb.Connection
	calls *calls.HistoryCalls
	files map[string][]byte
	ask   *history.ApplyAsk

	replace map[string]bool // files that are written whatever is there

	at string // the revision that it is based on
}

func (p *applying) apply(ctx context.Context) error {
	p.ask.Author = signed(p.ask.Author)
	wanted, err := p.wanted(ctx)
	if err != nil {
		return err
	}
	p.ask.Token = rand.Text()
	dry := p.ask.DryRun
	p.ask.DryRun = true
	change, err := p.send(ctx, wanted)
	if err != nil {
		return err
	}
	if dry || len(change.Refused) > 0 {
		return p.dryRun(ctx, change)
	}
	if len(change.Undone) > 0 {
		return history.Undoes(change.Undone)
	}
	p.ask.DryRun = false
	if change, err = p.calls.Apply(ctx, p.ask); p.lost(err) {
		change, err = p.send(ctx, wanted)
	}
	if err != nil {
		return err
	}
	return p.Show(change, func() error { return showChange(p.App, change) })
}

// wanted compares the directory with what the server has: what is based on that, and what has to
// be changed.
func (p *applying) wanted(ctx context.Context) (list []history.Wanted, err error) {
	there := map[string]string{}
	for q := (history.ExportAsk{Hashes: true}); ; {
		page, err := p.calls.Export(ctx, &q)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Documents {
			there[d.Name] = d.Hash
		}
		p.at = fmt.Sprint(page.At)
		if q.From, q.Rev = page.Next, p.at; q.From == "" {
			break
		}
	}
	for name, text := range p.files {
		w := history.Wanted{Name: name, Base: "none", Text: string(text)}
		if hash, known := there[name]; p.replace[name] {
			w.Base = ""
		} else if known {
			w.Base = hash
			if hash == log.DigestOf(text).String() {
				w.Keep, w.Text = true, ""
			}
		}
		list = append(list, w)
	}
	if p.ask.Prune {
		for name, hash := range there {
			if p.files[name] == nil {
				if p.replace[name] {
					hash = ""
				}
				list = append(list, history.Wanted{Name: name, Delete: true, Base: hash})
			}
		}
	}
	for name := range p.replace {
		if !slices.ContainsFunc(list, func(w history.Wanted) bool { return w.Name == name }) {
			return nil, verb.Usagef("--replace %s: there is no such file to be applied", name)
		}
	}
	p.ask.Prune, p.ask.Whole = false, p.ask.Prune // they are named, and there is to be no other
	return list, nil
}

// pieceBytes is how much JSON a question may have, with room for the rest of the frame.
const pieceBytes = 3 << 20

// lost reports whether what was staged is gone, or some of it, because the server was restarted.
func (p *applying) lost(err error) bool {
	code := codes.Of(err)
	return p.ask.Staged > 0 && (code == codes.NotFound || code == codes.BadRequest)
}

// send asks for a change, and once more if the server was restarted meanwhile.
func (p *applying) send(ctx context.Context, wanted []history.Wanted) (*history.ChangeAnswer, error) {
	change, err := p.sendParts(ctx, wanted)
	if p.lost(err) {
		change, err = p.sendParts(ctx, wanted)
	}
	return change, err
}

// sendParts asks for a change, in parts if it is large.
func (p *applying) sendParts(ctx context.Context, wanted []history.Wanted) (*history.ChangeAnswer, error) {
	p.ask.Documents, p.ask.Staged = nil, 0
	var part []history.Wanted
	size, whole := 0, true
	flush := func() error {
		whole, p.ask.Staged = false, int64(len(wanted))
		_, err := p.calls.Stage(ctx, &history.StageAsk{Token: p.ask.Token, Documents: part})
		part, size = nil, 0
		return err
	}
	for _, w := range wanted {
		for text := w.Text; ; {
			cost := 256 + len(w.Name) + len(jsontext.AppendQuote(nil, text[:cut(text, pieceBytes/6)]))
			if size+cost > pieceBytes && size > 0 {
				if err := flush(); err != nil {
					return nil, err
				}
			}
			w.Text = text[:cut(text, pieceBytes/6)]
			part, size = append(part, w), size+cost
			w.Offset += int64(len(w.Text))
			whole = whole && len(w.Text) == len(text)
			if text = text[len(w.Text):]; text == "" {
				break
			}
		}
	}
	p.ask.Documents = part
	if !whole {
		if err := flush(); err != nil {
			return nil, err
		}
		p.ask.Documents = nil
	}
	return p.calls.Apply(ctx, p.ask)
}

// cut is where a text of at most n bytes ends that is UTF-8 if all of it is.
func cut(text string, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// dryRun shows what would be changed.
func (p *applying) dryRun(ctx context.Context, change *history.ChangeAnswer) error {
	err := p.Show(change, func() error {
		for _, r := range change.Refused[:min(len(change.Refused), mostDiffs)] {
			if err := showThere(p.App, r.Name, r.There, p.files[r.Name]); err != nil {
				return err
			}
		}
		if err := showChange(p.App, change); err != nil || change.Count == 0 {
			return err
		}
		showUndone(p.App, change)
		for _, d := range change.Documents[:min(len(change.Documents), mostDiffs)] {
			if err := p.showDiff(ctx, &d); err != nil {
				return err
			}
		}
		showTold(p.App, change)
		return nil
	})
	if err == nil {
		err = refusedBy(change)
	}
	if err == nil && change.Count > 0 {
		err = errDiffers
	}
	return err
}

// showDiff shows the lines that differ between a file of the server and that of the directory.
func (p *applying) showDiff(ctx context.Context, d *history.Touched) error {
	if d.Kind == log.Deleted {
		return nil
	}
	if d.Broken != "" {
		return showThere(p.App, d.Name, d.There, p.files[d.Name])
	}
	name, old := "/dev/null", []byte(nil)
	if d.Was != "" {
		name = d.Name + "@" + p.at
		var err error
		if old, err = textAt(ctx, p.calls, d.Name, p.at); err != nil && codes.Of(err) != codes.NotFound {
			return err
		}
	}
	return showLines(p.App, name, old, d.Name, p.files[d.Name])
}

// whole is the answer about a document with all of its text.
func whole(ctx context.Context, calls *calls.HistoryCalls, q history.ShowAsk) (*history.ShowAnswer, error) {
	all, err := calls.Show(ctx, &q)
	for part := all; err == nil && moreText(&q, part); {
		if part, err = calls.Show(ctx, &q); err == nil {
			all.Text += part.Text
		}
	}
	return all, err
}

// textAt is what a document was.
func textAt(ctx context.Context, calls *calls.HistoryCalls, name, rev string) ([]byte, error) {
	show, err := whole(ctx, calls, history.ShowAsk{Name: name, Rev: rev})
	if err != nil {
		return nil, err
	}
	return []byte(show.Text), nil
}

// showThere shows the lines that differ between a broken file of the server and what is to replace it.
func showThere(a *verb.App, name string, there history.There, next []byte) error {
	if there.Broken == "" {
		return nil
	}
	return showLines(a, name+" (broken)", []byte(there.Holds), name, next)
}

func showLines(a *verb.App, oldName string, old []byte, newName string, next []byte) error {
	_, unified, _ := bytes.Cut(diff.Diff(screen.Visible(oldName), old, screen.Visible(newName), next), []byte{'\n'}) // without the command
	_, err := a.Stdout.Write(unified)
	return err
}
