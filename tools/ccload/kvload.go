package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"confcenter/protocol"
)

// What the figures of the state store are measured with.
const (
	kvNamespace = "bench"
	kvValueSize = 256
	kvConns     = 64
	// kvReplySize is the body of the replies that gets are measured with, in bytes.
	kvReplySize = 280
	// kvBatch is how many keys one request of a load writes.
	kvBatch = 500
)

// kvKey is the name of key i, all of one length.
func kvKey(i int) string { return fmt.Sprintf("user/%08d/state", i) }

// kvText is a value of size bytes that differs with i.
func kvText(i, size int) []byte {
	text := make([]byte, size)
	for j := range text {
		text[j] = 'a' + byte((i+j*7)%26)
	}
	return text
}

// kvGetTape asks for keys drawn at random from n.
func kvGetTape(rnd *rand.Rand, n int) *tape {
	t := &tape{cmd: protocol.KVGet}
	for range tapeLength {
		t.add([]byte(`{"ns":"` + kvNamespace + `","key":"` + kvKey(rnd.IntN(n)) + `"}`))
	}
	return t
}

// kvPutTape writes values to keys drawn at random from n.
func kvPutTape(rnd *rand.Rand, n int) *tape {
	t := &tape{cmd: protocol.KVPut}
	for i := range tapeLength {
		t.add(append(appendKVPut(nil, rnd.IntN(n), kvText(i, kvValueSize)), '}'))
	}
	return t
}

// appendKVPut leaves the object open.
func appendKVPut(dst []byte, key int, text []byte) []byte {
	dst = append(dst, `{"ns":"`+kvNamespace+`","key":"`...)
	dst = append(dst, kvKey(key)...)
	dst = append(dst, `","value":"`...)
	return append(append(dst, text...), '"')
}

// kvIncrTape adds to one key.
func kvIncrTape() *tape {
	t := &tape{cmd: protocol.KVIncr}
	t.add([]byte(`{"ns":"` + kvNamespace + `","key":"counter"}`))
	return t
}

// kvWrites is a source of puts of one key, each with another value.
type kvWrites struct{ n int }

func (w *kvWrites) expect() protocol.Command { return protocol.KVPut.Reply() }

func (w *kvWrites) next(dst []byte) []byte {
	w.n++
	start := len(dst)
	dst = protocol.BeginFrame(dst, protocol.KVPut, 0)
	dst = append(appendKVPut(dst, 0, kvText(w.n, kvValueSize)), '}')
	return protocol.FinishFrame(dst, start)
}

// loadKeys writes the keys from 0 to n, values of size bytes. say is told how far
// it is.
func (l *loop) loadKeys(c *conn, n, size int, say func(part float64)) error {
	for from := 0; from < n; from += kvBatch {
		body := append([]byte(nil), `{"ns":"`+kvNamespace+`","then":[`...)
		for i := from; i < min(from+kvBatch, n); i++ {
			if i > from {
				body = append(body, ',')
			}
			body = append(body, `{"op":"put","key":"`...)
			body = append(body, kvKey(i)...)
			body = append(body, `","value":"`...)
			body = append(append(body, kvText(i, size)...), `"}`...)
		}
		if _, err := l.ask(c, protocol.KVTxn, append(body, `]}`...)); err != nil {
			return fmt.Errorf("keys from %d: %w", from, err)
		}
		say(float64(from) / float64(n))
	}
	return nil
}

// kvGet asks for one key and returns the whole body of the reply.
func (l *loop) kvGet(c *conn, key int) ([]byte, error) {
	return l.ask(c, protocol.KVGet, []byte(`{"ns":"`+kvNamespace+`","key":"`+kvKey(key)+`"}`))
}

// kvList lists limit keys with their values, in as many pages as it takes, which
// the caller reads when all is measured: what is measured shares this processor.
func (l *loop) kvList(c *conn, limit int) (pages [][]byte, err error) {
	after := ""
	for more := true; more; {
		body, err := l.ask(c, protocol.KVList, []byte(`{"ns":"`+kvNamespace+`","after":"`+after+`","limit":`+strconv.Itoa(limit)+`}`))
		if err != nil {
			return nil, err
		}
		pages = append(pages, bytes.Clone(body))
		limit -= bytes.Count(body, []byte(`{"key":"`))
		after, more = lastKey(body)
		more = more && limit > 0
	}
	return pages, nil
}

// lastKey is where the page after body begins, without reading all of body.
func lastKey(body []byte) (key string, more bool) {
	const start = `{"key":"`
	at := bytes.LastIndex(body, []byte(start))
	if at < 0 || !bytes.HasSuffix(body, []byte(`"more":1}`)) {
		return "", false
	}
	name, _, _ := bytes.Cut(body[at+len(start):], []byte{'"'})
	return string(name), true
}

// kvListed is how many keys pages have.
func kvListed(pages [][]byte) (n int, err error) {
	for _, body := range pages {
		page, err := protocol.ParseKVPage(body, kvNamespace)
		if err != nil {
			return n, err
		}
		n += len(page.Entries)
	}
	return n, nil
}
