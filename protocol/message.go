package protocol

import "confcenter/kv/kvjson"

// Messages that are structs, as their tags say: see [kvjson.ReadStruct].

// Into reads the request into q, a pointer to a struct.
func (r *Request) Into(q any) error {
	var m reader
	m.begin(r)
	kvjson.ReadStruct(&m.Reader, q)
	return m.End()
}

// Read is Into for a route.
func Read[Q any](r *Request) (q Q, err error) {
	err = r.Into(&q)
	return q, err
}

// AppendMessage appends a request that is a struct, which q points to.
func AppendMessage(dst []byte, q any) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Struct(q)
	return w.End()
}

// AppendReply appends a successful reply that is a struct, which a points to.
func AppendReply(dst []byte, a any) []byte {
	w := replyStart(dst)
	w.Struct(a)
	return w.End()
}

// ParseReply reads what AppendReply appended. A refusal is a *RefusedError.
func ParseReply[A any](body []byte) (A, error) {
	return parseReply(body, func(m *reader) (a A) {
		kvjson.ReadStruct(&m.Reader, &a)
		return a
	})
}
