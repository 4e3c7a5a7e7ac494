package jsontext

// AppendCompact appends valid without the blanks outside its strings; the text of numbers and strings is not touched. dst may be
// valid[:0], which then compacts in place.
func AppendCompact(dst, valid []byte) []byte {
	start := 0
	for i := 0; i < len(valid); {
		switch c := valid[i]; {
		case c == '"':
			i = skipString(valid, i)
		case blank[c]:
			end := skipBlanks(valid, i)
			dst = append(dst, valid[start:i]...)
			i, start = end, end
		default:
			i++
		}
	}
	return append(dst, valid[start:]...)
}

// AppendIndent appends valid in the form people edit: a line per member and element, indent once per level, a blank behind
// each colon. Empty containers stay `{}` and `[]`; a newline at the end is left to the caller. Text that is deep and long
// at once grows enormously: ask IndentLen first where the text comes from outside. dst must not share memory with valid.
func AppendIndent(dst, valid []byte, indent string) []byte {
	return Layout{Newline: "\n", Indent: indent}.Append(dst, valid)
}

// IndentLen returns how many bytes AppendIndent would append.
func IndentLen(valid []byte, indent string) int {
	return Layout{Newline: "\n", Indent: indent}.Len(valid)
}

type printer struct {
	dst       []byte
	size      int
	layout    Layout
	depth     int
	countOnly bool
}

func (p *printer) print(valid []byte) {
	for i := skipBlanks(valid, 0); i < len(valid); i = skipBlanks(valid, i) {
		switch c := valid[i]; c {
		case '{', '[':
			p.put(valid[i : i+1])
			next := skipBlanks(valid, i+1)
			if c := at(valid, next); c == '}' || c == ']' {
				p.put(valid[next : next+1])
				i = next + 1
				continue
			}
			p.depth++
			p.newline()
			i++
		case '}', ']':
			p.depth = max(0, p.depth-1)
			p.newline()
			p.put(valid[i : i+1])
			i++
		case ',':
			p.put(valid[i : i+1])
			p.newline()
			i++
		case ':':
			p.text(": ")
			i++
		default:
			end := max(Skip(valid, i), i+1)
			p.put(valid[i:end])
			i = end
		}
	}
}

func (p *printer) put(b []byte) {
	p.size += len(b)
	if !p.countOnly {
		p.dst = append(p.dst, b...)
	}
}

func (p *printer) text(s string) {
	p.size += len(s)
	if !p.countOnly {
		p.dst = append(p.dst, s...)
	}
}

func (p *printer) newline() {
	if p.countOnly {
		p.size += len(p.layout.Newline) + p.depth*len(p.layout.Indent)
		return
	}
	p.text(p.layout.Newline)
	for range p.depth {
		p.text(p.layout.Indent)
	}
}
