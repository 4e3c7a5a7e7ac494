package playerjson

import (
	"maps"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
)

// ReadWrite reads all of a write but its kind, which it has, and its owner. The room of its
// Fields is used again.
func ReadWrite(r *kvjson.Reader, write *field.Write) {
	write.WantPrev, write.Token = r.Flag(&r.Top, kvjson.Prev), string(r.Text(&r.Top, kvjson.Token))
	eachNumber(r, &r.Top, kvjson.Expect, field.MaxFields, func(name string, version int64) {
		if write.Expect == nil {
			write.Expect = make(map[string]int64)
		}
		if _, twice := write.Expect[name]; twice {
			r.Fail(codes.Errorf(codes.BadRequest, "expect has field %.40q twice", name))
		}
		write.Expect[name] = version
	})
	switch write.Kind {
	case field.Update:
		write.Fields = readFields(r, &r.Top, field.MaxFields, write.Fields[:0])
	case field.Incr:
		eachNumber(r, &r.Top, kvjson.Deltas, field.MaxFields, func(name string, by int64) {
			write.Deltas = append(write.Deltas, field.Delta{Name: name, By: by})
		})
	default:
		write.Names = ReadNames(r)
	}
}

// WriteWrite appends a write.
func WriteWrite(w *kvjson.Writer, write *field.Write) {
	w.Struct(&write.Owner)
	switch write.Kind {
	case field.Update:
		WriteFields(w, write.Fields, false)
	case field.Incr:
		w.Open(kvjson.Deltas, '{')
		for _, d := range write.Deltas {
			writeNumber(w, d.Name, d.By)
		}
		w.Close('}')
	default:
		WriteNames(w, write.Names)
	}
	if len(write.Expect) > 0 {
		w.Open(kvjson.Expect, '{')
		for _, name := range slices.Sorted(maps.Keys(write.Expect)) {
			writeNumber(w, name, write.Expect[name])
		}
		w.Close('}')
	}
	w.Flag(kvjson.Prev, write.WantPrev)
	w.TextGiven(kvjson.Token, write.Token)
}

// WriteOutcome appends what came of a write; prev tells whether Prev was asked for.
func WriteOutcome(w *kvjson.Writer, kind field.Kind, out *field.Outcome, prev bool) {
	writeRevision(w, out.Revision)
	switch kind {
	case field.Incr:
		w.Open(kvjson.Values, '{')
		for i := range out.Fields {
			key(w, out.Fields[i].Name)
			w.Buf = append(w.Buf, out.Fields[i].Value...) // digits
		}
		w.Close('}')
	case field.Restore:
		WriteFields(w, out.Fields, false)
	}
	if kind != field.Remove {
		WriteVersions(w, out.Fields)
	}
	if prev {
		w.Open(kvjson.Prev, '{')
		WriteFields(w, out.Prev, true)
		w.Close('}')
	}
	w.Flag(kvjson.Replayed, out.Replayed)
}

// ReadOutcome reads what came of a write.
func ReadOutcome(r *kvjson.Reader, kind field.Kind) field.Outcome {
	out := field.Outcome{Revision: kv.Revision(r.Number(&r.Top, kvjson.Rev)), Replayed: r.Flag(&r.Top, kvjson.Replayed)}
	if !r.Top.Has(kvjson.Rev) {
		r.Missing(kvjson.Rev)
	}
	switch kind {
	case field.Incr:
		eachNumber(r, &r.Top, kvjson.Values, 0, func(name string, sum int64) {
			out.Fields = append(out.Fields, field.Field{Name: name, Value: kv.IntValue(sum).Data})
		})
	case field.Restore:
		out.Fields = readFields(r, &r.Top, 0, nil)
	}
	out.Fields = readVersions(r, &r.Top, out.Fields)
	var prev kvjson.Object
	if kvjson.EnterMember(r, 0, &r.Top, kvjson.Prev, &prev) {
		out.Prev = readVersioned(r, &prev)
	}
	return out
}

// ReadMismatch reads the versions that fields have instead of the expected ones.
func ReadMismatch(r *kvjson.Reader) []field.Field { return readVersions(r, &r.Top, nil) }
