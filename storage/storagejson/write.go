package storagejson

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// WriteFields appends the values of fields: texts in fields, others in bytes, which is left
// out if there are none.
func WriteFields(w *kvjson.Writer, list []Field, versions bool) {
	octets := 0
	w.Open(kvjson.Fields, '{')
	for i := range list {
		if f := &list[i]; utf8.Valid(f.Value) {
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
			if f := &list[i]; !utf8.Valid(f.Value) {
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
func WriteVersions(w *kvjson.Writer, list []Field) {
	w.Open(kvjson.Versions, '{')
	for i := range list {
		key(w, list[i].Name)
		w.Buf = strconv.AppendInt(w.Buf, list[i].Version, 10)
	}
	w.Close('}')
}

// WriteDirty appends the names of the fields that are newer than what is landed.
func WriteDirty(w *kvjson.Writer, list []Field, landed int64) {
	w.Open(kvjson.Dirty, '[')
	for i := range list {
		if list[i].Version > landed {
			w.Comma()
			w.Buf = jsontext.AppendQuote(w.Buf, list[i].Name)
		}
	}
	w.Close(']')
}

// SizeOf is about how many bytes of JSON fields take, with their versions.
func SizeOf(list []Field) (n int) {
	const besides, escape = 32, len(`\u0000`) // quotes, and a version
	for i := range list {
		f := &list[i]
		n += besides + 3*len(f.Name) + base64.StdEncoding.EncodedLen(len(f.Value))
		for _, c := range f.Value {
			if c < ' ' {
				n += escape
			}
		}
	}
	return n
}

// WriteWritten appends what a write has done.
func WriteWritten(w *kvjson.Writer, kind Kind, did *Written, prev bool) {
	writeRevision(w, did.Revision)
	switch kind {
	case Incr:
		w.Open(kvjson.Values, '{')
		for i := range did.Fields {
			key(w, did.Fields[i].Name)
			w.Buf = append(w.Buf, did.Fields[i].Value...) // digits
		}
		w.Close('}')
	case Restore:
		WriteFields(w, did.Fields, false)
	}
	if kind != Remove {
		WriteVersions(w, did.Fields)
	}
	if prev {
		w.Open(kvjson.Prev, '{')
		WriteFields(w, did.Prev, true)
		w.Close('}')
	}
	w.Flag(kvjson.Replayed, did.Replayed)
}

// WritePage appends a part of an owner's fields. next, which is only told if there is more,
// is the name that the next part comes after: objects have no order.
func WritePage(w *kvjson.Writer, list []Field, versions bool, rev kv.Revision, next string) {
	WriteFields(w, list, versions)
	writeRevision(w, rev)
	writeNext(w, next)
}

// WriteOwners appends a page of the owners of one app and region. next is what to continue
// after; "" if there is no more.
func WriteOwners(w *kvjson.Writer, list []Owner, next string) {
	w.Open(kvjson.Owners, '[')
	for i := range list {
		w.Element()
		w.Text(kvjson.LogicType, list[i].Logic)
		w.Text(kvjson.OwnerID, list[i].ID)
		w.Close('}')
	}
	w.Close(']')
	writeNext(w, next)
}

func writeNext(w *kvjson.Writer, next string) {
	w.Flag(kvjson.More, next != "")
	if next != "" {
		w.Text(kvjson.Next, next)
	}
}

// writeRevision uses the name that revisions have in the dialect.
func writeRevision(w *kvjson.Writer, rev kv.Revision) {
	f := kvjson.Revision
	if w.Dialect == kvjson.Wire {
		f = kvjson.Rev
	}
	w.Number(f, int64(rev))
}

// key begins a member that is called as a field is.
func key(w *kvjson.Writer, name string) {
	w.Comma()
	w.Buf = append(jsontext.AppendQuote(w.Buf, name), ':')
}
