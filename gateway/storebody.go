package gateway

import (
	"net/http"
	"net/url"
	"strconv"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
)

// parameters are a request's query while it is read: each is asked for by name,
// and what was not asked for is refused, because a limit or a prefix that is
// misspelt would do harm in silence. The first fault is kept.
type parameters struct {
	values url.Values
	err    error
}

func parametersOf(r *http.Request) *parameters {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = codes.Errorf(codes.BadRequest, "the query is not well-formed: %w", err)
	}
	return &parameters{values, err}
}

func (p *parameters) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

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

// needed is text that must be there.
func (p *parameters) needed(name string) string {
	if !p.has(name) {
		p.fail(codes.Errorf(codes.BadRequest, "the query parameter %q is missing", name))
	}
	return p.text(name)
}

func (p *parameters) has(name string) bool { return len(p.values[name]) > 0 }

// count is a number from 0 on; 0 if absent.
func (p *parameters) count(name string) int64 {
	text := p.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.fail(codes.Errorf(codes.BadRequest, "%s is %.40q, not a number from 0 on", name, text))
	}
	return n
}

// flag is true for 1 and true, and for the bare name.
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

// end is the first fault.
func (p *parameters) end() error {
	for name := range p.values {
		p.fail(codes.Errorf(codes.BadRequest, "this path has no query parameter %.40q", name))
	}
	return p.err
}

// bodyReader is a JSON object in a request's body while it is read, by the rules of
// parameters.
type bodyReader struct {
	kvjson.Reader
	scratch kvjson.Scratch
	members [8]jsontext.Member // room for those that most have
}

// readObject reads a body that is one JSON object; one that is empty has no members.
// What is read lies in the reply.
func (w *reply) readObject(r *http.Request, d kvjson.Dialect) (*bodyReader, error) {
	if err := w.read(r); err != nil {
		return nil, err
	}
	m := &w.in
	*m = bodyReader{}
	members, kind, err := m.members[:0], jsontext.Object, error(nil)
	if len(w.b) > 0 {
		members, kind, err = jsontext.Scan(members, w.b)
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
