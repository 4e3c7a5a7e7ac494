package field

import (
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/kv"
)

// Limits of the columns, in bytes.
const (
	MaxColumn = 255 // logic_type, owner_id, query_all_key and primary_key
	MaxName   = 100 // key, the name of a field
	MaxTable  = 63  // the name of a table
)

// Namespaces of the state store. Ordinary writes to them are refused, see kv.Reserved.
const (
	Prefix  = "@storage/" // and the name of a table: its fields
	Landing = "@landing"  // cursors, errors, locks, what is cold
)

// Table is the name of the table that the owner's fields are in. It is APP_REGION, or
// _APP_REGION with escapes if that would not be the same backwards.
func (o Owner) Table() string { return string(AppendTable(nil, o.App, o.Region)) }

// Namespace is where the owner's fields are in the state store.
func (o Owner) Namespace() string { return string(AppendTable([]byte(Prefix), o.App, o.Region)) }

// Key is what the database has as query_all_key: LOGIC:ID, or :LOGIC:ID with escapes if one of
// them has a colon or a control character.
func (o Owner) Key() string { return string(AppendOwner(nil, o.Logic, o.ID)) }

// Key is what the database has as primary_key, and the state store as key.
func (f Ref) Key() string {
	return string(AppendName(AppendOwner(nil, f.Owner.Logic, f.Owner.ID), f.Name))
}

// Table is the name of the table that the row is in.
func (r *Row) Table() string { return r.Owner.Table() }

// Key is the row's primary_key.
func (r *Row) Key() string { return Ref{r.Owner, r.Name}.Key() }

// Check reports whether the owner fits into the columns. The error names the column and its
// limit.
func (o Owner) Check() error {
	if err := CheckParts(o.App, o.Region, o.Logic, o.ID); err != nil {
		return err
	}
	var some [2 * MaxColumn]byte
	if n := len(AppendTable(some[:0], o.App, o.Region)); n > MaxTable {
		return tooLong("the table's name", o.App+"_"+o.Region, n, MaxTable)
	}
	if n := len(AppendOwner(some[:0], o.Logic, o.ID)); n > MaxColumn {
		return tooLong("query_all_key", o.Logic+":"+o.ID, n, MaxColumn)
	}
	return nil
}

// CheckParts is that part of Check which does not need the names that are made of an owner.
func CheckParts[T Text](app, region, logic, id T) error {
	if err := checkText("appId", app, MaxColumn); err != nil {
		return err
	}
	if err := checkText("regionId", region, MaxColumn); err != nil {
		return err
	}
	if err := checkText("logic_type", logic, MaxColumn); err != nil {
		return err
	}
	return checkText("owner_id", id, MaxColumn)
}

// CheckField does the same for a field of an owner that has been checked and has that key.
func (o Owner) CheckField(key []byte, name string) error {
	if err := checkText("key", name, MaxName); err != nil {
		return err
	}
	var some [2 * MaxColumn]byte
	if n := len(AppendName(append(some[:0], key...), name)); n > MaxColumn {
		return tooLong("primary_key", o.Logic+":"+o.ID+":"+name, n, MaxColumn)
	}
	return nil
}

func checkText[T Text](what string, text T, limit int) error {
	switch {
	case len(text) == 0:
		return codes.Errorf(codes.BadKey, "%s is empty", what)
	case len(text) > limit:
		return tooLong(what, string(text), len(text), limit)
	case printable(text):
		return nil
	case !utf8.ValidString(string(text)):
		return codes.Errorf(codes.BadKey, "%s %q is not UTF-8", what, text)
	case strings.IndexByte(string(text), 0) >= 0:
		return codes.Errorf(codes.BadKey, "%s %q has a zero byte", what, text)
	}
	return nil
}

// printable reports whether a text has only those characters of ASCII that can be seen.
func printable[T Text](t T) bool {
	for i := range len(t) {
		if c := t[i]; c < ' ' || c >= 0x7F {
			return false
		}
	}
	return true
}

func tooLong(what, text string, n, limit int) error {
	const shown = 32
	return codes.Errorf(codes.NameTooLong, "%s %q… has %d bytes, the limit is %d", what, text[:min(shown, len(text))], n, limit)
}

// Text is what names are made of: those that requests have are bytes, all others strings.
type Text interface{ string | []byte }

// AppendTable appends Owner.Table.
func AppendTable[T Text](dst []byte, app, region T) []byte {
	if plainID(app) && plainID(region) {
		return append(append(append(dst, app...), '_'), region...)
	}
	return appendID(append(appendID(append(dst, '_'), app), '_'), region)
}

func plainID[T Text](id T) bool {
	for i := range len(id) {
		if !inTable(id[i]) {
			return false
		}
	}
	return len(id) > 0
}

func inTable(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == '.' || c == '-'
}

// appendID escapes what is not safe in an identifier of SQL as z and two digits. So there is no
// '_' in it.
func appendID[T Text](dst []byte, id T) []byte {
	for i := range len(id) {
		if c := id[i]; inTable(c) && c != 'z' {
			dst = append(dst, c)
		} else {
			dst = hex.AppendEncode(append(dst, 'z'), []byte{c})
		}
	}
	return dst
}

// AppendOwner appends Owner.Key.
func AppendOwner[T Text](dst []byte, logic, id T) []byte {
	if verbatim(logic) && verbatim(id) {
		return append(append(append(dst, logic...), ':'), id...)
	}
	return appendEscaped(append(appendEscaped(append(dst, ':'), string(logic)), ':'), string(id))
}

