package protocol

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Limits of one request about player storage.
const (
	MaxFields     = kv.MaxOps / 2  // fields that it names
	MaxFieldBytes = kv.MaxTxnBytes // bytes of names and values in one reply; pages are shorter
	MaxOwners     = 1000           // owners in one reply
)

// DefaultID is the app and the region of requests that name none.
const DefaultID = "1"

// StorageOwner is whose fields a request is about.
type StorageOwner struct{ App, Region, Logic, ID string }

// StorageField is one field of an owner. A write has no use for Version.
type StorageField struct {
	Name    string
	Value   []byte
	Version int64
}

// StorageNumber is a number for a field: an amount, a sum or a version.
type StorageNumber struct {
	Name string
	N    int64
}

// StorageQuery is the request of STGET, and of STALL, which has no Names but a page.
type StorageQuery struct {
	Owner    StorageOwner
	Names    []string
	Versions bool // tell the fields' versions

	After string // the last page's Next
	Limit int    // at most so many; 0: as many as fit
	// Rev is the revision of the pages before; 0: this is the first.
	Rev kv.Revision
}

// StorageQuery reads the request of STALL.
func (r *Request) StorageQuery() (StorageQuery, error) {
	m := storageReader{r: r}
	q := StorageQuery{Owner: m.owner(), Versions: r.Flag("versions"), After: m.text("after"), Limit: int(m.count("limit")), Rev: kv.Revision(m.count("rev"))}
	return q, m.err
}

// AppendStorageQuery appends the request of STGET or STALL.
func AppendStorageQuery(dst []byte, cmd Command, q StorageQuery) []byte {
	dst = appendOwner(append(dst, '{'), q.Owner)
	if cmd == StGet {
		dst = appendNames(dst, q.Names)
	} else {
		if q.After != "" {
			dst = appendText(dst, "after", q.After)
		}
		dst = appendGiven(dst, "limit", int64(q.Limit))
		dst = appendGiven(dst, "rev", int64(q.Rev))
	}
	return append(appendFlag(dst, "versions", q.Versions), '}')
}

// StoragePage is the reply to STGET, and to STALL, which has the last two.
type StoragePage struct {
	Fields []StorageField
	Rev    kv.Revision
	Next   string // what to ask for the next page After; "": there is none
}

// AppendStorageFields appends STGET's reply.
func AppendStorageFields(dst []byte, fields []StorageField, versions bool) []byte {
	return append(appendFields(append(dst, `{"code":0`...), fields, versions), '}')
}

// AppendStoragePage appends STALL's reply.
func AppendStoragePage(dst []byte, page StoragePage, versions bool) []byte {
	dst = appendFields(kvStart(dst, page.Rev), page.Fields, versions)
	return append(appendNext(dst, page.Next), '}')
}

// ParseStoragePage reads the reply to STGET or STALL. The fields have no order. A refusal is
// a *RefusedError.
func ParseStoragePage(body []byte) (StoragePage, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return StoragePage{}, err
	}
	m := storageReader{r: &r}
	page := StoragePage{Next: m.text("next"), Rev: kv.Revision(m.number("rev"))}
	if !m.has("fields") {
		m.fail(&ReplyError{Member: "fields"})
	}
	page.Fields = m.versioned(m.fields())
	return page, m.err
}

// storageReader reads a message of the storage family: as with the state store, a member of
// the wrong type is refused, and null counts as absent. It keeps the first error.
type storageReader struct {
	r    *Request
	most int // fields that a request may name; 0: it is a reply
	err  error
}

func (m *storageReader) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *storageReader) bad(name, want string) {
	m.fail(codes.Errorf(codes.BadRequest, "member %q is not %s", name, want))
}

func (m *storageReader) member(name string) (jsontext.Member, bool) {
	member, ok := m.r.Member(name)
	return member, ok && member.Kind != jsontext.Null
}

func (m *storageReader) has(name string) bool {
	_, ok := m.member(name)
	return ok
}

