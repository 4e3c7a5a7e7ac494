package policy

import (
	"net/url"
	"strings"

	"confcenter/codes"
)

// MaxPattern is the length of a pattern in bytes.
const MaxPattern = 4 << 10

// separator stands between the parts of a name. Names have no control characters, so
// no two names are the same.
const separator = 0

// pattern is one or many names of a class.
type pattern struct {
	class Class
	text  string // the name, or the beginning of names
	many  bool   // text is a beginning
}

// AppendName appends to dst the name of a thing as [Permits] take it, from the parts that the class has.
func AppendName[T string | []byte](dst []byte, parts ...T) []byte {
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, separator)
		}
		dst = append(dst, part...)
	}
	return dst
}

// parseWhat reads what a rule is about; "*" is a pattern for each class.
func parseWhat(text string) ([]pattern, error) {
	if len(text) > MaxPattern {
		return nil, codes.Errorf(codes.TooLarge, "%q… has %d bytes, and the limit is %d", text[:32], len(text), MaxPattern)
	}
	if text == "*" {
		list := make([]pattern, classes)
		for c := range classes {
			list[c] = pattern{class: c, many: true}
		}
		return list, nil
	}
	name, rest, named := strings.Cut(text, ":")
	class, err := ParseClass(name)
	if err != nil {
		return nil, err
	}
	if !named || rest == "*" {
		return []pattern{{class: class, many: true}}, nil
	}
	p, err := parsePattern(class, rest)
	if err != nil {
		return nil, err
	}
	return []pattern{p}, nil
}

// ParseName reads the name of a thing, written as in rules but without "*", as [Permits] take
// it. codes.BadRequest: it is none.
func ParseName(class Class, text string) (string, error) {
	p, err := parsePattern(class, text)
	switch {
	case err != nil:
		return "", err
	case p.many:
		return "", codes.Errorf(codes.BadRequest, "%q stands for many; give the name of one", class.String()+":"+text)
	}
	return p.text, nil
}

// parsePattern reads a pattern without its class.
func parsePattern(class Class, text string) (pattern, error) {
	p := pattern{class: class}
	row := classTable[class]
	bad := func(why string) (pattern, error) {
		return pattern{}, codes.Errorf(codes.BadRequest, "%q: %s", class.String()+":"+text, why)
	}
	beginning, many := strings.CutSuffix(text, "*")
	p.many = many
	switch {
	case row.parts == 0:
		return bad("nothing in this class has a name; leave the colon and the rest out")
	case text == "":
		return bad("the name is missing; leave the colon out for everything in the class")
	case strings.Contains(beginning, "*"):
		return bad("a * can only be at the end; in a name write %2A")
	}
	parts := []string{beginning}
	if row.parts > 1 {
		parts = strings.SplitN(beginning, "/", row.parts)
	}
	for i := range parts {
		part, err := url.PathUnescape(parts[i])
		if err != nil {
			return bad("a % must be followed by two hexadecimal digits; for a % write %25")
		}
		if strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7F }) {
			return bad("a name has no control characters")
		}
		if last := i == len(parts)-1; part == "" && !(last && many) {
			return bad("a part of the name is empty")
		}
		parts[i] = part
	}
	p.text = strings.Join(parts, string(rune(separator)))
	if !many && len(parts) < row.parts {
		p.text += string(rune(separator))
		p.many = true
	}
	return p, nil
}

// matches reports whether name is one of the pattern's.
func (p *pattern) matches(name string) bool {
	return name == p.text || p.many && strings.HasPrefix(name, p.text)
}
