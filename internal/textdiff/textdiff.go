// Package textdiff compares two texts line by line.
package textdiff

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
)

// around is how many lines a unified diff has around those that differ.
const around = 3

// Diff is the part of two texts in which they differ, with some lines around it: a change of one line of
// a long text takes little to compare.
type Diff struct {
	old, new []byte
	skipped  int // lines that come before it
}

// Between looks for the part in which two texts differ.
func Between(old, new []byte) Diff {
	short := min(len(old), len(new))
	first := 0
	for first < short && old[first] == new[first] {
		first++
	}
	first = bytes.LastIndexByte(old[:first], '\n') + 1
	last := 0 // from the end
	for last < short-first && old[len(old)-1-last] == new[len(new)-1-last] {
		last++
	}
	if line := bytes.IndexByte(old[len(old)-last:], '\n'); line >= 0 {
		last -= line + 1
	} else {
		last = 0
	}
	for range around {
		first = bytes.LastIndexByte(old[:max(first-1, 0)], '\n') + 1
		last -= bytes.IndexByte(old[len(old)-last:], '\n') + 1
	}
	return Diff{old[first : len(old)-last], new[first : len(new)-last], bytes.Count(old[:first], []byte{'\n'})}
}

// Cost is about how many bytes Unified takes.
func (d Diff) Cost() int {
	const perLine = 256
	lines := bytes.Count(d.old, []byte{'\n'}) + bytes.Count(d.new, []byte{'\n'}) + 2
	return 3*(len(d.old)+len(d.new)) + lines*perLine
}

// Unified is the difference as diff -u tells it, without the command. It is empty if the texts are the
// same.
func (d Diff) Unified(oldName, newName string) ([]byte, error) {
	text := diff.Diff(oldName, d.old, newName, d.new)
	if _, rest, found := bytes.Cut(text, []byte{'\n'}); found { // without the command
		text = rest
	}
	return moved(text, d.skipped)
}

// moved is a unified diff of texts that begin some lines later.
func moved(text []byte, lines int) ([]byte, error) {
	if lines == 0 {
		return text, nil
	}
	var out []byte
	for line := range bytes.Lines(text) {
		var from, fromLines, to, toLines int
		if !bytes.HasPrefix(line, []byte("@@")) {
			out = append(out, line...)
			continue
		}
		const header = "@@ -%d,%d +%d,%d @@\n"
		if _, err := fmt.Sscanf(string(line), header, &from, &fromLines, &to, &toLines); err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, header, from+lines, fromLines, to+lines, toLines)
	}
	return out, nil
}
