package storagejson

import (
	"encoding/base64"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
)

// ReadOwner reads whose fields a message is about.
func ReadOwner(r *kvjson.Reader) Owner {
	return ownerIn(r, &r.Top)
}

func ownerIn(r *kvjson.Reader, o *kvjson.Object) Owner {
	return Owner{
		App: idOr(r, o, kvjson.AppID), Region: idOr(r, o, kvjson.RegionID),
		Logic: string(r.Text(o, kvjson.LogicType)), ID: string(r.Text(o, kvjson.OwnerID)),
	}
}

// idOr is the default if there is no such member. One that is empty stays so, and is refused
// later.
func idOr(r *kvjson.Reader, o *kvjson.Object, f kvjson.Field) string {
	if !o.Has(f) {
		return DefaultID
	}
	return string(r.Text(o, f))
}

// ReadWrite reads a write but for its owner. What it returns shares no memory with the
// message. Names and sizes are left to the store.
func ReadWrite(r *kvjson.Reader, kind Kind) Write {
	w := Write{Prev: r.Flag(&r.Top, kvjson.Prev), Expect: ReadNumbers(r, kvjson.Expect), Token: string(r.Text(&r.Top, kvjson.Token))}
	switch kind {
	case Update:
		w.Fields = ReadFields(r)
	case Incr:
		w.Deltas = ReadNumbers(r, kvjson.Deltas)
	default:
		w.Names = ReadNames(r)
	}
	return w
}

// ReadNames reads the member names, an array of strings.
func ReadNames(r *kvjson.Reader) []string {
	var names []string
	for list := r.Elements(&r.Top, kvjson.Names, MaxFields); r.Next(&list, nil); {
		if names == nil {
			names = make([]string, 0, list.Len)
		}
		if list.Kind() != jsontext.String {
			r.Bad(kvjson.Names, "an array of strings")
			return nil
		}
		names = append(names, string(jsontext.Unquote(list.Raw())))
	}
	return names
}

// ReadFields reads the members fields and bytes.
func ReadFields(r *kvjson.Reader) []Field {
	var list []Field
	for texts := kvjson.Members(r, &r.Top, kvjson.Fields, MaxFields); texts.Next(); {
		f, raw := Field{Name: string(texts.Key())}, texts.Raw()
		if texts.Kind() != jsontext.String {
			r.Fail(codes.Errorf(codes.BadValue, "field %.40q is a JSON %s; write its value as a string", f.Name, texts.Kind()))
			return nil
		}
		if f.Value = jsontext.AppendUnquote(make([]byte, 0, len(raw)-len(`""`)), raw); !utf8.Valid(f.Value) {
			r.Fail(codes.Errorf(codes.BadValue, "field %.40q is not UTF-8; give it in bytes, in base64", f.Name))
		}
		list = append(list, f)
	}
	for octets := kvjson.Members(r, &r.Top, kvjson.Bytes, MaxFields-len(list)); octets.Next(); {
		f := Field{Name: string(octets.Key())}
		var err error
		if f.Value, err = base64.StdEncoding.Strict().AppendDecode([]byte{}, jsontext.Unquote(octets.Raw())); err != nil || octets.Kind() != jsontext.String {
			r.Fail(codes.Errorf(codes.BadValue, "field %.40q of bytes is not base64", f.Name))
		}
		list = append(list, f)
	}
	return list
}

// ReadNumbers reads an object of integers.
func ReadNumbers(r *kvjson.Reader, f kvjson.Field) []Number {
	var list []Number
	for it := kvjson.Members(r, &r.Top, f, MaxFields); it.Next(); {
		member := jsontext.Member{Raw: it.Raw(), Kind: it.Kind()}
		n, ok := member.Int64()
		if !ok {
			r.Fail(codes.Errorf(codes.BadRequest, "%s of field %.40q is not an integer of 64 bits", f, it.Key()))
		}
		list = append(list, Number{string(it.Key()), n})
	}
	return list
}
