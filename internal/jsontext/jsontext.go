// Package jsontext treats JSON as what it is on the wire and on disk: text.
//
// Values are never turned into Go numbers or maps and back, so a number or a string comes out byte for byte as it went
// in. There is one strict scanner, [Scan]; everything that arrives from outside passes it once. Behind it the text is
// known to be valid, and the cheap half of the package applies: [Iter] and [Skip] step over values without
// looking at them again, [AppendCompact] and [AppendIndent] change blanks only, [Unquote] and [AppendQuote] go between
// string tokens and bytes.
//
// The grammar is RFC 8259 with the limits that the clients' own parsers set: see [Scan]. Nothing here recurses, so no
// text can overflow the stack; functions that ask for valid text return nonsense for other text but do not panic.
// Results alias the text they were cut from: keeping one keeps the text alive, and the text must not be written to.
package jsontext

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// MaxDepth is how many arrays and objects may be open at once. Scan refuses deeper text before any library that
// recurses gets to see it.
const MaxDepth = 512

// Kind tells the JSON type of a value.
type Kind uint8

// The kinds of a value. Invalid is the zero Kind: no value, or text that is not JSON.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"invalid", "null", "bool", "number", "string", "array", "object"}

// String returns the kind's name as error texts use it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Invalid]
}

// KindOf tells a value's kind by its first byte, which must not be a blank. The rest is not looked at.
func KindOf(raw []byte) Kind {
	if len(raw) == 0 {
		return Invalid
	}
	return kindByFirst[raw[0]]
}

var kindByFirst = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// Member is one member of an object.
type Member struct {
	// Key is the decoded key. It aliases the text unless the key was written with escapes.
	Key []byte
	// Raw is the value's text without blanks around it. It aliases the text.
	Raw []byte
	// Kind is the value's type.
	Kind Kind
}

// Scan validates the whole text in one pass. If it is an object, its members are appended to dst in the order of the text,
// duplicates included; the members of a nested object are validated only. Nothing is allocated as long as dst has room and
// no key is written with escapes.
//
// Invalid are, besides what RFC 8259 forbids: nesting beyond MaxDepth, a byte order mark, numbers too large for
// a double, and \u escapes of half a surrogate pair. Bytes that are not UTF-8 are accepted within strings. The error is a
// *SyntaxError; dst then comes back as long as it was.
func Scan(dst []Member, text []byte) ([]Member, Kind, error) { return scan(dst, text, math.MaxInt) }

// MaxMembers is how many members the object of a message may have, unknown ones included: each takes many times the
// memory of its text.
const MaxMembers = 1 << 14

// ScanMessage is Scan for texts that peers send to be read as messages: an object with more than MaxMembers is refused.
func ScanMessage(dst []Member, text []byte) ([]Member, Kind, error) {
	return scan(dst, text, MaxMembers)
}

func scan(dst []Member, text []byte, most int) ([]Member, Kind, error) {
	before := len(dst)
	i := skipBlanks(text, 0)
	var kind Kind
	var f fault
	if at(text, i) == '{' {
		kind = Object
		dst, i, f = scanMembers(dst, text, i, most)
	} else {
		i, kind, f = scanValue(text, i, 0)
	}
	if i, f = scanEnd(text, i, f); f != faultNone {
		return dst[:before], Invalid, newSyntaxError(text, i, f)
	}
	return dst, kind, nil
}

// Check validates the whole text as Scan does, and allocates nothing but the error.
func Check(text []byte) (Kind, error) {
	i, kind, f := scanValue(text, skipBlanks(text, 0), 0)
	if i, f = scanEnd(text, i, f); f != faultNone {
		return Invalid, newSyntaxError(text, i, f)
	}
	return kind, nil
}

// CheckUTF8 validates the whole text as Check does, and refuses bytes that are not UTF-8 too. Documents pass it: they are
// cut and merged into texts that other parsers read.
func CheckUTF8(text []byte) (Kind, error) {
	kind, err := Check(text)
	if err != nil || utf8.Valid(text) {
		return kind, err
	}
	i := 0
	for {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			reason := fmt.Sprintf("byte 0x%02X at offset %d is not UTF-8, save the text as UTF-8", text[i], i)
			return Invalid, &SyntaxError{Offset: i, Reason: reason}
		}
		i += size
	}
}

// Find returns the first member with that key; keys are case-sensitive. That the first of several wins is the rule of the
// clients' parsers, so every reader of a document has to agree with it.
func Find(members []Member, key string) (Member, bool) {
	for i := range members {
		if string(members[i].Key) == key {
			return members[i], true
		}
	}
	return Member{}, false
}
