package jsontext

import "math/bits"

// Skip returns where the value that begins at i in valid text ends. It does not validate again, so it is several times faster
// than a scan.
func Skip(valid []byte, i int) int {
	switch c := at(valid, i); {
	case c == '"':
		return skipString(valid, i)
	case c == '{' || c == '[':
		return skipContainer(valid, i)
	}
	for i < len(valid) && !ending[valid[i]] {
		i++
	}
	return i
}

// ending holds what may follow a number or a word.
var ending = [256]bool{',': true, ']': true, '}': true, ' ': true, '\t': true, '\r': true, '\n': true, ':': true}

func skipString(valid []byte, i int) int {
	i++
	for i < len(valid) {
		switch i = quoteEnd(valid, i); at(valid, i) {
		case '"':
			return i + 1
		case '\\':
			i += 2
		}
	}
	return len(valid)
}

// quoteEnd returns the index of the next quote or backslash, or len(valid).
func quoteEnd(valid []byte, i int) int {
	for i+8 <= len(valid) {
		w := wordAt(valid, i)
		if hit := zeroBytes(w^ones*'"') | zeroBytes(w^ones*'\\'); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	for i < len(valid) && valid[i] != '"' && valid[i] != '\\' {
		i++
	}
	return i
}

// skipContainer counts brackets outside strings; of valid text it need not know which closes which.
func skipContainer(valid []byte, i int) int {
	depth := 0
	for i < len(valid) {
		switch valid[i] {
		case '"':
			i = skipString(valid, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(valid)
}

// Iter steps through one level of a valid object or array, front to back:
//
//	for it := jsontext.Iterate(doc); it.Next(); {
//		use(it.Key(), it.Raw())
//	}
//
// Values that are not asked for are stepped over once; a value entered with Enter is not stepped over at all.
// The Iter allocates nothing; it is a value, and a copy goes on independently.
type Iter struct {
	text   []byte
	pos    int // where the current value begins, or where the next item is looked for
	end    int // behind the current value; 0 if not known yet
	key    int // the quote that opens the key token
	keyEnd int
	kind   Kind // of the container; Invalid if there is nothing (more) to step through
	inItem bool
}

// Iterate returns an Iter in front of the first member or element of valid. A scalar has none.
func Iterate(valid []byte) Iter {
	it := Iter{text: valid, pos: skipBlanks(valid, 0)}
	it.open()
	return it
}

// open goes into the container that begins at pos.
func (it *Iter) open() {
	it.kind = Invalid
	if it.pos < len(it.text) {
		it.kind = kindByFirst[it.text[it.pos]]
	}
	if it.kind < Array {
		it.kind = Invalid
	}
	it.pos++
	it.end, it.inItem = 0, false
}

// Container tells what is stepped through: Object, Array, or Invalid when there is nothing.
func (it *Iter) Container() Kind { return it.kind }

// Next goes on to the next member or element and reports whether there is one.
func (it *Iter) Next() bool {
	if it.kind == Invalid {
		return false
	}
	i := it.pos
	if it.inItem {
		if i = it.end; i == 0 {
			i = Skip(it.text, it.pos)
		}
		if i = skipBlanks(it.text, i); at(it.text, i) == ',' {
			i++
		}
	}
	i = skipBlanks(it.text, i)
	if c := at(it.text, i); i >= len(it.text) || c == '}' || c == ']' {
		it.kind = Invalid
		return false
	}
	if it.kind == Object {
		it.key = i
		it.keyEnd = Skip(it.text, i)
		i = skipBlanks(it.text, it.keyEnd)
		i = skipBlanks(it.text, min(i+1, len(it.text)))
	}
	if i <= it.pos && it.inItem { // only of invalid text: every item is at least a byte
		it.kind = Invalid
		return false
	}
	it.pos, it.end, it.inItem = i, 0, true
	return true
}

// KeyToken returns the current member's key as it stands in the text, with its quotes.
func (it *Iter) KeyToken() []byte { return it.text[it.key:it.keyEnd:it.keyEnd] }

// Key returns the current member's key decoded; it aliases the text unless there are escapes.
func (it *Iter) Key() []byte { return Unquote(it.KeyToken()) }

// KeyIs compares the current member's decoded key and allocates nothing.
func (it *Iter) KeyIs(key []byte) bool { return UnquotedEqual(it.KeyToken(), key) }

// Kind returns the current value's kind.
func (it *Iter) Kind() Kind {
	if it.pos < len(it.text) {
		return kindByFirst[it.text[it.pos]]
	}
	return Invalid
}

// Raw returns the current value's text, which aliases what was given to Iterate.
func (it *Iter) Raw() []byte {
	if it.end == 0 {
		it.end = Skip(it.text, it.pos)
	}
	return it.text[it.pos:it.end:it.end]
}

// SetEnd spares the Iter the search for the end of the current value, for callers who know the offset behind it.
func (it *Iter) SetEnd(end int) {
	if end > it.pos && end <= len(it.text) {
		it.end = end
	}
}

// Offset returns where the current value begins in the text.
func (it *Iter) Offset() int { return it.pos }

// KeyOffset returns where the current member's key begins, with its quote.
func (it *Iter) KeyOffset() int { return it.key }

// Enter returns an Iter through the current value. Its end is not searched for, so going down a path costs no more than what
// stands in front of the value at its end.
func (it *Iter) Enter() Iter {
	in := Iter{text: it.text, pos: it.pos}
	in.open()
	return in
}

// EachMember calls fn for each member of a valid object, in order and with duplicates, until fn returns false. key is decoded as
// Member.Key is; raw aliases valid. Anything but an object has no members.
func EachMember(valid []byte, fn func(key, raw []byte, kind Kind) bool) {
	it := Iterate(valid)
	if it.Container() != Object {
		return
	}
	for it.Next() {
		if !fn(it.Key(), it.Raw(), it.Kind()) {
			return
		}
	}
}

// EachElement calls fn for each element of a valid array, in order, until fn returns false. raw aliases valid. Anything but an
// array has no elements.
func EachElement(valid []byte, fn func(raw []byte, kind Kind) bool) {
	it := Iterate(valid)
	if it.Container() != Array {
		return
	}
	for it.Next() {
		if !fn(it.Raw(), it.Kind()) {
			return
		}
	}
}
