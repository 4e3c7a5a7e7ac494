package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value   string
	allowed []string
}

var _ pflag.Value = (*choice)(nil)

// Set takes text if it is one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = text
	return nil
}

// String is the word chosen.
func (c *choice) String() string { return c.value }

// Type is how help shows the flag's argument.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// define adds the choice to a command as a flag, with completion.
func (c *choice) define(command *cobra.Command, name, shorthand, usage string) {
	command.Flags().VarP(c, name, shorthand, usage)
	// It fails only for a flag that does not exist or has one already.
	_ = command.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// newOutput is the value of -o; more are formats besides text and json.
func newOutput(more ...string) *choice {
	return &choice{value: "text", allowed: append([]string{"text", "json"}, more...)}
}

func (c *choice) json() bool { return c.value == "json" }

// rowsOf are the rows of a table for a list; what has no cells has no row.
func rowsOf[T any](list []T, cells func(T) []any) (rows [][]any) {
	for _, one := range list {
		if row := cells(one); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// table prints columns: a header, in which tabs separate them, and rows. On a terminal they fit it.
func (a *app) table(header string, rows [][]any) error {
	var lines []string
	if header != "" {
		lines = append(lines, header)
	}
	for _, row := range rows {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(row)), row...), "\t"))
	}
	if isTerminal(a.stdout) {
		if width, _, err := term.GetSize(int(unescaped(a.stdout).(*os.File).Fd())); err == nil {
			fit(lines, width)
		}
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, tableGap, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

const (
	tableGap = 2
	// narrowest is how narrow a column becomes at most: identities stay whole.
	narrowest = 20
)

// fit cuts cells, which tabs separate, until lines fit a width: those of the widest columns first.
func fit(lines []string, width int) {
	var widths []int
	for _, line := range lines {
		for i, cell := range strings.Split(line, "\t") {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for left := width - tableGap*(len(widths)-1); ; {
		sum, widest := 0, 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= left || widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	for k, line := range lines {
		cells := strings.Split(line, "\t")
		for i, cell := range cells {
			if columns(cell) > widths[i] {
				for columns(cell) >= widths[i] {
					_, size := utf8.DecodeLastRuneInString(cell)
					cell = cell[:len(cell)-size]
				}
				cells[i] = cell + "…"
			}
		}
		lines[k] = strings.Join(cells, "\t")
	}
}

// columns is how many columns of a terminal a text takes.
func columns(text string) (n int) {
	for _, r := range text {
		n++
		if unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r <= 0x303F || r >= 0xFF01 && r <= 0xFF60 {
			n++
		}
	}
	return n
}

// printf prints a verb's result.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

// printing does not escape the characters of HTML.
var printing = jsoniter.Config{SortMapKeys: true}.Froze()

// printJSON writes v on one line, provided that raw JSON in it is compact.
func (a *app) printJSON(v any) error {
	line, err := printing.Marshal(v)
	if err == nil {
		_, err = a.stdout.Write(append(line, '\n'))
	}
	return err
}
