package kvjson

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// slot is a field of a struct that is a message, or an object of one. Its tag says how:
//
//	Limit int `kv:"limit,count,omit"`
//
// Durations are numbers of ms. Octets are the member, a string, or the member bytes in base64. A flag that is not
// set is not written. A struct without a tag has its members among the others, and so has one that is embedded
// by a pointer, which is nil if the message lacks what its tag names. The words behind the name:
//
//	count   a number must not be negative
//	omit    nothing is written of a zero value
//	must    a reply without the member is none
//	else=1  is what a text is if it is left out; the wire leaves it out
type slot struct {
	at                 int // of the field
	name               Field
	count, omit, must  bool
	other              string
	among, ms, anyText bool // follow from the field: its members are among the others; a duration; octets
}

// known are the slots of types, []slot by reflect.Type: there are as many as in the program.
var known sync.Map

func slotsOf(t reflect.Type) []slot {
	if list, ok := known.Load(t); ok {
		return list.([]slot)
	}
	var list []slot
	for i := range t.NumField() {
		f := t.Field(i)
		words := strings.Split(f.Tag.Get("kv"), ",")
		s := slot{at: i, name: fieldOf([]byte(words[0])), count: slices.Contains(words, "count"), omit: slices.Contains(words, "omit"), must: slices.Contains(words, "must")}
		for _, w := range words {
			if other, ok := strings.CutPrefix(w, "else="); ok {
				s.other = other
			}
		}
		s.among = f.Anonymous || f.Type.Kind() == reflect.Struct && words[0] == ""
		s.ms, s.anyText = f.Type == reflect.TypeFor[time.Duration](), f.Type == reflect.TypeFor[[]byte]()
		switch {
		case s.name != noField, s.among:
			list = append(list, s)
		case words[0] != "" && words[0] != "-":
			panic("kvjson: " + t.String() + ": there is no member " + words[0])
		}
	}
	known.Store(t, list)
	return list
}

// Struct appends what the tags of v, a pointer to a struct, say.
func (w *Writer) Struct(v any) { write(w, reflect.ValueOf(v).Elem()) }

// AppendList appends an array of structs.
func AppendList(dst []byte, d Dialect, list any) []byte {
	w := Writer{Buf: dst, Dialect: d}
	writeList(&w, reflect.ValueOf(list))
	return w.Buf
}

func write(w *Writer, v reflect.Value) {
	list := slotsOf(v.Type())
	for i := range list {
		if s, f := &list[i], v.Field(list[i].at); !s.omit || !f.IsZero() {
			s.write(w, f)
		}
	}
}

func (s *slot) write(w *Writer, f reflect.Value) {
	name := s.name
	if name == Rev && w.Dialect != Wire {
		name = Revision
	}
	switch f.Kind() {
	case reflect.Pointer:
		if !f.IsNil() {
			s.write(w, f.Elem())
		}
	case reflect.Bool:
		w.Flag(name, f.Bool())
	case reflect.String:
		if text := f.String(); s.other == "" || w.Dialect != Wire || text != "" && text != s.other {
			w.Text(name, text)
		}
	case reflect.Uint64:
		w.Number(name, int64(f.Uint()))
	case reflect.Struct:
		if s.among {
			write(w, f)
			return
		}
		w.Open(name, '{')
		write(w, f)
		w.Close('}')
	case reflect.Slice:
		if s.anyText {
			writeOctets(w, name, f.Bytes())
			return
		}
		w.Buf = appendField(w.Buf, name)
		writeList(w, f)
	default:
		n := f.Int()
		if s.ms {
			n = time.Duration(n).Milliseconds()
		}
		w.Number(name, n)
	}
}

func writeList(w *Writer, v reflect.Value) {
	w.Buf = append(w.Buf, '[')
	for i := range v.Len() {
		if one := v.Index(i); one.Kind() == reflect.String {
			w.Comma()
			w.Buf = jsontext.AppendQuote(w.Buf, one.String())
		} else {
			w.Element()
			write(w, one)
			w.Close('}')
		}
	}
	w.Close(']')
}

// writeOctets appends a text, or base64 of what is none or has zero bytes; nil is left out.
func writeOctets(w *Writer, name Field, value []byte) {
	switch {
	case value == nil:
	case jsontext.IsText(value) && !slices.Contains(value, 0): // a NUL takes 6 bytes in a text
		w.Text(name, string(value))
	default:
		w.Open(Bytes, '"')
		w.Buf = base64.StdEncoding.AppendEncode(w.Buf, value)
		w.Close('"')
	}
}

// ReadStruct reads the members of the message that the tags of v, a pointer to a struct, name, and has v Check itself
// if it can. What is read shares no memory with the message.
func ReadStruct(r *Reader, v any) {
	read(r, &r.Top, reflect.ValueOf(v).Elem())
	if c, ok := v.(interface{ Check() error }); ok && r.err == nil {
		r.err = c.Check()
	}
}

func read(r *Reader, o *Object, v reflect.Value) {
	list := slotsOf(v.Type())
	for i := range list {
		s := &list[i]
		if s.must && !o.Has(s.name) {
			r.Missing(s.name)
		}
		s.read(r, o, v.Field(s.at))
	}
}

func (s *slot) read(r *Reader, o *Object, f reflect.Value) {
	switch f.Kind() {
	case reflect.Pointer:
		if o.Has(s.name) {
			f.Set(reflect.New(f.Type().Elem()))
			s.read(r, o, f.Elem())
		}
	case reflect.Bool:
		f.SetBool(r.Flag(o, s.name))
	case reflect.String:
		if f.SetString(s.other); o.Has(s.name) {
			f.SetString(string(r.Text(o, s.name)))
		}
	case reflect.Uint64:
		f.SetUint(uint64(r.Count(o, s.name)))
	case reflect.Struct:
		var in Object
		if s.among {
			read(r, o, f)
		} else if EnterMember(r, 0, o, s.name, &in) {
			read(r, &in, f)
			r.Leave(&in)
		}
	case reflect.Slice:
		if s.anyText {
			f.SetBytes(readOctets(r, o, s.name))
			return
		}
		if s.omit && o.Has(s.name) {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0)) // an empty one is not the same as none
		}
		s.readList(r, o, f)
	default:
		n := r.Number(o, s.name)
		if s.count {
			n = r.Count(o, s.name)
		}
		if s.ms {
			n *= int64(time.Millisecond)
		}
		f.SetInt(n)
	}
}

func (s *slot) readList(r *Reader, o *Object, f reflect.Value) {
	var in Object
	for list := r.Elements(o, s.name, 0); r.Next(&list, &in); {
		one := reflect.New(f.Type().Elem()).Elem()
		switch {
		case one.Kind() != reflect.String:
			read(r, &in, one)
		case list.Kind() != jsontext.String:
			r.Bad(s.name, "an array of strings")
			return
		default:
			one.SetString(string(jsontext.Unquote(list.Raw())))
		}
		f.Set(reflect.Append(f, one))
	}
}

// readOctets is nil if there are none.
func readOctets(r *Reader, o *Object, name Field) []byte {
	if o.Has(name) {
		return append([]byte{}, r.Text(o, name)...)
	}
	if !o.Has(Bytes) {
		return nil
	}
	value, err := base64.StdEncoding.Strict().AppendDecode([]byte{}, r.Text(o, Bytes))
	if err != nil {
		r.Fail(codes.Errorf(codes.BadValue, "field %q of bytes is not base64", ""))
	}
	return value
}
