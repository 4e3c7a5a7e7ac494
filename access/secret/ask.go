package secret

import (
	"bytes"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// member is the only member of the objects that ask for a value to be sealed.
const member = "$seal"

// Asks reports whether valid JSON has a member $seal, so that it must not be kept, nor shown to
// anyone, as it is.
func Asks(valid []byte) bool {
	if !bytes.Contains(valid, []byte(member)) && bytes.IndexByte(valid, '\\') < 0 {
		return false // the most of them
	}
	asks := false
	eachMember(valid, func(int, int, int) bool {
		asks = true
		return false
	})
	return asks
}

// Mentions is Asks for text that need not be JSON. It may say so of text that does not ask for
// anything, but never the other way round.
func Mentions(text []byte) bool {
	return bytes.Contains(text, []byte(member)) || bytes.Contains(text, []byte(`\u`)) && escapedMember(text)
}

// escapedMember looks for the member where each of its characters may be escaped.
func escapedMember(text []byte) bool {
	for at := 0; ; at++ {
		next := bytes.IndexByte(text[at:], '"')
		if next < 0 {
			return false
		}
		at += next
		end := at + 1
		for end < len(text) && end < at+len(member)*6+2 && text[end] != '"' {
			end++
		}
		if end < len(text) && text[end] == '"' && jsontext.UnquotedEqual(text[at:end+1], []byte(member)) {
			return true
		}
	}
}

// eachMember calls fn for each member $seal of valid JSON, with where the last byte before it is
// that is no blank, where its value begins and where that ends, until fn returns false. It does not
// look into these values.
func eachMember(valid []byte, fn func(before, begin, end int) bool) {
	before := -1
	for i := 0; i < len(valid); {
		switch valid[i] {
		case ' ', '\t', '\n', '\r':
			i++
			continue
		case '"':
		default:
			before = i
			i++
			continue
		}
		end := jsontext.Skip(valid, i)
		behind := skipBlanks(valid, end)
		if behind == len(valid) || valid[behind] != ':' || !jsontext.UnquotedEqual(valid[i:end], []byte(member)) {
			before, i = end-1, end
			continue
		}
		begin := skipBlanks(valid, behind+1)
		end = jsontext.Skip(valid, begin)
		if !fn(before, begin, end) {
			return
		}
		before, i = end-1, end
	}
}

// Unable is the refusal of a value to be sealed where there is no key.
var Unable = codes.Errorf(codes.NotImplemented, "there is a value to be sealed ($seal), and the server has no key to do that with: start it with --secret-key-file, or, if it was, see /readyz?verbose; nothing was written")

// Seal returns valid with the objects that ask for a value to be sealed replaced by marks of that
// origin, and valid itself if there are none. codes.BadRequest: one cannot be sealed; [Unable].
// The rest of the text stays as it is.
func (r *Ring) Seal(origin string, valid []byte) (sealed []byte, err error) {
	if !Asks(valid) {
		return valid, nil
	}
	if !r.Seals() {
		return nil, Unable
	}
	return eachAsked(valid, func(value []byte) string { return r.value(version, origin, value) })
}

// Unsealed is what stands for a value to be sealed where something is shown that is not written.
const Unsealed = "$secret: sealed when it is written"

// Conceal is Seal for what is only shown: Unsealed stands in the place of each mark.
func Conceal(valid []byte) (concealed []byte, err error) {
	if !Asks(valid) {
		return valid, nil
	}
	return eachAsked(valid, func([]byte) string { return Unsealed })
}

// eachAsked replaces the objects that ask for a value to be sealed by texts. What it gives to instead is
// cleared afterwards.
func eachAsked(valid []byte, instead func(value []byte) string) (replaced []byte, err error) {
	done := 0
	eachMember(valid, func(before, begin, end int) bool {
		behind := skipBlanks(valid, end)
		if before < 0 || valid[before] != '{' || valid[behind] != '}' {
			err = codes.Errorf(codes.BadRequest, `a member $seal has others beside it, and must be alone: {"$seal": VALUE}; nothing was written`)
			return false
		}
		value := jsontext.AppendCompact(nil, valid[begin:end])
		if Asks(value) || Has(value) {
			err = codes.Errorf(codes.BadRequest, "what is within $seal has sealed values itself; seal either them or what is around them; nothing was written")
			return false
		}
		replaced = jsontext.AppendQuote(append(replaced, valid[done:before]...), instead(value))
		clear(value)
		done = behind + 1
		return true
	})
	if err != nil {
		return nil, err
	}
	return append(replaced, valid[done:]...), nil
}
