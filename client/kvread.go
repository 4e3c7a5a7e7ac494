package client

import (
	"context"
	"fmt"
	"iter"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Get reads a key. The error is codes.NotFound if it is absent.
func (s *KV) Get(ctx context.Context, key string) (*kv.Entry, error) { return s.GetAt(ctx, key, 0) }

// GetAt reads a key as it was when rev was the newest revision; 0 is now. The error
// is codes.NotFound if it was absent, codes.Compacted if that is no longer known, and
// codes.FutureRevision if rev is in the future.
func (s *KV) GetAt(ctx context.Context, key string, rev kv.Revision) (*kv.Entry, error) {
	e, err := s.lookUp(ctx, key, rev)
	if err == nil && e == nil {
		err = codes.Errorf(codes.NotFound, "there is no such key")
	}
	return e, during(err, "get %s of %s", key, s.ns)
}

// lookUp is GetAt that returns nil for an absent key.
func (s *KV) lookUp(ctx context.Context, key string, rev kv.Revision) (*kv.Entry, error) {
	frame := protocol.AppendKVRead(begin(protocol.KVGet), protocol.KVRead{NS: []byte(s.ns), Key: []byte(key), Rev: rev, Raw: true, Reveal: s.reveal})
	return ask(ctx, s.c, protocol.KVGet, frame, asking, func(body []byte) (*kv.Entry, error) {
		e, _, err := protocol.ParseKVGot(body, s.ns, key)
		return e, err
	})
}

// typed returns a key's value, read by read; def if it is absent, and with every error.
func typed[T any](ctx context.Context, s *KV, key string, def T, read func(kv.Value) (T, error)) (T, error) {
	e, err := s.lookUp(ctx, key, 0)
	v := def
	if err == nil && e != nil {
		v, err = read(e.Value)
	}
	if err != nil {
		return def, fmt.Errorf("get %s of %s: %w", key, s.ns, err)
	}
	return v, nil
}

// GetString reads a string. It returns def if the key is absent, and with every
// error. The error is codes.WrongType if the value has another type.
func (s *KV) GetString(ctx context.Context, key, def string) (string, error) {
	return typed(ctx, s, key, def, stringOf)
}

// GetInt is GetString for an int.
func (s *KV) GetInt(ctx context.Context, key string, def int64) (int64, error) {
	return typed(ctx, s, key, def, kv.Value.Int)
}

// GetDouble is GetString for a double or an int.
func (s *KV) GetDouble(ctx context.Context, key string, def float64) (float64, error) {
	return typed(ctx, s, key, def, kv.Value.Double)
}

// GetBool is GetString for a bool.
func (s *KV) GetBool(ctx context.Context, key string, def bool) (bool, error) {
	return typed(ctx, s, key, def, kv.Value.Bool)
}

// GetBytes is GetString for bytes, which are the caller's.
func (s *KV) GetBytes(ctx context.Context, key string, def []byte) ([]byte, error) {
	return typed(ctx, s, key, def, bytesOf)
}

// GetJSON decodes a json value into v as encoding/json would; a number that goes into
// an interface becomes a json.Number. The error is codes.NotFound if the key is
// absent, which leaves v unchanged; codes.WrongType if the value has another type;
// codes.BadRequest if it does not fit v.
func (s *KV) GetJSON(ctx context.Context, key string, v any) error {
	e, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	return during(decodeJSON(e.Value, v), "get %s of %s", key, s.ns)
}

func dataOf(v kv.Value, t kv.Type) ([]byte, error) {
	if v.Type != t {
		return nil, kv.WrongType(v, t)
	}
	return v.Data, nil
}

func stringOf(v kv.Value) (string, error) {
	data, err := dataOf(v, kv.String)
	return string(data), err
}

func bytesOf(v kv.Value) ([]byte, error) { return dataOf(v, kv.Bytes) }

func decodeJSON(value kv.Value, v any) error {
	data, err := dataOf(value, kv.JSON)
	if err != nil {
		return err
	}
	if err = decodeInto(data, v); err != nil {
		return codes.Errorf(codes.BadRequest, "the value does not fit %T: %w", v, err)
	}
	return nil
}

// GetMany reads up to 1000 keys at one revision. The entries are in the order of
// the keys, nil for those that are absent.
func (s *KV) GetMany(ctx context.Context, keys ...string) ([]*kv.Entry, error) {
	q := protocol.KVMGetQuery{NS: s.ns, Keys: keys, Raw: true, Reveal: s.reveal}
	entries, err := ask(ctx, s.c, protocol.KVMGet, protocol.AppendMessage(begin(protocol.KVMGet), &q), asking, func(body []byte) ([]*kv.Entry, error) {
		entries, _, err := protocol.ParseKVGotMany(body, q)
		return entries, err
	})
	return entries, during(err, "get %d keys of %s", len(keys), s.ns)
}

// List reads one page of the keys that begin with l.Prefix, in the order of their
// bytes, all of it at one revision. l.NS is ignored. With l.CountOnly the page has
// nothing but the number of all keys with the prefix.
func (s *KV) List(ctx context.Context, l kv.List) (kv.Page, error) { return s.page(ctx, l, false) }

// page reads one page. With keysOnly the entries have nothing but their keys.
func (s *KV) page(ctx context.Context, l kv.List, keysOnly bool) (kv.Page, error) {
	l.NS = s.ns
	frame := protocol.AppendMessage(begin(protocol.KVList), &protocol.KVListQuery{List: l, KeysOnly: keysOnly, Raw: true, Reveal: s.reveal})
	page, err := ask(ctx, s.c, protocol.KVList, frame, asking, func(body []byte) (kv.Page, error) { return protocol.ParseKVPage(body, s.ns) })
	return page, during(err, "list %q of %s", l.Prefix, s.ns)
}

func (s *KV) pages(ctx context.Context, prefix string, keysOnly bool) iter.Seq2[*kv.Entry, error] {
	return paged(func(after string) (_ []*kv.Entry, next string, _ error) {
		page, err := s.page(ctx, kv.List{Prefix: prefix, After: after}, keysOnly)
		if n := len(page.Entries); page.More && n > 0 {
			next = page.Entries[n-1].Key
		}
		return page.Entries, next, err
	})
}

// Keys lists all keys that begin with prefix, "" for all, in the order of their
// bytes. Like All it reads page by page.
func (s *KV) Keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	for e, err := range s.pages(ctx, prefix, true) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, e.Key)
	}
	return keys, nil
}

