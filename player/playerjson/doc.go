// Package playerjson is the JSON form of player storage: owners, fields, what is asked for
// and what is answered. It is made of the members, and read by the rules, of [kvjson], whose
// dialects it has; so package protocol and the gateway both use it. What is read shares no
// memory with the message; names and sizes are left to package player.
//
// Values are bytes, and names are what a game has chosen. A value that is UTF-8 is a string
// in the object "fields", any other is base64 in the object "bytes"; both objects have the
// fields' names as their members.
//
// Begin with write.go, which has both sides of a write.
package playerjson

import (
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
)

// MaxOwners is how many owners one reply lists at most.
const MaxOwners = 1000

// ReadOwner reads whose fields o is about.
func ReadOwner(r *kvjson.Reader, o *kvjson.Object) field.Owner {
	return field.Owner{
		App: idOr(r, o, kvjson.AppID), Region: idOr(r, o, kvjson.RegionID),
		Logic: string(r.Text(o, kvjson.LogicType)), ID: string(r.Text(o, kvjson.OwnerID)),
	}
}

// idOr is the default if there is no such member. One that is empty stays so, and is refused
// later.
func idOr(r *kvjson.Reader, o *kvjson.Object, f kvjson.Field) string {
	if !o.Has(f) {
		return field.DefaultID
	}
	return string(r.Text(o, f))
}

// ReadNames reads the member names, an array of strings.
func ReadNames(r *kvjson.Reader) []string {
	var names []string
	for list := r.Elements(&r.Top, kvjson.Names, field.MaxFields); r.Next(&list, nil); {
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

// WriteNames appends the member names.
func WriteNames(w *kvjson.Writer, names []string) {
	w.Open(kvjson.Names, '[')
	for _, name := range names {
		w.Comma()
		w.Buf = jsontext.AppendQuote(w.Buf, name)
	}
	w.Close(']')
}

func writeNext(w *kvjson.Writer, next string) {
	w.Flag(kvjson.More, next != "")
	w.TextGiven(kvjson.Next, next)
}

// writeRevision uses the name that revisions have in the dialect.
func writeRevision(w *kvjson.Writer, rev kv.Revision) {
	f := kvjson.Revision
	if w.Dialect == kvjson.Wire {
		f = kvjson.Rev
	}
	w.Number(f, int64(rev))
}

func tooMany() error {
	return codes.Errorf(codes.TooManyOps, "more than %d fields in one request; send several", field.MaxFields)
}
