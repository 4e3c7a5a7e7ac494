package playerjson

import (
	"encoding/base64"
	"slices"
	"strconv"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
)

// readFields appends what o has as fields and bytes to list, which is empty: at most limit; 0
// is no limit.
func readFields(r *kvjson.Reader, o *kvjson.Object, limit int, list []field.Field) []field.Field {
	texts, n := kvjson.Members(r, o, kvjson.Fields)
	octets, more := kvjson.Members(r, o, kvjson.Bytes)
	switch n += more; {
	case n == 0:
		return list
	case limit > 0 && n > limit:
		r.Fail(tooMany())
		return nil
	}
	list = slices.Grow(list, n)
	for texts.Next() {
		f, raw := field.Field{Name: string(texts.Key())}, texts.Raw()
		if texts.Kind() != jsontext.String {
			r.Fail(codes.Errorf(codes.BadValue, "field %.40q is a JSON %s; write its value as a string", f.Name, texts.Kind()))
			return nil
		}
		if f.Value = jsontext.AppendUnquote(make([]byte, 0, len(raw)-len(`""`)), raw); !utf8.Valid(f.Value) {
			r.Fail(codes.Errorf(codes.BadValue, "field %.40q is not UTF-8; give it in bytes, in base64", f.Name))
		}
		list = append(list, f)
	}
	for octets.Next() {
		f := field.Field{Name: string(octets.Key())}
		if octets.Kind() != jsontext.String {
			r.Fail(notBase64(f.Name))
			return nil
		}
		f.Value = decode(r, f.Name, jsontext.Unquote(octets.Raw()))
		list = append(list, f)
	}
	return list
}

// decode reads base64.
func decode(r *kvjson.Reader, name string, text []byte) []byte {
	octets, err := base64.StdEncoding.Strict().AppendDecode([]byte{}, text)
	if err != nil {
		r.Fail(notBase64(name))
	}
	return octets
}

func notBase64(name string) error {
	return codes.Errorf(codes.BadValue, "field %.40q of bytes is not base64", name)
}

// readVersioned is readFields with the versions that o has for fields, those of others
// included.
func readVersioned(r *kvjson.Reader, o *kvjson.Object) []field.Field {
	return readVersions(r, o, readFields(r, o, 0, nil))
}

func readVersions(r *kvjson.Reader, o *kvjson.Object, fields []field.Field) []field.Field {
	at := make(map[string]int, len(fields))
	for i := range fields {
		at[fields[i].Name] = i
	}
	eachNumber(r, o, kvjson.Versions, 0, func(name string, version int64) {
		i, ok := at[name]
		if !ok {
			i, fields = len(fields), append(fields, field.Field{Name: name})
		}
		fields[i].Version = version
	})
	return fields
}

// eachNumber reads an object of integers, at most limit; 0 is no limit.
func eachNumber(r *kvjson.Reader, o *kvjson.Object, f kvjson.Field, limit int, fn func(name string, n int64)) {
	it, n := kvjson.Members(r, o, f)
	if limit > 0 && n > limit {
		r.Fail(tooMany())
		return
	}
	for it.Next() {
		member := jsontext.Member{Raw: it.Raw(), Kind: it.Kind()}
		n, ok := member.Int64()
		if !ok {
			r.Fail(codes.Errorf(codes.BadRequest, "%s of field %.40q is not an integer of 64 bits", f, it.Key()))
		}
		fn(string(it.Key()), n)
	}
}

// WriteFields appends the values of fields: texts in fields, others in bytes, which is left
// out if there are none.
func WriteFields(w *kvjson.Writer, list []field.Field, versions bool) {
	octets := 0
	w.Open(kvjson.Fields, '{')
	for i := range list {
		if f := &list[i]; jsontext.IsText(f.Value) {
			key(w, f.Name)
			w.Buf = jsontext.AppendQuote(w.Buf, f.Value)
		} else {
			octets++
		}
	}
	w.Close('}')
	if octets > 0 {
		w.Open(kvjson.Bytes, '{')
		for i := range list {
			if f := &list[i]; !jsontext.IsText(f.Value) {
				key(w, f.Name)
				w.Buf = append(base64.StdEncoding.AppendEncode(append(w.Buf, '"'), f.Value), '"')
			}
		}
		w.Close('}')
	}
	if versions {
		WriteVersions(w, list)
	}
}

// WriteVersions appends the versions of fields.
func WriteVersions(w *kvjson.Writer, list []field.Field) {
	w.Open(kvjson.Versions, '{')
	for i := range list {
		writeNumber(w, list[i].Name, list[i].Version)
	}
	w.Close('}')
}

// WriteDirty appends the names of the fields that are newer than what is landed.
func WriteDirty(w *kvjson.Writer, list []field.Field, landed int64) {
	w.Open(kvjson.Dirty, '[')
	for i := range list {
		if list[i].Version > landed {
			w.Comma()
			w.Buf = jsontext.AppendQuote(w.Buf, list[i].Name)
		}
	}
	w.Close(']')
}

// SizeOf is how many bytes of JSON fields take at most, with all that is told of them.
func SizeOf(list []field.Field) (n int) {
	for i := range list {
		n += list[i].Size()
	}
	return n
}

// WritePage appends a page of an owner's fields, but for its revision, and, if there is more,
// the name that the next one comes after: objects have no order.
func WritePage(w *kvjson.Writer, page *field.Page, versions bool) {
	WriteFields(w, page.Fields, versions)
	if n := len(page.Fields); page.More && n > 0 {
		writeNext(w, page.Fields[n-1].Name)
	}
}

// ReadPage reads a page, or named fields. The fields have no order. next is what the next page
// comes after; "" if there is none.
func ReadPage(r *kvjson.Reader) (page field.Page, next string) {
	if !r.Top.Has(kvjson.Fields) {
		r.Missing(kvjson.Fields)
	}
	page = field.Page{Fields: readVersioned(r, &r.Top), Revision: kv.Revision(r.Number(&r.Top, kvjson.Rev))}
	next = string(r.Text(&r.Top, kvjson.Next))
	page.More = next != ""
	return page, next
}

func writeNumber(w *kvjson.Writer, name string, n int64) {
	key(w, name)
	w.Buf = strconv.AppendInt(w.Buf, n, 10)
}

// key begins a member that is called as a field is.
func key(w *kvjson.Writer, name string) {
	w.Comma()
	w.Buf = append(jsontext.AppendQuote(w.Buf, name), ':')
}
