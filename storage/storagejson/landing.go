package storagejson

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/storage/field"
)

// tableNumbers are the numbers of a TableStatus.
func tableNumbers(t *field.TableStatus) [7]struct {
	f kvjson.Field
	n *int64
} {
	return [...]struct {
		f kvjson.Field
		n *int64
	}{
		{kvjson.Dirty, &t.Dirty}, {kvjson.Oldest, &t.Oldest}, {kvjson.Errors, &t.Refused}, {kvjson.Dropped, &t.Dropped},
		{kvjson.Last, &t.Last}, {kvjson.Rate, &t.Rate}, {kvjson.Cursor, &t.Cursor},
	}
}

// AppendTables appends how it stands with each dirty table, as an array.
func AppendTables(dst []byte, tables []field.TableStatus) []byte {
	w := kvjson.Writer{Buf: append(dst, '[')}
	for i := range tables {
		t := &tables[i]
		w.Element()
		w.Number(kvjson.Table, int64(t.Table))
		w.Text(kvjson.List, t.List)
		w.TextGiven(kvjson.Saving, t.Saving)
		w.Text(kvjson.ErrorsList, t.Errors)
		for _, one := range tableNumbers(t) {
			w.Number(one.f, *one.n)
		}
		w.Number(kvjson.Landed, int64(t.Landed))
		w.Close('}')
	}
	return append(w.Buf, ']')
}

// ReadTables reads how it stands with each dirty table.
func ReadTables(r *kvjson.Reader) (list []field.TableStatus) {
	var o kvjson.Object
	for items := listed(r, kvjson.Tables); r.Next(&items, &o); {
		t := field.TableStatus{
			Table: int(r.Number(&o, kvjson.Table)), List: string(r.Text(&o, kvjson.List)), Saving: string(r.Text(&o, kvjson.Saving)),
			Errors: string(r.Text(&o, kvjson.ErrorsList)), Landed: uint64(r.Count(&o, kvjson.Landed)),
		}
		for _, one := range tableNumbers(&t) {
			*one.n = r.Number(&o, one.f)
		}
		list = append(list, t)
	}
	return list
}

// WriteErrors appends a page of refused fields, and whether there are more. Over HTTP it says
// what the next page comes after; on the wire that is the last one of this page.
func WriteErrors(w *kvjson.Writer, list []field.ErrorRow, more bool) {
	w.Open(kvjson.Errors, '[')
	for i := range list {
		WriteError(w, &list[i])
	}
	w.Close(']')
	if w.Dialect == kvjson.Wire {
		w.Flag(kvjson.More, more)
	} else if more && len(list) > 0 {
		last := list[len(list)-1].Ref()
		writeNext(w, last.Owner.Table()+"/"+last.Key())
	}
}

// WriteError appends a refused field to an array.
func WriteError(w *kvjson.Writer, e *field.ErrorRow) {
	w.Element()
	WriteRef(w, e.Ref())
	w.Text(kvjson.List, e.List)
	writeRevision(w, e.Revision)
	w.Text(kvjson.Reason, e.Reason)
	w.Number(kvjson.Attempts, int64(e.Attempts))
	w.Number(kvjson.First, e.First)
	w.Number(kvjson.Next, e.Next)
	w.Flag(kvjson.Dropped, e.Dropped)
	w.Close('}')
}

// ReadErrors reads a page of refused fields, and whether there are more.
func ReadErrors(r *kvjson.Reader) (list []field.ErrorRow, more bool) {
	var o kvjson.Object
	for items := listed(r, kvjson.Errors); r.Next(&items, &o); {
		f := ReadRef(r, &o)
		list = append(list, field.ErrorRow{
			Owner: f.Owner, Name: f.Name, List: string(r.Text(&o, kvjson.List)), Revision: kv.Revision(r.Number(&o, kvjson.Rev)), Reason: string(r.Text(&o, kvjson.Reason)),
			Attempts: int(r.Number(&o, kvjson.Attempts)), First: r.Number(&o, kvjson.First), Next: r.Number(&o, kvjson.Next), Dropped: r.Flag(&o, kvjson.Dropped),
		})
	}
	return list, r.Flag(&r.Top, kvjson.More)
}

// ReadRows reads the member rows, the names of refused fields; nil if it is absent, which
// means all.
func ReadRows(r *kvjson.Reader) (list []field.Ref) {
	var o kvjson.Object
	for items := r.Elements(&r.Top, kvjson.Rows, field.MaxFields); r.Next(&items, &o); {
		f := ReadRef(r, &o)
		if f.Name == "" {
			r.Fail(codes.Errorf(codes.BadRequest, "member name is missing"))
		}
		list = append(list, f)
	}
	if r.Top.Has(kvjson.Rows) && len(list) == 0 {
		r.Fail(codes.Errorf(codes.BadRequest, "member \"rows\" is empty; leave it out to name all"))
	}
	return list
}

// WriteRows appends the member rows, unless all are meant.
func WriteRows(w *kvjson.Writer, list []field.Ref) {
	if list == nil {
		return
	}
	w.Open(kvjson.Rows, '[')
	for _, f := range list {
		w.Element()
		WriteRef(w, f)
		w.Close('}')
	}
	w.Close(']')
}
