package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
)

// StorageWrite is the request of a command that changes fields of one owner. Which lists it
// has depends on the command.
type StorageWrite struct {
	Owner  StorageOwner
	Fields []StorageField  // STUPDATE: the new values
	Deltas []StorageNumber // STINCR: what to add
	Names  []string        // STREMOVE, STRESTORE
	// Expect has versions that fields must have, 0 for one that must be absent.
	Expect []StorageNumber
	Prev   bool // tell what the fields were before
	Token  string
}

// ChangesFields reports whether c is a command that StorageWrite reads.
func (c Command) ChangesFields() bool { return c >= StUpdate && c <= StRestore }

// StorageWrite reads the request of a command for which ChangesFields is true. Names and
// values are not checked.
func (r *Request) StorageWrite(cmd Command) (StorageWrite, error) {
	m := storageReader{r: r, most: MaxFields}
	w := StorageWrite{Owner: m.owner(), Expect: m.numbers("expect"), Prev: r.Flag("prev"), Token: m.text("token")}
	switch cmd {
	case StUpdate:
		w.Fields = m.fields()
		m.once(len(w.Fields), func(i int) string { return w.Fields[i].Name })
	case StIncr:
		w.Deltas = m.numbers("deltas")
		m.once(len(w.Deltas), func(i int) string { return w.Deltas[i].Name })
	default:
		w.Names = m.names("names")
	}
	return w, m.err
}

// once refuses a field that is given twice, of which one value would be lost.
func (m *storageReader) once(n int, name func(i int) string) {
	if n < 2 {
		return
	}
	seen := make(map[string]bool, n)
	for i := range n {
		if seen[name(i)] {
			m.fail(codes.Errorf(codes.BadRequest, "field %.40q is given twice", name(i)))
		}
		seen[name(i)] = true
	}
}

// AppendStorageWrite appends the request of a command for which ChangesFields is true.
func AppendStorageWrite(dst []byte, cmd Command, w StorageWrite) []byte {
	dst = appendOwner(append(dst, '{'), w.Owner)
	switch cmd {
	case StUpdate:
		dst = appendFields(dst, w.Fields, false)
	case StIncr:
		dst = appendNumbers(dst, "deltas", w.Deltas)
	default:
		dst = appendNames(dst, w.Names)
	}
	if len(w.Expect) > 0 {
		dst = appendNumbers(dst, "expect", w.Expect)
	}
	dst = appendFlag(dst, "prev", w.Prev)
	if w.Token != "" {
		dst = appendText(dst, "token", w.Token)
	}
	return append(dst, '}')
}

// StorageWritten is what a write of fields has done.
type StorageWritten struct {
	Revision kv.Revision
	// Fields are those that the write left with a value, with their versions. Only those of
	// STINCR and STRESTORE have values here.
	Fields []StorageField
	// Prev, if it was asked for, are the fields that had a value before.
	Prev []StorageField
	// Replayed is true if the request's token was known: nothing was done again.
	Replayed bool
}

// AppendStorageWritten appends the reply to cmd; prev tells whether Prev was asked for.
func AppendStorageWritten(dst []byte, cmd Command, w StorageWritten, prev bool) []byte {
	dst = kvStart(dst, w.Revision)
	switch cmd {
	case StIncr:
		dst = append(appendMember(dst, "values"), '{')
		for i := range w.Fields {
			dst = append(appendKey(dst, w.Fields[i].Name), w.Fields[i].Value...)
		}
		dst = append(dst, '}')
	case StRestore:
		dst = appendFields(dst, w.Fields, false)
	}
	if cmd != StRemove {
		dst = appendVersions(dst, w.Fields)
	}
	if prev {
		dst = append(appendFields(append(appendMember(dst, "prev"), '{'), w.Prev, true), '}')
	}
	return append(appendFlag(dst, "replayed", w.Replayed), '}')
}

// AppendStorageConflict appends the refusal of a write whose Expect does not hold:
// codes.Conflict. versions are those that the fields have.
func AppendStorageConflict(dst []byte, desc string, versions []StorageNumber) []byte {
	dst = appendText(appendInt(append(dst, '{'), "code", int32(codes.Conflict)), "desc", desc)
	return append(appendNumbers(dst, "versions", versions), '}')
}

// ParseStorageWritten reads the reply to cmd. A refusal is a *RefusedError; of one with
// codes.Conflict, Fields have the versions that the fields have.
func ParseStorageWritten(cmd Command, body []byte) (StorageWritten, error) {
	var r Request
	err := r.parseSuccess(body)
	m := storageReader{r: &r}
	if err != nil {
		var w StorageWritten
		if refused, ok := err.(*RefusedError); ok && refused.Result.Code == int32(codes.Conflict) {
			w.Fields = m.versioned(nil)
		}
		return w, err
	}
	w := StorageWritten{Revision: kv.Revision(m.number("rev")), Replayed: r.Flag("replayed")}
	if !m.has("rev") {
		m.fail(&ReplyError{Member: "rev"})
	}
	switch cmd {
	case StIncr:
		for _, sum := range m.numbers("values") {
			w.Fields = append(w.Fields, StorageField{Name: sum.Name, Value: kv.IntValue(sum.N).Data})
		}
	case StRestore:
		w.Fields = m.fields()
	}
	w.Fields = m.versioned(w.Fields)
	if prev, ok := m.member("prev"); ok {
		w.Prev = within(&m, prev.Raw, func(m *storageReader) []StorageField { return m.versioned(m.fields()) })
	}
	return w, m.err
}
