package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// RowsOf are the rows of a table for a list; what has no cells has no row.
func RowsOf[T any](list []T, cells func(T) []any) (rows [][]any) {
	for _, one := range list {
		if row := cells(one); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// Table prints columns: a header, in which tabs separate them, and rows. On a terminal they fit it.
func Table(to io.Writer, header string, rows [][]any) error {
	var lines []string
	if header != "" {
		lines = append(lines, header)
	}
	for _, row := range rows {
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(row)), row...), "\t"))
	}
	if IsTerminal(to) {
		if width, _, err := term.GetSize(int(Raw(to).(*os.File).Fd())); err == nil {
			fit(lines, width)
		}
	}
	w := tabwriter.NewWriter(to, 0, 0, tableGap, ' ', 0)
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
