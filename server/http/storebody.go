package http

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
)

// parameters reads a request's query by name. It refuses parameters that were not
// asked for, because a misspelt limit or prefix would do silent harm. It keeps the
// first error.
type parameters struct {
	values url.Values
	err    error
}

func parametersOf(r *http.Request) *parameters {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = codes.Errorf(codes.BadRequest, "the query is malformed: %w", err)
	}
	return &parameters{values, err}
}

func (p *parameters) fail(err error) { p.err = cmp.Or(p.err, err) }

// text is "" if absent.
func (p *parameters) text(name string) string {
	values := p.values[name]
	delete(p.values, name)
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	p.fail(codes.Errorf(codes.BadRequest, "the query parameter %q is given more than once", name))
	return ""
}

// needed is text that must be given.
func (p *parameters) needed(name string) string {
	if !p.has(name) {
		p.fail(codes.Errorf(codes.BadRequest, "the query parameter %q is missing", name))
	}
	return p.text(name)
}

func (p *parameters) has(name string) bool { return len(p.values[name]) > 0 }

// count is a non-negative number; 0 if absent.
func (p *parameters) count(name string) int64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.fail(codes.Errorf(codes.BadRequest, "%s is %.40q, not a non-negative number", name, text))
	}
	return n
}

// limit is how many are asked for: at most so many, and as many if nothing is said.
func (p *parameters) limit(most int64) int64 { return min(cmp.Or(p.count("limit"), most), most) }

// flag is true for 1, true and the bare name.
func (p *parameters) flag(name string) bool {
	given := p.has(name)
	switch text := p.text(name); text {
	case "1", "true":
		return true
	case "0", "false":
	case "":
		return given
	default:
		p.fail(codes.Errorf(codes.BadRequest, "%s is %.40q, not 0 or 1", name, text))
	}
	return false
}

// end returns the first error.
func (p *parameters) end() error {
	for name := range p.values {
		p.fail(codes.Errorf(codes.BadRequest, "this path has no query parameter %.40q", name))
	}
	return p.err
}

// bodyReader reads the JSON object in a request's body, by the rules of parameters.
type bodyReader struct {
	kvjson.Reader
	scratch kvjson.Scratch
	members [8]jsontext.Member // room for as many as most bodies have
}

// readObject reads a body that is one JSON object; an empty body counts as an
// object without members. What is read aliases the reply.
func (w *reply) readObject(r *http.Request, d kvjson.Dialect) (*bodyReader, error) {
	if err := w.read(r); err != nil {
		return nil, err
	}
	m := &w.in
	*m = bodyReader{}
	members, kind, err := m.members[:0], jsontext.Object, error(nil)
	if len(w.b) > 0 {
		members, kind, err = jsontext.ScanMessage(members, w.b)
	}
	switch {
	case err != nil:
		return nil, codes.Errorf(codes.BadJSON, "the body is not JSON: %w", err)
	case kind != jsontext.Object:
		return nil, codes.Errorf(codes.BadJSON, "the body is a JSON %s, not an object", kind)
	}
	m.Begin(d, members, &m.scratch)
	return m, nil
}
