package jsontext

import "bytes"

// Bounds of what AppendAlike compares, because each level costs a pass over what lies below it.
const (
	maxAlike      = 8 // levels
	maxAlikeBytes = 1 << 20
)

// AppendAlike is Append for a text that takes the place of old, which is valid too: a container with the members that it has
// there, in the same order, or with as many elements, is spread over lines as there. A changed value is then all that differs.
// Texts of more than 1 MiB, and what is nested deeply, are laid out anew.
func (l Layout) AppendAlike(dst, valid, old []byte) []byte {
	if max(len(valid), len(old)) > maxAlikeBytes {
		return l.Append(dst, valid)
	}
	p := printer{dst: dst, layout: l}
	p.alike(bytes.Trim(valid, " \t\r\n"), bytes.Trim(old, " \t\r\n"))
	return append(p.dst, l.End...)
}

// alike prints valid, which stands where old stood; neither has blanks around it.
func (p *printer) alike(valid, old []byte) {
	now, was := Iterate(valid), Iterate(old)
	switch {
	case now.Container() == Invalid || now.Container() != was.Container() || p.depth >= maxAlike:
		p.plain(valid)
	case sameItems(now, was):
		from := 0
		p.depth++
		for now.Next() && was.Next() {
			p.put(old[from:was.Offset()])
			if now.Kind() < Array {
				p.put(now.Raw())
			} else {
				p.alike(now.Raw(), was.Raw())
			}
			from = was.Offset() + len(was.Raw())
		}
		p.depth--
		p.put(old[from:])
	default:
		p.anew(valid, now, was)
	}
}

// plain prints valid as if there had been nothing in its place.
func (p *printer) plain(valid []byte) {
	if p.layout.Newline == "" {
		p.dst = AppendCompact(p.dst, valid)
		return
	}
	p.print(valid)
}

// anew prints a container that has other items than before, and those that it had as they were.
func (p *printer) anew(valid []byte, now, was Iter) {
	object := now.Container() == Object
	members, elements := map[string][]byte{}, [][]byte(nil)
	for was.Next() {
		if object {
			members[string(was.KeyToken())] = was.Raw()
		} else {
			elements = append(elements, was.Raw())
		}
	}
	p.put(valid[:1])
	p.depth++
	n := 0
	for ; now.Next(); n++ {
		if n > 0 {
			p.text(",")
		}
		p.newline()
		var old []byte
		if object {
			old = members[string(now.KeyToken())]
			p.put(now.KeyToken())
			p.text(":")
			if p.layout.Newline != "" {
				p.text(" ")
			}
		} else if n < len(elements) {
			old = elements[n]
		}
		p.alike(now.Raw(), old)
	}
	p.depth--
	if n > 0 {
		p.newline()
	}
	p.put(valid[len(valid)-1:])
}

func sameItems(a, b Iter) bool {
	object := a.Container() == Object
	for {
		more := a.Next()
		switch {
		case more != b.Next():
			return false
		case !more:
			return true
		case object && !bytes.Equal(a.KeyToken(), b.KeyToken()):
			return false
		}
	}
}
