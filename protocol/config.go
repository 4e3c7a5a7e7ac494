package protocol

import (
	"math"
	"strconv"

	"confcenter/access"
	"confcenter/internal/jsontext"
)

// ConfigQuery is GETCONFIG's request as a server sees it. Its slices alias the
// request's body.
type ConfigQuery struct {
	// File is the requested name, decoded; FileRaw is the JSON string it came as, which
	// the reply repeats byte by byte.
	File, FileRaw []byte
	// Path is the key path; empty and "/" mean the whole document.
	Path []byte
	// Newer, if not 0, asks for a document only if its mtime is greater.
	Newer int32
	// Inherit asks for the document merged over its bases.
	Inherit bool
	// Marks asks for the marks of sealed values, also if they may be revealed.
	Marks bool
}

var emptyString = []byte(`""`)

// ConfigQuery reads GETCONFIG's request. Nothing in it is mandatory. The flag may be
// spelled incbase, or inbase as in CppCloud's design document.
func (r *Request) ConfigQuery() ConfigQuery {
	q := ConfigQuery{FileRaw: emptyString}
	// One pass instead of five look-ups: this is the hottest request there is.
	var file, path, newer, incbase, inbase, marks *jsontext.Member
	for i := range r.members {
		m := &r.members[i]
		switch string(m.Key) {
		case "file_pattern":
			first(&file, m)
		case "key_pattern":
			first(&path, m)
		case "gt_mtime":
			first(&newer, m)
		case "incbase":
			first(&incbase, m)
		case "inbase":
			first(&inbase, m)
		case "marks":
			first(&marks, m)
		}
	}
	if file != nil && file.Kind == jsontext.String {
		q.FileRaw, q.File = file.Raw, jsontext.Unquote(file.Raw)
	}
	if path != nil && path.Kind == jsontext.String {
		q.Path = jsontext.Unquote(path.Raw)
	}
	if newer != nil && newer.Kind == jsontext.Number {
		q.Newer, _ = jsontext.Int32(newer.Raw)
	}
	q.Inherit = incbase != nil && incbase.Flag() || inbase != nil && inbase.Flag()
	q.Marks = marks != nil && marks.Flag()
	return q
}

// first keeps the first of equal names.
func first(dst **jsontext.Member, m *jsontext.Member) {
	if *dst == nil {
		*dst = m
	}
}

// AppendConfigQuery appends GETCONFIG's request.
func AppendConfigQuery(dst []byte, name, path string, newer int32, inherit bool) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "file_pattern", name)
	if path != "" {
		dst = appendText(dst, "key_pattern", path)
	}
	if newer != 0 {
		dst = appendInt(dst, "gt_mtime", newer)
	}
	if inherit {
		dst = appendInt(dst, "incbase", 1)
	}
	return append(dst, '}')
}

// WithMarks makes a request of AppendConfigQuery ask for the marks of sealed values, also if they
// may be revealed.
func WithMarks(query []byte) []byte {
	return append(appendInt(query[:len(query)-1], "marks", 1), '}')
}

// The three replies to GETCONFIG besides a document. A C++ client that is up to date
// accepts only a bare 1; any other bare JSON value aborts it. The two words are those of
// the design document, for clients that follow it.
var (
	UpToDate            = []byte(`1`)
	LiteralUpToDate     = []byte(`ok`)
	LiteralNoSuchConfig = []byte(`fail`)
)

// AppendConfigStart appends a GETCONFIG reply up to the contents, which the
// caller appends as compact JSON, followed by ConfigEnd. nameRaw is the
// requested name as a JSON string.
func AppendConfigStart(dst []byte, mtime int32, nameRaw []byte) []byte {
	dst = append(dst, `{"code":0,"mtime":`...)
	dst = strconv.AppendInt(dst, int64(mtime), 10)
	dst = append(dst, `,"file_pattern":`...)
	dst = append(dst, nameRaw...)
	return append(dst, `,"contents":`...)
}

// ConfigEnd closes what AppendConfigStart began. ConfigEndDeleted closes it for a deleted
// file: its contents are {} as CppCloud sends them, and only our member deleted
// distinguishes it from an empty document.
const (
	ConfigEnd        = "}"
	ConfigEndDeleted = `,"deleted":1}`
)