func (m *storageReader) text(name string) string { return string(m.octets(name)) }

// octets is a text that may be a part of the body.
func (m *storageReader) octets(name string) []byte {
	member, ok := m.member(name)
	switch {
	case !ok:
		return nil
	case member.Kind != jsontext.String:
		m.bad(name, "a string")
		return nil
	}
	return jsontext.Unquote(member.Raw)
}

// id is a text that is DefaultID if it is absent.
func (m *storageReader) id(name string) string {
	if !m.has(name) {
		return DefaultID
	}
	return m.text(name)
}

func (m *storageReader) number(name string) int64 {
	n, ok := m.r.Int64(name)
	if !ok && m.has(name) {
		m.bad(name, "an integer of 64 bits")
	}
	return n
}

func (m *storageReader) count(name string) int64 {
	n := m.number(name)
	if n < 0 {
		m.bad(name, "0 or more")
	}
	return n
}

func (m *storageReader) owner() StorageOwner {
	return StorageOwner{App: m.id("appId"), Region: m.id("regionId"), Logic: m.text("logicType"), ID: m.text("ownerId")}
}

// items iterates over member name and counts its elements or members, which are limited
// together with those that came before.
func (m *storageReader) items(name string, want jsontext.Kind, before int) (it jsontext.Iter, n int) {
	member, ok := m.member(name)
	switch {
	case !ok:
		return it, 0
	case member.Kind != want:
		m.bad(name, map[jsontext.Kind]string{jsontext.Array: "an array", jsontext.Object: "an object"}[want])
		return it, 0
	}
	for it = jsontext.Iterate(member.Raw); it.Next(); {
		if n++; m.most > 0 && n+before > m.most {
			m.fail(codes.Errorf(codes.TooManyOps, "more than %d fields in one request; send several", m.most))
			return jsontext.Iter{}, 0
		}
	}
	return jsontext.Iterate(member.Raw), n
}

// names reads an array of strings.
func (m *storageReader) names(name string) []string {
	it, n := m.items(name, jsontext.Array, 0)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for it.Next() {
		if it.Kind() != jsontext.String {
			m.bad(name, "an array of strings")
			return nil
		}
		list = append(list, string(jsontext.Unquote(it.Raw())))
	}
	return list
}

// fields reads the members fields and bytes. The values are copies.
func (m *storageReader) fields() []StorageField {
	texts, n := m.items("fields", jsontext.Object, 0)
	octets, more := m.items("bytes", jsontext.Object, n)
	if n+more == 0 {
		return nil
	}
	list := make([]StorageField, 0, n+more)
	for texts.Next() {
		f := StorageField{Name: string(texts.Key())}
		if texts.Kind() != jsontext.String {
			m.fail(codes.Errorf(codes.BadValue, "field %.40q is a JSON %s; write its value as a string", f.Name, texts.Kind()))
			return nil
		}
		raw := texts.Raw()
		if f.Value = jsontext.AppendUnquote(make([]byte, 0, len(raw)-len(`""`)), raw); !utf8.Valid(f.Value) {
			m.fail(codes.Errorf(codes.BadValue, "field %.40q is not UTF-8; give it in bytes, in base64", f.Name))
		}
		list = append(list, f)
	}
	for octets.Next() {
		f := StorageField{Name: string(octets.Key())}
		var err error
		if f.Value, err = base64.StdEncoding.Strict().AppendDecode([]byte{}, jsontext.Unquote(octets.Raw())); err != nil || octets.Kind() != jsontext.String {
			m.fail(codes.Errorf(codes.BadValue, "field %.40q of bytes is not base64", f.Name))
		}
		list = append(list, f)
	}
	return list
}

