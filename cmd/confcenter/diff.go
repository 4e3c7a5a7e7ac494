package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json" // for the type of a value that is JSON already
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/cmd/confcenter/screen"
	"confcenter/cmd/confcenter/serving"
	"confcenter/cmd/confcenter/verb"
	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/internal/textdiff"
)

const (
	againstFlag      = "against"
	againstTokenFlag = "against-token-file"
)

// defineDiff adds to diff what compares two files.
func defineDiff(command *cobra.Command) {
	command.Use = "diff NAME [FROM [TO]] | diff NAME OTHER | diff NAME [OTHER] --against ADDR"
	command.Long += `

If the second argument is no revision it is the name of another file, and the two are
compared as they are now, or each at a revision: diff app1 'app1-dev@~1'. Lines with -
and old values are those of NAME, lines with + and new values those of OTHER. A file
whose name looks like a revision is given with .json.

With --against the second file is one of another server, by default the one of the
same name. The settings of TLS count for both servers. The token is not given to the
other one: --against-token-file has one for it.`
	f := command.Flags()
	f.String(againstFlag, "", "address of another server, HOST:PORT or unix:PATH: compare with a file there")
	f.String(againstTokenFlag, "", "file with the token that says to that server who you are")
}

// fileSide is one of two files that are compared.
type fileSide struct {
	Server string          `json:"server,omitempty"` // if it is another one
	Name   string          `json:"name"`
	At     int64           `json:"at"`
	Change *history.Change `json:"change,omitempty"`

	text []byte
}

// twoFiles is what differs between two files.
type twoFiles struct {
	From  *fileSide      `json:"from"`
	To    *fileSide      `json:"to"`
	Same  bool           `json:"same"`
	Text  string         `json:"text,omitempty"`
	Paths []history.Path `json:"paths,omitempty"`
}

// diffTwo compares two files, if that is what is asked for.
func diffTwo(ctx context.Context, command *cobra.Command, c *asked) (bool, error) {
	q := c.question.(*history.DiffAsk)
	against, _ := command.Flags().GetString(againstFlag)
	token, _ := command.Flags().GetString(againstTokenFlag)
	named := q.From != "" && !history.IsMoment(q.From) && !strings.HasPrefix(q.From, "~")
	switch {
	case against == "" && token != "":
		return false, verb.Usagef("%s = %s: is for the server that --%s names", againstTokenFlag, token, againstFlag)
	case against == "" && !named:
		return false, nil
	case q.To != "" || q.From != "" && !named:
		return false, verb.Usagef("two files are compared: give the revision of a file behind its name, as in %s@%s", q.Name, cmp.Or(q.To, q.From))
	case q.Offset != 0:
		return false, verb.Usagef("two files are compared as a whole: there is no offset")
	}
	from, err := sideOf(ctx, calls.History(c.connected), q.Name, q.Resolved)
	if err != nil {
		return false, err
	}
	other := cmp.Or(q.From, q.Name)
	var to *fileSide
	if against == "" {
		to, err = sideOf(ctx, calls.History(c.connected), other, q.Resolved)
		if codes.Of(err) == codes.NotFound {
			err = fmt.Errorf("%w; as a revision it would be a number, '~N' or a time like 2026-11-23T05:00:00Z", err)
		}
	} else if to, err = sideAt(ctx, c.Connection, command, against, token, other, q.Resolved); err != nil {
		err = fmt.Errorf("at %s: %w", against, err)
	}
	if err != nil {
		return false, err
	}
	answer, err := differOf(from, to, q.Paths)
	if err != nil {
		return false, err
	}
	return true, c.Show(answer, func() error { return showDiff(c.App, &history.DiffAnswer{Text: answer.Text, Paths: answer.Paths}) })
}

// sideAt reads a file of another server.
func sideAt(ctx context.Context, c *verb.Connection, command *cobra.Command, addr, token, name string, resolved bool) (*fileSide, error) {
	if _, err := serving.OpenAddress(addr); err != nil {
		return nil, verb.UsageError{Err: err}
	}
	config, err := c.Config(command)
	if err != nil {
		return nil, err
	}
	config.Addrs, config.Token = []string{addr}, ""
	if token != "" {
		if config.Token, err = c.TokenIn(token); err != nil {
			return nil, verb.UsageError{Err: err}
		}
	}
	connected, err := client.Dial(ctx, config)
	if err != nil {
		return nil, err
	}
	side, err := sideOf(ctx, calls.History(connected), name, resolved)
	if closed := connected.Close(); err == nil {
		err = closed
	}
	if err == nil {
		side.Server = addr
	}
	return side, err
}

// sideOf reads a file. With what it inherits its text has no lines of its own, and gets some.
func sideOf(ctx context.Context, calls *calls.HistoryCalls, name string, resolved bool) (*fileSide, error) {
	show, err := whole(ctx, calls, history.ShowAsk{Name: name, Resolved: resolved})
	if err != nil {
		return nil, err
	}
	if show.Deleted && show.Length == 0 {
		return nil, codes.Errorf(codes.NotFound, "%s was deleted by revision %d; %[1]s@%d is what it was", show.Name, show.Change.Revision, show.Change.Revision-1)
	}
	side := &fileSide{Name: show.Name, At: show.At, Change: show.Change, text: []byte(show.Text)}
	switch {
	case resolved:
		side.text = append(jsontext.AppendIndent(nil, side.text, "    "), '\n')
	case side.Change != nil:
		side.At = side.Change.Revision // the number of log
	}
	return side, nil
}

// String names a side in a diff.
func (s *fileSide) String() string {
	text := fmt.Sprintf("%s@%d", s.Name, s.At)
	if s.Server != "" {
		text += " at " + s.Server
	}
	return text
}

// longestValue is how long a value is that is told by key path.
const longestValue = 4 << 10

// differOf compares two files by line, or by key path.
func differOf(from, to *fileSide, paths bool) (*twoFiles, error) {
	answer := &twoFiles{From: from, To: to, Same: string(from.text) == string(to.text)}
	if !paths {
		text, err := textdiff.Between(from.text, to.text).Unified(screen.Visible(from.String()), screen.Visible(to.String()))
		answer.Text = string(text)
		return answer, err
	}
	for _, s := range []*fileSide{from, to} {
		if _, err := jsontext.Check(s.text); err != nil { // a version from before files were checked
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	c := jsonpath.Comparer{Tell: func(path string, what jsonpath.Difference, old, new []byte) {
		p := history.Path{Path: path, What: what}
		p.Old, p.OldLength = shortValue(old)
		p.New, p.NewLength = shortValue(new)
		answer.Paths = append(answer.Paths, p)
	}}
	err := c.Compare(jsontext.AppendCompact(nil, from.text), jsontext.AppendCompact(nil, to.text))
	answer.Same = len(answer.Paths) == 0
	return answer, err
}

func shortValue(value []byte) (json.RawMessage, int64) {
	if len(value) > longestValue {
		return nil, int64(len(value))
	}
	return bytes.Clone(value), 0
}
