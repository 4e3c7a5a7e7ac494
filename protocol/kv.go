package protocol

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// reader reads one body of the state store's messages.
type reader struct{ kvjson.Reader }

func (m *reader) begin(r *Request) {
	m.Begin(kvjson.Wire, r.members, &r.nested)
	m.Follow(r.tail, len(r.body))
}

// reply begins to read a reply and checks its code. A refusal is a *RefusedError.
func (m *reader) reply(r *Request, body []byte) error {
	if err := r.ParseTailed(body); err != nil {
		return err
	}
	m.begin(r)
	res, err := r.result()
	if err == nil && res.Code != 0 {
		err = &RefusedError{Result: res}
	}
	return err
}

// parseReply reads a reply of the store with read. A refusal is a *RefusedError.
func parseReply[T any](body []byte, read func(m *reader) T) (found T, err error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		return found, err
	}
	found = read(&m)
	return found, m.End()
}

// endPair finishes a request about one key and checks the key's name.
func (m *reader) endPair(ns, key string) error {
	if err := m.End(); err != nil {
		return err
	}
	return checkPair([]byte(ns), []byte(key))
}

// revision reads the revision, which every reply of the store has.
func (m *reader) revision() kv.Revision {
	if !m.Top.Has(kvjson.Rev) {
		m.Missing(kvjson.Rev)
	}
	return kv.Revision(m.Number(&m.Top, kvjson.Rev))
}

// kvStart begins a successful reply.
func kvStart(dst []byte, rev kv.Revision) []byte {
	return strconv.AppendInt(append(dst, `{"code":0,"rev":`...), int64(rev), 10)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendMember(dst, name), n, 10)
}

// checkPair is kv.CheckNamespace and kv.CheckKey for bytes. It allocates only if there is
// an error.
func checkPair(ns, key []byte) error {
	if !plainName(ns, kv.MaxNamespace) {
		if err := kv.CheckNamespace(string(ns)); err != nil {
			return err
		}
	}
	if !plainName(key, kv.MaxKey) {
		return kv.CheckKey(string(key))
	}
	return nil
}

// plainName is a quick check. It may return false for a name that is allowed.
func plainName(name []byte, limit int) bool {
	if len(name) == 0 || len(name) > limit {
		return false
	}
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7F {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(name[i:])
		if r == utf8.RuneError || unicode.IsControl(r) {
			return false
		}
		i += size
	}
	return true
}
