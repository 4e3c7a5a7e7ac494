package jsontext

// ScanPrefix is ScanMessage for a text that begins with one JSON value and goes on with something else, which is not looked at: end is the index right
// behind the value. A number or a word at the top level ends where it cannot go on, so that callers who want one have to judge what follows.
func ScanPrefix(dst []Member, text []byte) (members []Member, kind Kind, end int, err error) {
	before := len(dst)
	i := skipBlanks(text, 0)
	var f fault
	if at(text, i) == '{' {
		kind = Object
		dst, i, f = scanMembers(dst, text, i, MaxMembers)
	} else {
		i, kind, f = scanValue(text, i, 0)
	}
	if f != faultNone {
		return dst[:before], Invalid, 0, newSyntaxError(text, i, f)
	}
	return dst, kind, i, nil
}

// AppendMembers appends the members of a valid object, at most MaxMembers and one more, as Scan does, without validating it
// again. Anything but an object has none.
func AppendMembers(dst []Member, valid []byte) []Member {
	it := Iterate(valid)
	if it.Container() != Object {
		return dst
	}
	for end := len(dst) + MaxMembers; it.Next() && len(dst) <= end; {
		dst = append(dst, Member{Key: it.Key(), Raw: it.Raw(), Kind: it.Kind()})
	}
	return dst
}

// Depth returns how many arrays and objects are open at once at the deepest place of valid.
func Depth(valid []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(valid); {
		switch valid[i] {
		case '"':
			i = skipString(valid, i)
			continue
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		i++
	}
	return deepest
}
