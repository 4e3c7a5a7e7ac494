package protocol

import (
	"cmp"
	"runtime"
	"slices"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVListQuery is KVLIST's request. MaxBytes is not sent.
type KVListQuery struct {
	kv.List
	// KeysOnly omits values; CountOnly, of kv.List, omits keys as well.
	KeysOnly bool        `kv:"keys_only"`
	MinRev   kv.Revision `kv:"min_rev,count,omit"`
	Raw      bool        `kv:"raw"`
	Reveal   bool        `kv:"reveal"` // as in KVRead
}

// Check checks the names.
func (q *KVListQuery) Check() error {
	if err := cmp.Or(kv.CheckNamespace(q.NS), kv.CheckPrefix(q.Prefix)); err != nil {
		return err
	}
	if err := kv.CheckPrefix(q.After); err != nil {
		return codes.Errorf(codes.Of(err), "after: %w", err)
	}
	return nil
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
