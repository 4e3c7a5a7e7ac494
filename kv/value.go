package kv

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Type is the type of a value.
type Type uint8

// The types. A value is kept and returned as the text that was written; its type
// determines which texts are valid.
const (
	String Type = iota + 1 // any UTF-8
	Int                    // decimal, 64 bits with sign
	Double                 // as C's printf prints a double, including nan and inf
	Bool                   // true or false
	Bytes                  // any octets
	JSON                   // one JSON text
	// Removed is any octets that count as removed though they are kept. Only namespaces
	// that are Reserved have it. Its JSON is that of Bytes.
	Removed
)

var typeNames = [...]string{String: "string", Int: "int", Double: "double", Bool: "bool", Bytes: "bytes", JSON: "json", Removed: "removed"}

func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// ParseType returns the type with that name, or codes.BadType.
func ParseType(name string) (Type, error) {
	for t, known := range typeNames {
		if known == name && known != "" {
			return Type(t), nil
		}
	}
	return 0, codes.Errorf(codes.BadType, "type %q is unknown: use string, int, double, bool, bytes or json", name)
}

// Octets reports whether values of the type are any octets, for which JSON has base64.
func (t Type) Octets() bool { return t == Bytes || t == Removed }

// Value is a typed value: Data is its text, or the octets themselves.
type Value struct {
	Type Type
	lock bool // see Entry.Lock; it is here because there is room, where every entry would need more for it
	Data []byte
}

// StringValue is s as a value.
func StringValue(s string) Value { return Value{Type: String, Data: []byte(s)} }

// IntValue is n as a value.
func IntValue(n int64) Value { return Value{Type: Int, Data: strconv.AppendInt(nil, n, 10)} }

// DoubleValue is f as a value, in the shortest text that reads back as f.
func DoubleValue(f float64) Value {
	switch {
	case math.IsNaN(f):
		return Value{Type: Double, Data: []byte("nan")}
	case math.IsInf(f, 0):
		return Value{Type: Double, Data: []byte(map[bool]string{true: "inf", false: "-inf"}[f > 0])}
	}
	return Value{Type: Double, Data: strconv.AppendFloat(nil, f, 'g', -1, 64)}
}

// BoolValue is b as a value.
func BoolValue(b bool) Value { return Value{Type: Bool, Data: strconv.AppendBool(nil, b)} }

// BytesValue is b as a value, which keeps b.
func BytesValue(b []byte) Value { return Value{Type: Bytes, Data: b} }

// JSONValue is a JSON text as a value, which keeps text. It is not checked here.
func JSONValue(text []byte) Value { return Value{Type: JSON, Data: text} }

// Equal reports whether type and text are the same.
func (v Value) Equal(w Value) bool { return v.Type == w.Type && bytes.Equal(v.Data, w.Data) }

// Check reports whether the text fits the type and the size limit. It returns
// codes.BadType, codes.BadValue or codes.TooLarge.
func (v Value) Check() error {
	if len(v.Data) > MaxValue {
		return codes.Errorf(codes.TooLarge, "value has %d bytes, the limit is %d", len(v.Data), MaxValue)
	}
	var err error
	switch v.Type {
	case Bytes, Removed:
	case String:
		if !utf8.Valid(v.Data) {
			return codes.Errorf(codes.BadValue, "value is not UTF-8, as a string must be; use type bytes")
		}
	case Int:
		_, err = v.Int()
	case Double:
		_, err = v.Double()
	case Bool:
		_, err = v.Bool()
	case JSON:
		if _, err = jsontext.CheckUTF8(v.Data); err != nil {
			return codes.Errorf(codes.BadValue, "value is not JSON: %w", err)
		}
		if len(v.Data) > 2*MaxDepth && jsontext.Depth(v.Data) > MaxDepth {
			return codes.Errorf(codes.BadValue, "value is nested deeper than %d", MaxDepth)
		}
	default:
		return codes.Errorf(codes.BadType, "%s is unknown", v.Type)
	}
	return err
}

// Int returns the value of an Int, or codes.WrongType for another type.
func (v Value) Int() (int64, error) {
	if v.Type != Int {
		return 0, WrongType(v, Int)
	}
	n, err := strconv.ParseInt(string(v.Data), 10, 64)
	if err != nil {
		return 0, badValue(v, err)
	}
	return n, nil
}

// Double returns the value of a Double or an Int, or codes.WrongType for another
// type.
func (v Value) Double() (float64, error) {
	if v.Type == Int {
		n, err := v.Int()
		return float64(n), err
	}
	if v.Type != Double {
		return 0, WrongType(v, Double)
	}
	if isNaN(v.Data) {
		return math.NaN(), nil
	}
	if bytes.IndexByte(v.Data, '_') >= 0 { // Go's, not C's
		return 0, badValue(v, strconv.ErrSyntax)
	}
	f, err := strconv.ParseFloat(string(v.Data), 64)
	if err != nil {
		return 0, badValue(v, err)
	}
	return f, nil
}

// isNaN accepts all forms in which C libraries print a NaN: with a sign, which Go
// does not read, and with a note in parentheses.
func isNaN(text []byte) bool {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		text = text[1:]
	}
	const nan = 3 // letters
	if len(text) < nan || !bytes.EqualFold(text[:nan], []byte("nan")) {
		return false
	}
	note := text[nan:]
	if len(note) == 0 {
		return true
	}
	if len(note) < len("()") || note[0] != '(' || note[len(note)-1] != ')' {
		return false
	}
	for _, c := range note[1 : len(note)-1] {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

// Bool returns the value of a Bool, or codes.WrongType for another type.
func (v Value) Bool() (bool, error) {
	if v.Type != Bool {
		return false, WrongType(v, Bool)
	}
	switch string(v.Data) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, badValue(v, strconv.ErrSyntax)
}

// Sealed reports whether the value is nothing but the mark of one that is sealed: whatever type that
// has, the mark is JSON.
func (v Value) Sealed() bool {
	return v.Type == JSON && bytes.HasPrefix(v.Data, []byte(`"$secret:v`)) && jsontext.Skip(v.Data, 0) == len(v.Data)
}

// WrongType is the refusal of a value that must have another type.
func WrongType(v Value, want Type) error {
	if v.Sealed() {
		return codes.Errorf(codes.WrongType, "the value is sealed, so a mark of type json is here in place of what may be of type %s: ask for it to be revealed, or put another", want)
	}
	return codes.Errorf(codes.WrongType, "the value is of type %s, not %s", v.Type, want)
}

// badValue shows the beginning of a value that is refused.
func badValue(v Value, err error) error {
	const shown = 40
	why := "is not of type " + v.Type.String()
	if errors.Is(err, strconv.ErrRange) {
		why = "is outside the range of " + v.Type.String()
	}
	return codes.Errorf(codes.BadValue, "value %q %s", v.Data[:min(shown, len(v.Data))], why)
}
