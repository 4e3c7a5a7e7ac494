package protocol

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
)

// Request is a parsed body: all of it is checked, and the members of its top-level object
// can be looked up by name. The zero value is ready. Reuse a Request: after a few bodies
// Parse does not allocate.
//
// The rules are CppCloud's: names are case-sensitive, of equal names the first
// wins, a member of another type counts as absent, and JSON that is not an
// object counts as an object without members. A NUL byte ends the body.
type Request struct {
	members []jsontext.Member
	kind    jsontext.Kind
	body    []byte
	tail    []byte         // of ParseTailed
	nested  kvjson.Scratch // of the state store's messages
}

// maxKeptMembers limits what a Request keeps of one body for the next.
const maxKeptMembers = 1024

// Parse reads body. The error says where and why it is not JSON; the empty body
// is not JSON either. What r returns later aliases body.
func (r *Request) Parse(body []byte) error {
	r.drop()
	var err error
	r.members, r.kind, err = jsontext.ScanMessage(r.members[:0], body)
	if err != nil {
		// JSON has no NUL bytes, so a body with one always gets here.
		if i := bytes.IndexByte(body, 0); i >= 0 {
			body = body[:i]
			r.members, r.kind, err = jsontext.ScanMessage(r.members[:0], body)
		}
	}
	r.body, r.tail = body, nil
	if err != nil {
		r.members, r.kind = r.members[:0], jsontext.Invalid
	}
	return err
}

// ParseTailed is Parse for the state store's commands, where octets of values may follow
// the JSON. The method that reads the message checks them, because only the message
// tells how many there must be.
func (r *Request) ParseTailed(body []byte) error {
	r.drop()
	var end int
	var err error
	r.members, r.kind, end, err = jsontext.ScanPrefix(r.members[:0], body)
	r.body, r.tail = body[:end], body[end:]
	return err
}

// Tail returns the octets after the JSON of a body read by ParseTailed. It aliases the
// body.
func (r *Request) Tail() []byte { return r.tail }

// drop releases what a large body has left.
func (r *Request) drop() {
	if cap(r.members) > maxKeptMembers {
		r.members = nil
	}
	r.nested.Drop(maxKeptMembers)
}

// IsObject reports whether the body was a JSON object.
func (r *Request) IsObject() bool { return r.kind == jsontext.Object }

// Kind is the kind of the body's JSON value.
func (r *Request) Kind() jsontext.Kind { return r.kind }

// Body is the body as parsed, without what follows a NUL byte.
func (r *Request) Body() []byte { return r.body }

// Members are the members in the order they came, including duplicates.
func (r *Request) Members() []jsontext.Member { return r.members }

// Member is the first member of that name.
func (r *Request) Member(name string) (jsontext.Member, bool) {
	return jsontext.Find(r.members, name)
}

// Text is the decoded string of that name; empty if it is absent or not a
// string.
func (r *Request) Text(name string) []byte {
	if m, ok := r.Member(name); ok && m.Kind == jsontext.String {
		return jsontext.Unquote(m.Raw)
	}
	return nil
}

// Int is the integer of that name. Absent, another type, a fraction or a value
// outside int32: false.
func (r *Request) Int(name string) (int32, bool) {
	if m, ok := r.Member(name); ok && m.Kind == jsontext.Number {
		return jsontext.Int32(m.Raw)
	}
	return 0, false
}

// IntOrText is Int that takes a decimal number in a string too, as the web
// console sends its numbers.
func (r *Request) IntOrText(name string) (int32, bool) {
	m, _ := r.Member(name)
	return m.Int32()
}

// Flag is true for an integer other than 0, a numeric string other than 0 and
// true: the C++ SDK sends its 1 as a string.
func (r *Request) Flag(name string) bool {
	m, ok := r.Member(name)
	return ok && m.Flag()
}

// appendMember appends `"name":` to an object under construction, with a comma
// where one is due.
func appendMember(dst []byte, name string) []byte {
	if last := dst[len(dst)-1]; last != '{' && last != '[' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendInt(dst []byte, name string, n int32) []byte {
	return strconv.AppendInt(appendMember(dst, name), int64(n), 10)
}

func appendText[T string | []byte](dst []byte, name string, s T) []byte {
	return jsontext.AppendQuote(appendMember(dst, name), s)
}

// AppendResult appends the body most commands answer with: code and desc.
func AppendResult(dst []byte, code int, desc string) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", int32(code))
	return append(appendText(dst, "desc", desc), '}')
}

// AppendRetryAfter adds to a refusal when it is worth sending the request again, in
// milliseconds. 0 adds nothing.
func AppendRetryAfter(refusal []byte, after time.Duration) []byte {
	if after <= 0 {
		return refusal
	}
	millis := (after + time.Millisecond - 1) / time.Millisecond
	refusal = appendInt(refusal[:len(refusal)-len("}")], "retry_after", int32(min(millis, math.MaxInt32)))
	return append(refusal, '}')
}

// Result is the part that every reply object has.
type Result struct {
	// Code is 0 for success.
	Code int32
	Desc string
	// RetryAfter is when a refused request is worth sending again; 0: not said. Nothing was
	// done then.
	RetryAfter time.Duration
}

// ParseResult reads code and desc of a reply.
func ParseResult(body []byte) (Result, error) { return new(Request).parseResult(body) }

// parseResult parses a reply, whatever its code.
func (r *Request) parseResult(body []byte) (Result, error) {
	if err := r.Parse(body); err != nil {
		return Result{}, err
	}
	return r.result()
}

func (r *Request) result() (Result, error) {
	code, ok := r.Int("code")
	if !ok {
		return Result{}, &ReplyError{Member: "code"}
	}
	res := Result{Code: code, Desc: string(r.Text("desc"))}
	if code != 0 {
		millis, _ := r.Int("retry_after")
		res.RetryAfter = max(0, time.Duration(millis)*time.Millisecond)
	}
	return res, nil
}

// parseSuccess parses a reply. The error is a *RefusedError if its code is not 0.
func (r *Request) parseSuccess(body []byte) error {
	res, err := r.parseResult(body)
	if err == nil && res.Code != 0 {
		err = &RefusedError{Result: res}
	}
	return err
}

// RefusedError reports a refusal instead of the requested data.
type RefusedError struct{ Result Result }

func (e *RefusedError) Error() string {
	return "refused with code " + strconv.Itoa(int(e.Result.Code)) + ": " + strconv.Quote(e.Result.Desc)
}

// ReplyError reports a reply that lacks a member it must have.
type ReplyError = kvjson.ReplyError