// AppendNoSuchConfig appends the reply to a conditional GETCONFIG for an unknown
// file: an object, since CppCloud's null aborts C++ clients.
func AppendNoSuchConfig(dst []byte, code int, nameRaw []byte, desc string) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", int32(code))
	dst = append(dst, `,"mtime":0,"file_pattern":`...)
	dst = append(dst, nameRaw...)
	dst = append(dst, `,"contents":null`...)
	return append(appendText(dst, "desc", desc), '}')
}

// AppendNeverGood appends the reply for a file that is there and was never good: that for an unknown
// one, with our member broken.
func AppendNeverGood(dst []byte, conditional bool, nameRaw []byte, why string) []byte {
	if conditional {
		dst = AppendNoSuchConfig(dst, codeNotFound, nameRaw, why)
		dst = dst[:len(dst)-len(ConfigEnd)]
	} else {
		dst = append(AppendConfigStart(dst, 0, nameRaw), "null"...)
	}
	return append(appendText(dst, "broken", why), ConfigEnd...)
}

// Config is GETCONFIG's reply as a client sees it.
type Config struct {
	Result
	// UpToDate tells that there is nothing newer than the requested version; the other
	// members are then empty.
	UpToDate bool
	// Mtime is the document's version in whole seconds; 0 for an unknown file.
	Mtime int32
	Name  string
	// Contents aliases the body; nil where the reply has null.
	Contents []byte
	// Deleted tells that the file is gone; Contents are those of its bases, or {}.
	// CppCloud's server does not send it.
	Deleted bool
	// Broken says of a file that is unknown why that is so though it is there.
	Broken string
}

// codeNotFound is the code of the replies that have none.
const codeNotFound = 404

// ParseConfig reads GETCONFIG's reply, including a refusal, whose Code is not 0. It also
// accepts the bare words of the design document, and the null that CppCloud's server
// sends for an unknown file.
func ParseConfig(body []byte) (Config, error) {
	switch string(body) {
	case string(UpToDate), string(LiteralUpToDate):
		return Config{UpToDate: true}, nil
	case string(LiteralNoSuchConfig), "null":
		return Config{Result: Result{Code: codeNotFound, Desc: "no such file"}}, nil
	}
	var r Request
	res, err := r.parseResult(body)
	if err != nil {
		return Config{}, err
	}
	mtime, ok := r.Int("mtime")
	if !ok && res.Code == 0 {
		return Config{}, &ReplyError{Member: "mtime"}
	}
	c := Config{Result: res, Mtime: mtime, Name: string(r.Text("file_pattern")), Deleted: r.Flag("deleted"), Broken: string(r.Text("broken"))}
	if m, ok := r.Member("contents"); ok && m.Kind != jsontext.Null {
		c.Contents = m.Raw
	}
	return c, nil
}

// ConfigUpdate is SETCONFIG's request.
type ConfigUpdate struct {
	Name string
	// Contents is the new document, any JSON; empty deletes the file. It aliases
	// the body where the update was parsed.
	Contents []byte
	// Mtime is the version the writer gives it; 0 leaves it to the server.
	Mtime int32
	// BadMtime is the text of a parsed mtime beyond int32. Elsewhere such numbers count as
	// absent; here the document would silently get another version than its writer asked
	// for.
	BadMtime string
	// IfMtime, if HasIfMtime, must be the version now served, 0 for a file that
	// is not there; otherwise nothing is written.
	IfMtime    int32
	HasIfMtime bool
	// Said is who makes the change, and why, as the writer has it. It may be anything.
	Said access.Said
}

// ConfigUpdate reads SETCONFIG's request. The name is empty if it is missing or
// not a string.
func (r *Request) ConfigUpdate() ConfigUpdate {
	u := ConfigUpdate{Name: string(r.Text("filename"))}
	var ok bool
	if u.Mtime, ok = r.Int("mtime"); !ok {
		u.BadMtime = r.beyondInt32("mtime")
	}
	u.IfMtime, u.HasIfMtime = r.Int("if_mtime")
	u.Said = access.Said{Author: string(r.Text("author")), Comment: string(r.Text("comment")), Token: string(r.Text("token"))}
	if m, ok := r.Member("contents"); ok && m.Kind != jsontext.Null {
		u.Contents = m.Raw
	}
	return u
}

// maxShown is how many bytes of a number are shown.
const maxShown = 32

// beyondInt32 returns the beginning of member name if it is a number beyond int32.
func (r *Request) beyondInt32(name string) string {
	m, _ := r.Member(name)
	if m.Kind != jsontext.Number {
		return ""
	}
	text := string(m.Raw)
	if v, _ := strconv.ParseFloat(text, 64); v >= math.MinInt32 && v <= math.MaxInt32 {
		return ""
	}
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}