// numbers reads an object of integers.
func (m *storageReader) numbers(name string) []StorageNumber {
	it, n := m.items(name, jsontext.Object, 0)
	if n == 0 {
		return nil
	}
	list := make([]StorageNumber, 0, n)
	for it.Next() {
		member := jsontext.Member{Raw: it.Raw(), Kind: it.Kind()}
		number, ok := member.Int64()
		if !ok {
			m.fail(codes.Errorf(codes.BadRequest, "%s of field %.40q is not an integer of 64 bits", name, it.Key()))
		}
		list = append(list, StorageNumber{string(it.Key()), number})
	}
	return list
}

// versioned gives fields the versions that the message has for them, and adds those that it
// has for others.
func (m *storageReader) versioned(fields []StorageField) []StorageField {
	versions := m.numbers("versions")
	if len(versions) == 0 {
		return fields
	}
	at := make(map[string]int, len(fields))
	for i := range fields {
		at[fields[i].Name] = i
	}
	for _, v := range versions {
		i, ok := at[v.Name]
		if !ok {
			i, fields = len(fields), append(fields, StorageField{Name: v.Name})
		}
		fields[i].Version = v.N
	}
	return fields
}

// appendOwner appends whose fields a message is about.
func appendOwner(dst []byte, o StorageOwner) []byte {
	dst = appendPlace(dst, o.App, o.Region)
	return appendText(appendText(dst, "logicType", o.Logic), "ownerId", o.ID)
}

// appendPlace appends an app and a region, unless they are the default.
func appendPlace(dst []byte, app, region string) []byte {
	if cmp.Or(app, DefaultID) != DefaultID {
		dst = appendText(dst, "appId", app)
	}
	if cmp.Or(region, DefaultID) != DefaultID {
		dst = appendText(dst, "regionId", region)
	}
	return dst
}

func appendNames(dst []byte, names []string) []byte {
	dst = append(appendMember(dst, "names"), '[')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendQuote(dst, name)
	}
	return append(dst, ']')
}

// appendKey begins a member that is called as a field is.
func appendKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(jsontext.AppendQuote(dst, name), ':')
}

// appendFields appends the values of fields: texts as they are, others in base64.
func appendFields(dst []byte, fields []StorageField, versions bool) []byte {
	dst = append(appendMember(dst, "fields"), '{')
	octets := 0
	for i := range fields {
		if f := &fields[i]; utf8.Valid(f.Value) {
			dst = jsontext.AppendQuote(appendKey(dst, f.Name), f.Value)
		} else {
			octets++
		}
	}
	dst = append(dst, '}')
	if octets > 0 {
		dst = append(appendMember(dst, "bytes"), '{')
		for i := range fields {
			if f := &fields[i]; !utf8.Valid(f.Value) {
				dst = base64.StdEncoding.AppendEncode(append(appendKey(dst, f.Name), '"'), f.Value)
				dst = append(dst, '"')
			}
		}
		dst = append(dst, '}')
	}
	if versions {
		dst = appendVersions(dst, fields)
	}
	return dst
}

func appendVersions(dst []byte, fields []StorageField) []byte {
	dst = append(appendMember(dst, "versions"), '{')
	for i := range fields {
		dst = strconv.AppendInt(appendKey(dst, fields[i].Name), fields[i].Version, 10)
	}
	return append(dst, '}')
}

// appendNumbers appends an object of integers.
func appendNumbers(dst []byte, name string, numbers []StorageNumber) []byte {
	dst = append(appendMember(dst, name), '{')
	for i := range numbers {
		dst = strconv.AppendInt(appendKey(dst, numbers[i].Name), numbers[i].N, 10)
	}
	return append(dst, '}')
}

func appendGiven(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return appendNumber(dst, name, n)
}

func appendFlag(dst []byte, name string, set bool) []byte {
	if !set {
		return dst
	}
	return append(appendMember(dst, name), '1')
}

// appendNext appends where the next page begins, if there is one.
func appendNext(dst []byte, next string) []byte {
	if next == "" {
		return dst
	}
	return appendText(appendFlag(dst, "more", true), "next", next)
}
