package protocol

import (
	"runtime"
	"slices"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// KVListQuery is KVLIST's request.
type KVListQuery struct {
	kv.List
	// KeysOnly wants no values; CountOnly, of kv.List, no keys either.
	KeysOnly bool
	MinRev   kv.Revision
	Raw      bool
}

// KVList reads KVLIST's request. Namespace, prefix, after and limit are checked.
func (r *Request) KVList() (KVListQuery, error) {
	var m message
	m.begin(r)
	q := KVListQuery{
		List: kv.List{
			NS: string(m.text(&m.top, fieldNS)), Prefix: string(m.text(&m.top, fieldPrefix)), After: string(m.text(&m.top, fieldAfter)),
			Limit: int(m.count(&m.top, fieldLimit)), CountOnly: m.top.flag(fieldCountOnly),
		},
		KeysOnly: m.top.flag(fieldKeysOnly), MinRev: kv.Revision(m.count(&m.top, fieldMinRev)), Raw: m.top.flag(fieldRaw),
	}
	if err := m.end(); err != nil {
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
	b := builder{dst: append(dst, '{')}
	b.text(fieldNS, q.NS)
	b.text(fieldPrefix, q.Prefix)
	if q.After != "" {
		b.text(fieldAfter, q.After)
	}
	b.given(fieldLimit, int64(q.Limit))
	b.flag(fieldKeysOnly, q.KeysOnly)
	b.flag(fieldCountOnly, q.CountOnly)
	b.given(fieldMinRev, int64(q.MinRev))
	b.flag(fieldRaw, q.Raw)
	return b.end()
}

// yieldAfter is after how many entries of a long list others may run: an event loop
// that wakes up on the same processor would otherwise wait for all of them.
const yieldAfter = 256

// AppendKVPage appends KVLIST's reply.
func AppendKVPage(dst []byte, q KVListQuery, page kv.Page) []byte {
	b := builder{dst: kvStart(slices.Grow(dst, pageSize(q, page)), page.Revision), raw: q.Raw}
	switch {
	case q.CountOnly:
	case q.KeysOnly:
		b.open(fieldKeys, '[')
		for _, e := range page.Entries {
			b.dst = jsontext.AppendQuote(appendComma(b.dst), e.Key)
		}
		b.close(']')
	default:
		b.open(fieldEntries, '[')
		for i, e := range page.Entries {
			if i%yieldAfter == yieldAfter-1 {
				runtime.Gosched()
			}
			b.listed(e)
		}
		b.close(']')
	}
	b.number(fieldCount, page.Count)
	b.flag(fieldMore, page.More)
	return b.end()
}

// pageSize is about how long the reply becomes: growing into it would copy it, and
// leave it as garbage, several times.
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

// ParseKVPage reads KVLIST's reply from namespace ns. Where only keys were asked
// for, the entries have nothing but their names. A refusal is a *RefusedError.
func ParseKVPage(body []byte, ns string) (kv.Page, error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return kv.Page{}, err
	}
	page := kv.Page{Revision: m.revision(), Count: m.number(&m.top, fieldCount), More: m.top.flag(fieldMore)}
	page.Entries = m.entriesIn(fieldEntries, ns, "")
	m.array(&m.top, fieldKeys, func(raw []byte, kind jsontext.Kind) {
		if kind == jsontext.String {
			page.Entries = append(page.Entries, &kv.Entry{NS: ns, Key: string(jsontext.Unquote(raw))})
		}
	})
	for _, e := range page.Entries {
		if e == nil {
			m.missing(fieldEntries)
		}
	}
	return page, m.end()
}

// KVNamesQuery is KVNAMES' request.
type KVNamesQuery struct {
	After string // continue behind this name
	Limit int    // most names to return; 0: MaxNames
}

// MaxNames is how many namespaces one reply has at most.
const MaxNames = 10_000

// KVNames reads KVNAMES' request. Limit is from 1 to MaxNames.
func (r *Request) KVNames() (KVNamesQuery, error) {
	var m message
	m.begin(r)
	q := KVNamesQuery{After: string(m.text(&m.top, fieldAfter)), Limit: int(m.count(&m.top, fieldLimit))}
	if q.Limit == 0 || q.Limit > MaxNames {
		q.Limit = MaxNames
	}
	return q, m.end()
}

// AppendKVNames appends KVNAMES' request.
func AppendKVNames(dst []byte, q KVNamesQuery) []byte {
	b := builder{dst: append(dst, '{')}
	if q.After != "" {
		b.text(fieldAfter, q.After)
	}
	b.given(fieldLimit, int64(q.Limit))
	return b.end()
}

// AppendKVNamespaces appends KVNAMES' reply.
func AppendKVNamespaces(dst []byte, rev kv.Revision, list []kv.Namespace, more bool) []byte {
	b := builder{dst: kvStart(dst, rev)}
	b.open(fieldNamespaces, '[')
	for i := range list {
		b.element()
		b.text(fieldNS, list[i].Name)
		b.number(fieldKeys, list[i].Keys)
		b.number(fieldBytes, list[i].Bytes)
		b.close('}')
	}
	b.close(']')
	b.flag(fieldMore, more)
	return b.end()
}

// ParseKVNamespaces reads KVNAMES' reply. A refusal is a *RefusedError.
func ParseKVNamespaces(body []byte) (list []kv.Namespace, more bool, err error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return nil, false, err
	}
	m.array(&m.top, fieldNamespaces, func(raw []byte, _ jsontext.Kind) {
		var o object
		m.enter(0, raw, &o)
		list = append(list, kv.Namespace{Name: string(m.text(&o, fieldNS)), Keys: m.number(&o, fieldKeys), Bytes: m.number(&o, fieldBytes)})
	})
	return list, m.top.flag(fieldMore), m.end()
}