// Count is how many keys begin with prefix, "" for all.
func (s *KV) Count(ctx context.Context, prefix string) (int64, error) {
	page, err := s.List(ctx, kv.List{Prefix: prefix, CountOnly: true})
	return page.Count, err
}

// All yields every entry whose key begins with prefix, "" for all, in byte order of
// the keys. It reads page by page: each page is of one revision, but others may write
// between two pages. It ends after an error, which comes with a nil entry.
func (s *KV) All(ctx context.Context, prefix string) iter.Seq2[*kv.Entry, error] {
	return s.pages(ctx, prefix, false)
}

// History lists versions of a key, newest first, deletions included: those before
// revision before (0: all), at most limit (0: as many as one answer holds).
func (s *KV) History(ctx context.Context, key string, before kv.Revision, limit int) (kv.Versions, error) {
	frame := protocol.AppendMessage(begin(protocol.KVHistory), &protocol.KVHistoryQuery{NS: s.ns, Key: key, Before: before, Limit: limit, Raw: true, Reveal: s.reveal})
	versions, err := ask(ctx, s.c, protocol.KVHistory, frame, asking, func(body []byte) (kv.Versions, error) { return protocol.ParseKVVersions(body, s.ns, key) })
	return versions, during(err, "history of %s of %s", key, s.ns)
}
