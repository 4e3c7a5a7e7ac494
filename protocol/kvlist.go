package protocol

import (
	"runtime"
	"slices"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVListQuery is KVLIST's request.
type KVListQuery struct {
	kv.List
	// KeysOnly omits values; CountOnly, of kv.List, omits keys as well.
	KeysOnly bool
	MinRev   kv.Revision
	Raw      bool
	Reveal   bool // as in KVRead
}

// KVList reads KVLIST's request. Namespace, prefix, after and limit are checked.
func (r *Request) KVList() (KVListQuery, error) {
	var m reader
	m.begin(r)
	q := KVListQuery{
		List: kv.List{
			NS: string(m.Text(&m.Top, kvjson.NS)), Prefix: string(m.Text(&m.Top, kvjson.Prefix)), After: string(m.Text(&m.Top, kvjson.After)),
			Limit: int(m.Count(&m.Top, kvjson.Limit)), CountOnly: m.Flag(&m.Top, kvjson.CountOnly),
		},
		KeysOnly: m.Flag(&m.Top, kvjson.KeysOnly), MinRev: kv.Revision(m.Count(&m.Top, kvjson.MinRev)), Raw: m.Flag(&m.Top, kvjson.Raw),
		Reveal: m.Flag(&m.Top, kvjson.Reveal),
	}
	if err := m.End(); err != nil {
		return q, err
	}
	if err := kv.CheckNamespace(q.NS); err != nil {
		return q, err
	}
	if err := kv.CheckPrefix(q.Prefix); err != nil {
		return q, err
	}
	if err := kv.CheckPrefix(q.After); err != nil {
		return q, codes.Errorf(codes.Of(err), "after: %w", err)
	}
	return q, nil
}

// AppendKVList appends KVLIST's request. MaxBytes is not sent.
func AppendKVList(dst []byte, q KVListQuery) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Text(kvjson.NS, q.NS)
	w.Text(kvjson.Prefix, q.Prefix)
	w.TextGiven(kvjson.After, q.After)
	w.Given(kvjson.Limit, int64(q.Limit))
	w.Flag(kvjson.KeysOnly, q.KeysOnly)
	w.Flag(kvjson.CountOnly, q.CountOnly)
	w.Given(kvjson.MinRev, int64(q.MinRev))
	w.Flag(kvjson.Raw, q.Raw)
	w.Flag(kvjson.Reveal, q.Reveal)
	return w.End()
}

// yieldAfter is how many entries of a long list are written before the goroutine yields,
// so that an event loop on the same processor does not wait for all of them.
const yieldAfter = 256

// AppendKVPage appends KVLIST's reply.
func AppendKVPage(dst []byte, q KVListQuery, page kv.Page) []byte {
	w := kvjson.Writer{Buf: kvStart(slices.Grow(dst, pageSize(q, page)), page.Revision), Octets: q.Raw}
	switch {
	case q.CountOnly:
	case q.KeysOnly:
		w.Open(kvjson.Keys, '[')
		for _, e := range page.Entries {
			w.Comma()
			w.Buf = jsontext.AppendQuote(w.Buf, e.Key)
		}
		w.Close(']')
	default:
		w.Open(kvjson.Entries, '[')
		for i, e := range page.Entries {
			if i%yieldAfter == yieldAfter-1 {
				runtime.Gosched()
			}
			w.Listed(e, true)
		}
		w.Close(']')
	}
	w.Number(kvjson.Count, page.Count)
	w.Flag(kvjson.More, page.More)
	return w.End()
}

// pageSize estimates the length of the reply, so that the buffer need not grow, which
// would copy it and leave garbage several times.
func pageSize(q KVListQuery, page kv.Page) int {
	const around = 160 // an entry's name and numbers
	n := around
	for _, e := range page.Entries {
		switch {
		case e == nil:
		case q.KeysOnly:
			n += len(e.Key) + 3
		default:
			n += around + e.Size()
		}
	}
	return n
}

// ParseKVPage reads KVLIST's reply for namespace ns. If only keys were requested, the
// entries have nothing else. A refusal is a *RefusedError.
func ParseKVPage(body []byte, ns string) (kv.Page, error) {
	return parseReply(body, func(m *reader) kv.Page {
		page := kv.Page{Revision: m.revision(), Count: m.Number(&m.Top, kvjson.Count), More: m.Flag(&m.Top, kvjson.More)}
		page.Entries = m.entries(kvjson.Entries, ns, "")
		for list := m.Elements(&m.Top, kvjson.Keys, 0); m.Next(&list, nil); {
			if list.Kind() == jsontext.String {
				page.Entries = append(page.Entries, &kv.Entry{NS: ns, Key: string(jsontext.Unquote(list.Raw()))})
			}
		}
		return page
	})
}

// KVNamesQuery is KVNAMES' request.
type KVNamesQuery struct {
	After string `kv:"after,omit"`       // continue after this name
	Limit int    `kv:"limit,count,omit"` // most names to return; 0 or more than MaxNames: that
}

// MaxNames is the largest number of namespaces in one reply.
const MaxNames = 10_000

// Check completes the limit.
func (q *KVNamesQuery) Check() error {
	if q.Limit == 0 || q.Limit > MaxNames {
		q.Limit = MaxNames
	}
	return nil
}

// KVNamespaces is KVNAMES' reply.
type KVNamespaces struct {
	Revision   kv.Revision    `kv:"rev"`
	Namespaces []kv.Namespace `kv:"namespaces"`
	More       bool           `kv:"more"`
}
