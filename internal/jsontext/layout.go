package jsontext

import (
	"bytes"
)

// Layout is how a text is spread over lines.
type Layout struct {
	// Newline ends each line, "\n" or "\r\n". If it is empty the text is compact, on one line.
	Newline string
	// Indent stands once per level in front of a line.
	Indent string
	// End is what follows the text: a newline or nothing.
	End string
}

// maxIndent is more than anyone means as the indent of one level.
const maxIndent = 16

// LayoutOf returns the layout of valid, as far as it can be told: a text without members or elements shows only how it
// ends. The rest is as in otherwise.
func LayoutOf(valid []byte, otherwise Layout) Layout {
	body := bytes.TrimRight(valid, " \t\r\n")
	l := otherwise
	l.End = newlineIn(valid[len(body):])
	if l.End != "" && l.Newline != "" {
		l.Newline = l.End
	}
	level := 0
	for i := skipBlanks(body, 0); i < len(body); {
		switch c := body[i]; {
		case c == '"':
			i = skipString(body, i)
			continue
		case c == '{' || c == '[':
			level++
		case c == '}' || c == ']':
			level--
		case blank[c]:
			end := skipBlanks(body, i)
			line := bytes.LastIndexByte(body[i:end], '\n')
			if line >= 0 && level > 0 && body[end] != '}' && body[end] != ']' {
				l.Newline = newlineIn(body[i:end])
				if in := body[i+line+1 : end]; len(in)%level == 0 && len(in)/level <= maxIndent {
					l.Indent = string(in[:len(in)/level])
				}
				return l
			}
			i = end
			continue
		}
		i++
	}
	if it := Iterate(body); it.Next() { // all on one line
		l.Newline, l.Indent = "", ""
	}
	return l
}

func newlineIn(blanks []byte) string {
	switch i := bytes.IndexByte(blanks, '\n'); {
	case i < 0:
		return ""
	case i > 0 && blanks[i-1] == '\r':
		return "\r\n"
	}
	return "\n"
}

// Append appends valid in the layout. dst must not share memory with valid.
func (l Layout) Append(dst, valid []byte) []byte {
	if l.Newline == "" {
		dst = AppendCompact(dst, valid)
	} else {
		p := printer{dst: dst, layout: l}
		p.print(valid)
		dst = p.dst
	}
	return append(dst, l.End...)
}

// Len returns how many bytes Append would append, or a few more if valid has blanks that it would not.
func (l Layout) Len(valid []byte) int {
	if l.Newline == "" {
		return len(valid) + len(l.End)
	}
	p := printer{layout: l, countOnly: true}
	p.print(valid)
	return p.size + len(l.End)
}
