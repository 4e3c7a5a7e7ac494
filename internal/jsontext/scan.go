package jsontext

// blank holds the four bytes JSON calls whitespace.
var blank = [256]bool{' ': true, '\t': true, '\r': true, '\n': true}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && blank[text[i]] {
		i++
	}
	return i
}

// at returns the byte at i, or 0 behind the end. A raw NUL is nowhere part of valid JSON, so callers need no second test.
func at(text []byte, i int) byte {
	if i < len(text) {
		return text[i]
	}
	return 0
}

// nesting remembers for each open container whether it is an object, in one bit, so that the scanner needs neither recursion
// nor an allocation.
type nesting struct {
	depth int
	bits  [MaxDepth / 64]uint64
}

func (n *nesting) push(object bool) {
	word, bit := uint(n.depth)/64%uint(len(n.bits)), uint64(1)<<(uint(n.depth)%64)
	n.bits[word] &^= bit
	if object {
		n.bits[word] |= bit
	}
	n.depth++
}

func (n *nesting) inObject() bool {
	top := uint(n.depth - 1)
	return n.bits[top/64%uint(len(n.bits))]>>(top%64)&1 != 0
}

// scanEnd accepts blanks and nothing else behind the value that ended at i, unless the value itself was at fault.
func scanEnd(text []byte, i int, f fault) (int, fault) {
	if f != faultNone {
		return i, f
	}
	if i = skipBlanks(text, i); i < len(text) {
		return i, faultTrailing
	}
	return i, faultNone
}

// scanMembers reads the object whose brace is at i and collects its members, of which there may be so many.
func scanMembers(dst []Member, text []byte, i, most int) ([]Member, int, fault) {
	i = skipBlanks(text, i+1)
	if at(text, i) == '}' {
		return dst, i + 1, faultNone
	}
	for ; ; most-- {
		if most == 0 {
			return dst, i, faultMembers
		}
		keyStart := i
		keyEnd, escaped, f := scanKey(text, i)
		if f != faultNone {
			return dst, keyEnd, f
		}
		key := text[keyStart+1 : keyEnd-1 : keyEnd-1]
		if escaped {
			key = Unquote(text[keyStart:keyEnd])
		}
		if i, f = scanColon(text, keyEnd); f != faultNone {
			return dst, i, f
		}
		start := i
		end, kind, f := scanValue(text, i, 1)
		if f != faultNone {
			return dst, end, f
		}
		dst = append(dst, Member{Key: key, Raw: text[start:end:end], Kind: kind})
		i = skipBlanks(text, end)
		switch at(text, i) {
		case ',':
			i = skipBlanks(text, i+1)
		case '}':
			return dst, i + 1, faultNone
		default:
			return dst, i, faultMemberEnd
		}
	}
}

// scanValue reads one value within depth open containers and returns where it ends, or where it is at fault.
func scanValue(text []byte, i, depth int) (int, Kind, fault) {
	kind := Invalid
	if i < len(text) {
		kind = kindByFirst[text[i]]
	}
	if kind >= Array {
		end, f := scanContainer(text, i, depth)
		return end, kind, f
	}
	end, f := scanScalar(text, i, kind)
	return end, kind, f
}

func scanScalar(text []byte, i int, kind Kind) (int, fault) {
	switch kind {
	case String:
		end, _, f := scanString(text, i)
		return end, f
	case Number:
		return scanNumber(text, i)
	case Null:
		return scanLiteral(text, i, "null")
	case Bool:
		if text[i] == 't' {
			return scanLiteral(text, i, "true")
		}
		return scanLiteral(text, i, "false")
	}
	return i, faultValue
}

// scanContainer reads the array or object that opens at i. Each turn reads one value, or opens one container and leaves its
// first value to the next turn.
func scanContainer(text []byte, i, depth int) (int, fault) {
	var open nesting
	var f fault
	for {
		kind := Invalid
		if i < len(text) {
			kind = kindByFirst[text[i]]
		}
		if kind >= Array {
			if depth+open.depth >= MaxDepth {
				return i, faultDepth
			}
			open.push(kind == Object)
			i = skipBlanks(text, i+1)
			if c := at(text, i); kind == Object && c != '}' {
				if i, f = scanKeyColon(text, i); f != faultNone {
					return i, f
				}
				continue
			} else if kind == Array && c != ']' {
				continue
			}
		} else if i, f = scanScalar(text, i, kind); f != faultNone {
			return i, f
		}
		if i, f = scanClosers(text, i, &open); f != faultNone || open.depth == 0 {
			return i, f
		}
	}
}

// scanClosers goes on behind a value, or behind the bracket of an empty container: it closes what closes here and, unless that
// was the outermost container, returns where the next value begins.
func scanClosers(text []byte, i int, open *nesting) (int, fault) {
	for open.depth > 0 {
		i = skipBlanks(text, i)
		c := at(text, i)
		if open.inObject() {
			switch c {
			case ',':
				return scanKeyColon(text, skipBlanks(text, i+1))
			case '}':
			default:
				return i, faultMemberEnd
			}
		} else {
			switch c {
			case ',':
				return skipBlanks(text, i+1), faultNone
			case ']':
			default:
				return i, faultElementEnd
			}
		}
		open.depth--
		i++
	}
	return i, faultNone
}

func scanKey(text []byte, i int) (end int, escaped bool, f fault) {
	if at(text, i) != '"' {
		return i, false, faultKey
	}
	return scanString(text, i)
}

func scanColon(text []byte, i int) (int, fault) {
	i = skipBlanks(text, i)
	if at(text, i) != ':' {
		return i, faultColon
	}
	return skipBlanks(text, i+1), faultNone
}

func scanKeyColon(text []byte, i int) (int, fault) {
	i, _, f := scanKey(text, i)
	if f != faultNone {
		return i, f
	}
	return scanColon(text, i)
}
