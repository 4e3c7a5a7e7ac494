package op

import (
	"encoding"
	"encoding/json" // for the interface by which types read themselves
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Read reads a question from an object that the scanner has accepted, and keeps nothing of it.
// Unlike a library, it says which member is wrong and what it must be; and it refuses members
// that are unknown or that are there twice, because a lost or doubled one would do silent
// harm. null is as good as absent. Before it allocates it asks room, unless that is nil, for
// what lists and texts take, in bytes.
func (o *Operation) Read(object []byte, room func(bytes int64) error) (any, error) {
	q := o.Ask()
	r := reading{room: room}
	if err := r.object(object, reflect.ValueOf(q).Elem(), ""); err != nil {
		return nil, err
	}
	return q, nil
}

// Set reads one member of a question from text that is not JSON: a word of a query or of a
// command line. Members of other forms than texts, numbers and flags are JSON even there; a
// list of texts gets one more.
func (m *Member) Set(question any, text string) error {
	v := reflect.ValueOf(question).Elem().FieldByIndex(m.Index)
	if m.Form == ListForm && FormOf(m.Type.Elem()) == TextForm {
		one := reflect.New(m.Type.Elem()).Elem()
		if err := new(reading).value(jsontext.AppendQuote(nil, text), one, TextForm, m.Name); err != nil {
			return err
		}
		v.Set(reflect.Append(v, one))
		return nil
	}
	raw := []byte(text)
	if m.Form == TextForm {
		raw = jsontext.AppendQuote(nil, text)
	} else if _, err := jsontext.Check(raw); err != nil {
		return codes.Errorf(codes.BadRequest, "%s must be %v, not %.40q", m.Name, m.Form, text)
	}
	return new(reading).value(raw, v, m.Form, m.Name)
}

// reading is one question being read.
type reading struct {
	room func(bytes int64) error
	owed int64 // not asked for yet
}

// askedFor is how much is asked for at a time.
const askedFor = 16 << 10

// take asks for room.
func (r *reading) take(bytes int) error {
	r.owed += int64(bytes)
	if r.room == nil || r.owed < askedFor {
		return nil
	}
	owed := r.owed
	r.owed = 0
	return r.room(owed)
}

// memberTTL is a time to live, which counts as left out if it is 0, and so must not be given as that.
const memberTTL = "ttl"

// value reads raw into v, which has that form. at names it.
func (r *reading) value(raw []byte, v reflect.Value, form Form, at string) error {
	kind := jsontext.KindOf(raw)
	if v.Kind() == reflect.Pointer {
		if kind == jsontext.Null {
			return nil
		}
		if err := r.take(int(v.Type().Elem().Size())); err != nil {
			return err
		}
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(raw, v.Elem(), form, at)
	}
	switch own := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		if err := r.take(len(raw)); err != nil {
			return err
		}
		return refused(at, own.UnmarshalJSON(raw))
	case encoding.TextUnmarshaler:
		if kind == jsontext.String {
			return refused(at, own.UnmarshalText(jsontext.Unquote(raw)))
		}
	}
	if kind == jsontext.Null {
		return nil
	}
	switch {
	case form == TextForm && kind == jsontext.String:
		return r.text(raw, v, at)
	case form == WholeForm && kind == jsontext.Number:
		n, ok := jsontext.Int64(raw)
		if !ok || v.OverflowInt(n) {
			return codes.Errorf(codes.BadRequest, "%s is %.40s, which is not a whole number of %d bits", named(at), raw, v.Type().Bits())
		}
		if at == memberTTL && n == 0 {
			return codes.Errorf(codes.BadTTL, "%s is 0: leave it out for the usual time", named(at))
		}
		v.SetInt(n)
	case form == NumberForm && kind == jsontext.Number:
		n, _ := strconv.ParseFloat(string(raw), 64) // the scanner knows that it fits
		v.SetFloat(n)
	case form == FlagForm && kind == jsontext.Bool:
		v.SetBool(raw[0] == 't')
	case form == ListForm && kind == jsontext.Array:
		return r.list(raw, v, at)
	case form == ObjectForm && kind == jsontext.Object:
		return r.object(raw, v, at)
	case form == TableForm && kind == jsontext.Object:
		return r.table(raw, v, at)
	default:
		return codes.Errorf(codes.BadRequest, "%s must be %v", named(at), form)
	}
	return nil
}

func (r *reading) text(raw []byte, v reflect.Value, at string) error {
	if err := r.take(len(raw)); err != nil {
		return err
	}
	text := jsontext.Unquote(raw)
	if !utf8.Valid(text) {
		return codes.Errorf(codes.BadRequest, "%s is not UTF-8", named(at))
	}
	v.SetString(string(text))
	return nil
}

// object reads the members of a struct.
func (r *reading) object(raw []byte, v reflect.Value, at string) error {
	members := MembersOf(v.Type())
	seen := make([]bool, len(members))
	for it := jsontext.Iterate(raw); it.Next(); {
		key := it.Key()
		i := indexOf(members, key)
		where := below(at, string(key))
		switch {
		case i < 0:
			return codes.Errorf(codes.BadRequest, "%s is not known here", named(where))
		case seen[i]:
			return twice(where)
		}
		seen[i] = true
		if err := r.value(it.Raw(), v.FieldByIndex(members[i].Index), members[i].Form, where); err != nil {
			return err
		}
	}
	return nil
}

// table reads an object into a map from texts.
func (r *reading) table(raw []byte, v reflect.Value, at string) error {
	t, form := v.Type(), FormOf(v.Type().Elem())
	all := reflect.MakeMap(t)
	for it := jsontext.Iterate(raw); it.Next(); {
		key, one := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		where := below(at, string(it.Key()))
		if err := r.text(it.KeyToken(), key, where); err != nil {
			return err
		}
		if all.MapIndex(key).IsValid() {
			return twice(where)
		}
		const overhead = 64
		if err := r.take(overhead + int(t.Elem().Size())); err != nil {
			return err
		}
		if err := r.value(it.Raw(), one, form, where); err != nil {
			return err
		}
		all.SetMapIndex(key, one)
	}
	v.Set(all)
	return nil
}

func (r *reading) list(raw []byte, v reflect.Value, at string) error {
	n := 0
	for it := jsontext.Iterate(raw); it.Next(); {
		n++
	}
	if err := r.take(n * int(v.Type().Elem().Size())); err != nil {
		return err
	}
	all := reflect.MakeSlice(v.Type(), n, n)
	i, form := 0, FormOf(v.Type().Elem())
	for it := jsontext.Iterate(raw); it.Next(); i++ {
		if err := r.value(it.Raw(), all.Index(i), form, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	v.Set(all)
	return nil
}

func indexOf(members []Member, key []byte) int {
	return slices.IndexFunc(members, func(m Member) bool { return m.Name == string(key) })
}

// below names a member of what is at.
func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func named(at string) string { return fmt.Sprintf("member %.80q", at) }

func twice(at string) error {
	return codes.Errorf(codes.BadRequest, "%s is there twice", named(at))
}

// refused names the member that a type of its own has refused.
func refused(at string, err error) error {
	if err == nil {
		return nil
	}
	code := codes.Of(err)
	if code == codes.Internal {
		code = codes.BadRequest
	}
	return codes.Errorf(code, "%s: %w", named(at), err)
}