// AppendConfigUpdate appends SETCONFIG's request.
func AppendConfigUpdate(dst []byte, u ConfigUpdate) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "filename", u.Name)
	if u.Mtime != 0 {
		dst = appendInt(dst, "mtime", u.Mtime)
	}
	if u.HasIfMtime {
		dst = appendInt(dst, "if_mtime", u.IfMtime)
	}
	for _, m := range [...]struct{ name, text string }{{"author", u.Said.Author}, {"comment", u.Said.Comment}, {"token", u.Said.Token}} {
		if m.text != "" {
			dst = appendText(dst, m.name, m.text)
		}
	}
	if len(u.Contents) > 0 {
		dst = append(appendMember(dst, "contents"), u.Contents...)
	}
	return append(dst, '}')
}

// ConfigUpdated is SETCONFIG's reply.
type ConfigUpdated struct {
	Result
	// Mtime is the version now served; after a refusal, the one that caused it.
	Mtime int32
}

// AppendConfigUpdated appends SETCONFIG's reply.
func AppendConfigUpdated(dst []byte, code int, mtime int32, desc string) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", int32(code))
	dst = appendInt(dst, "mtime", mtime)
	return append(appendText(dst, "desc", desc), '}')
}

// ParseConfigUpdated reads SETCONFIG's reply.
func ParseConfigUpdated(body []byte) (ConfigUpdated, error) {
	var r Request
	res, err := r.parseResult(body)
	mtime, _ := r.Int("mtime")
	return ConfigUpdated{Result: res, Mtime: mtime}, err
}

// ConfigFile is a row of GETCFGNAME's reply with detail.
type ConfigFile struct {
	Name  string `json:"name"`
	Mtime int32  `json:"mtime"`
	// Size is the length of the compact document in bytes.
	Size int `json:"size"`
	// State is good, broken or deleted; Reason says what is broken.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// The states of a ConfigFile.
const (
	FileGood    = "good"
	FileBroken  = "broken"
	FileDeleted = "deleted"
)

// ConfigProblem is something in the conf directory that a person should fix.
type ConfigProblem struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// AppendConfigFiles appends GETCFGNAME's reply with detail.
func AppendConfigFiles(dst []byte, files []ConfigFile, problems []ConfigProblem) []byte {
	dst = append(dst, `{"code":0,"data":[`...)
	for _, f := range files {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendText(dst, "name", f.Name)
		dst = appendInt(dst, "mtime", f.Mtime)
		dst = appendInt(dst, "size", int32(f.Size))
		dst = appendText(dst, "state", f.State)
		if f.Reason != "" {
			dst = appendText(dst, "reason", f.Reason)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"problems":[`...)
	for _, p := range problems {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, '{'), "name", p.Name)
		dst = append(appendText(dst, "text", p.Text), '}')
	}
	return append(dst, ']', '}')
}

// ParseConfigFiles reads GETCFGNAME's reply with detail. A refusal is a
// *RefusedError.
func ParseConfigFiles(body []byte) ([]ConfigFile, []ConfigProblem, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return nil, nil, err
	}
	var files []ConfigFile
	err := r.eachObject("data", func(o *Request) {
		f := ConfigFile{Name: string(o.Text("name")), State: string(o.Text("state")), Reason: string(o.Text("reason"))}
		f.Mtime, _ = o.Int("mtime")
		size, _ := o.Int("size")
		f.Size = int(size)
		files = append(files, f)
	})
	if err != nil {
		return nil, nil, err
	}
	var problems []ConfigProblem
	err = r.eachObject("problems", func(o *Request) {
		problems = append(problems, ConfigProblem{Name: string(o.Text("name")), Text: string(o.Text("text"))})
	})
	return files, problems, err
}

// eachObject calls fn with each element of the array member name. Elements that are not
// objects look empty.
func (r *Request) eachObject(name string, fn func(o *Request)) error {
	m, ok := r.Member(name)
	if !ok || m.Kind != jsontext.Array {
		return &ReplyError{Member: name}
	}
	var o Request
	jsontext.EachElement(m.Raw, func(raw []byte, _ jsontext.Kind) bool {
		if o.Parse(raw) == nil {
			fn(&o)
		}
		return true
	})
	return nil
}