// AppendName appends the rest of a field's key to the key of the owner.
func AppendName[T Text](dst []byte, name T) []byte {
	dst = append(dst, ':')
	if (len(name) == 0 || name[0] != ':') && !hasControl(name) {
		return append(dst, name...)
	}
	return appendEscaped(append(dst, ':'), string(name))
}

// verbatim looks at most parts once.
func verbatim[T Text](part T) bool {
	for i := range len(part) {
		if c := part[i]; c < ' ' || c >= 0x7F || c == ':' {
			return c >= 0x7F && strings.IndexByte(string(part[i:]), ':') < 0 && !hasControl(part[i:])
		}
	}
	return true
}

func hasControl[T Text](t T) bool {
	return !printable(t) && strings.IndexFunc(string(t), unicode.IsControl) >= 0
}

// appendEscaped writes colons, percent signs and control characters as % and two digits for
// each of their bytes.
func appendEscaped(dst []byte, text string) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r != ':' && r != '%' && !unicode.IsControl(r) {
			dst = append(dst, text[:size]...)
		} else {
			for i := range size {
				dst = append(dst, '%', upperHex[text[i]>>4], upperHex[text[i]&0xF])
			}
		}
		text = text[size:]
	}
	return dst
}

const upperHex = "0123456789ABCDEF"

// ParseTable is the inverse of Owner.Table; false if no ids have that table.
func ParseTable(table string) (app, region string, ok bool) {
	rest, escaped := strings.CutPrefix(table, "_")
	app, region, ok = strings.Cut(rest, "_")
	if escaped {
		var good bool
		if app, good = unescape(app, 'z'); !good {
			return "", "", false
		}
		if region, good = unescape(region, 'z'); !good {
			return "", "", false
		}
	}
	if !ok || string(AppendTable(nil, app, region)) != table || app == "" || region == "" {
		return "", "", false
	}
	return app, region, true
}

// ParseOwner reads what Owner.Table and Owner.Key wrote.
func ParseOwner(table, key string) (o Owner, ok bool) {
	o.App, o.Region, ok = ParseTable(table)
	if !ok {
		return Owner{}, false
	}
	o.Logic, o.ID, ok = ParseKey(key)
	return o, ok
}

// ParseKey is the inverse of Owner.Key.
func ParseKey(key string) (logic, id string, ok bool) {
	rest, escaped := strings.CutPrefix(key, ":")
	logic, id, ok = strings.Cut(rest, ":")
	if escaped {
		var good, too bool
		logic, good = unescape(logic, '%')
		id, too = unescape(id, '%')
		ok = ok && good && too
	}
	if !ok || logic == "" || id == "" || string(AppendOwner(nil, logic, id)) != key {
		return "", "", false
	}
	return logic, id, true
}

// ParseField reads what Row.Table and Row.Key wrote.
func ParseField(table, key string) (f Ref, ok bool) {
	n := OwnerLen(key)
	if n < 0 {
		return Ref{}, false
	}
	if f.Owner, ok = ParseOwner(table, key[:n]); !ok {
		return Ref{}, false
	}
	f.Name, ok = ParseName(key[n+1:])
	return f, ok
}

// OwnerLen is how much of a field's key is its owner's; -1 if it is none.
func OwnerLen(key string) int {
	from := 0
	if strings.HasPrefix(key, ":") {
		from = 1
	}
	colon := strings.IndexByte(key[from:], ':')
	if colon < 0 {
		return -1
	}
	from += colon + 1
	if colon = strings.IndexByte(key[from:], ':'); colon < 0 {
		return -1
	}
	return from + colon
}

// ParseName reads the name behind the owner's key and its colon.
func ParseName(text string) (name string, ok bool) {
	escaped, isEscaped := strings.CutPrefix(text, ":")
	if !isEscaped {
		return text, text != "" && !hasControl(text)
	}
	if name, ok = unescape(escaped, '%'); !ok {
		return "", false
	}
	return name, name != "" && (name[0] == ':' || hasControl(name)) && string(appendEscaped(nil, name)) == escaped
}

func unescape(text string, mark byte) (string, bool) {
	if strings.IndexByte(text, mark) < 0 {
		return text, true
	}
	raw := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != mark {
			raw = append(raw, text[i])
			continue
		}
		const digits = 2
		if i+digits >= len(text) {
			return "", false
		}
		var err error
		if raw, err = hex.AppendDecode(raw, []byte(text[i+1:i+1+digits])); err != nil {
			return "", false
		}
		i += digits
	}
	return string(raw), true
}

// Home is in which of so many dirty tables an owner's fields are: what homo computes from the
// name of its hash, so that its landers and ours agree. The hash is Java's.
func (o Owner) Home(tables int) int {
	if tables <= 1 {
		return 0
	}
	h := int32(0)
	for _, part := range [...]string{"slug-data:{", o.App, ":", o.Region, ":", o.Logic, ":", o.ID, "}"} {
		for _, r := range part {
			if r < utf8.RuneSelf {
				h = 31*h + r
			} else if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
				h = 31*(31*h+high) + low
			} else {
				h = 31*h + r
			}
		}
	}
	n := int64(h)
	return int(max(n, -n) % int64(tables))
}

// Filter selects the changes of an owner's fields.
func Filter(o Owner) kv.Filter { return kv.Filter{NS: o.Namespace(), Text: o.Key() + ":"} }
