package storagejson

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// FieldName names one field.
type FieldName struct {
	Owner Owner
	Name  string
}

// Refused is a field that the database refused. Times are in ms since 1970.
type Refused struct {
	Owner    Owner
	Name     string
	List     string // the name of the list of errors that it is in
	Revision kv.Revision
	Reason   string
	Attempts int
	First    int64 // when it was refused first
	Again    int64 // when it is tried again; 0: never
	Dropped  bool  // an operator has given it up
}

// WriteErrors appends a page of refused fields. next is what to continue after; "" if there is
// no more.
func WriteErrors(w *kvjson.Writer, list []Refused, next string) {
	w.Open(kvjson.Errors, '[')
	for i := range list {
		e := &list[i]
		w.Element()
		w.Text(kvjson.AppID, e.Owner.App)
		w.Text(kvjson.RegionID, e.Owner.Region)
		w.Text(kvjson.LogicType, e.Owner.Logic)
		w.Text(kvjson.OwnerID, e.Owner.ID)
		w.Text(kvjson.Name, e.Name)
		w.Text(kvjson.List, e.List)
		writeRevision(w, e.Revision)
		w.Text(kvjson.Reason, e.Reason)
		w.Number(kvjson.Attempts, int64(e.Attempts))
		w.Number(kvjson.First, e.First)
		w.Number(kvjson.Next, e.Again)
		w.Flag(kvjson.Dropped, e.Dropped)
		w.Close('}')
	}
	w.Close(']')
	writeNext(w, next)
}

// ReadRows reads the member rows, an array of fields' names.
func ReadRows(r *kvjson.Reader) []FieldName {
	var list []FieldName
	var o kvjson.Object
	for items := r.Elements(&r.Top, kvjson.Rows, MaxFields); r.Next(&items, &o); {
		item := FieldName{Owner: ownerIn(r, &o), Name: string(r.Text(&o, kvjson.Name))}
		if item.Name == "" {
			r.Fail(codes.Errorf(codes.BadRequest, "member name is missing"))
		}
		list = append(list, item)
	}
	if r.Top.Has(kvjson.Rows) && len(list) == 0 {
		r.Fail(codes.Errorf(codes.BadRequest, "member \"rows\" is empty; leave it out to name all"))
	}
	return list
}
