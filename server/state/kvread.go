package state

import (
	"context"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
)

// kvGet answers from memory, without waiting and without allocating; a worker reads past
// versions.
func (f *Handlers) kvGet(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Local.Req.KVGet()
	if err == nil && s.Judged() {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	if q.Rev > 0 {
		f.getPast(s, h, q)
		return true
	}
	entry, rev := f.store.Get(q.NS, q.Key)
	kvGot(s, h, q, entry, rev)
	return true
}

// kvGot answers KVGET with what was found.
func kvGot(s *gate.Session, h protocol.Header, q protocol.KVRead, entry *kv.Entry, rev kv.Revision) {
	switch {
	case q.MinRev > rev:
		s.Refuse(h, notReached(q.MinRev, rev))
	case q.Reveal && entry != nil:
		reveal := s.Revealer(true) // which takes too long for a loop
		s.Later(h, func(dst []byte) []byte { return protocol.AppendKVGot(dst, rev, reveal.Entry(entry), q.Raw) })
	case entry != nil && entry.Size() > loopBytes:
		s.Later(h, func(dst []byte) []byte { return protocol.AppendKVGot(dst, rev, entry, q.Raw) })
	default:
		s.End(protocol.AppendKVGot(s.Begin(h.Command.Reply(), h.Seq), rev, entry, q.Raw))
	}
}

func notReached(want, rev kv.Revision) error {
	return codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", want, rev)
}

// getPast answers KVGET with the entry as it was at a revision.
func (f *Handlers) getPast(s *gate.Session, h protocol.Header, q protocol.KVRead) {
	state, ns, key, reveal := f.store, string(q.NS), string(q.Key), s.Revealer(q.Reveal)
	gate.Works(s, h, func(ctx context.Context, dst []byte) ([]byte, error) {
		if rev := state.Revision(); q.MinRev > rev {
			return nil, notReached(q.MinRev, rev)
		}
		entry, err := state.GetAt(ctx, ns, key, q.Rev)
		if err != nil {
			return nil, err
		}
		return protocol.AppendKVGot(dst, q.Rev, reveal.Entry(entry), q.Raw), nil
	})
}

// kvGetMany answers KVMGET: many keys at one revision.
func (f *Handlers) kvGetMany(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Local.Req.KVMGet()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	state := f.store
	if len(q.Keys) > loopEntries || q.Reveal {
		reveal := s.Revealer(q.Reveal)
		gate.Works(s, h, func(_ context.Context, dst []byte) ([]byte, error) {
			entries, rev, err := getMany(state, q)
			return protocol.AppendKVGotMany(dst, rev, reveal.Entries(entries), q.Raw), err
		})
		return true
	}
	entries, rev, err := getMany(state, q)
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	encode(s, h, sizeOf(entries), func(dst []byte) []byte { return protocol.AppendKVGotMany(dst, rev, entries, q.Raw) })
	return true
}

func getMany(state kv.Store, q protocol.KVMGetQuery) ([]*kv.Entry, kv.Revision, error) {
	view := state.View()
	defer view.Close()
	if rev := view.Revision(); q.MinRev > rev {
		return nil, 0, notReached(q.MinRev, rev)
	}
	entries := make([]*kv.Entry, len(q.Keys))
	for i, key := range q.Keys {
		var err error
		if entries[i], err = view.Get(q.NS, key); err != nil {
			return nil, 0, err
		}
	}
	if n := sizeOf(entries); n > maxReply {
		return nil, 0, codes.Errorf(codes.TooLarge, "the %d keys have %d bytes, the limit of one reply is %d; ask for fewer", len(q.Keys), n, maxReply)
	}
	return entries, view.Revision(), nil
}

// encode makes a reply of about that size in bytes, on the loop if it is small.
func encode(s *gate.Session, h protocol.Header, size int, body func(dst []byte) []byte) {
	if size > loopBytes {
		s.Later(h, body)
		return
	}
	s.End(body(s.Begin(h.Command.Reply(), h.Seq)))
}

// sizeOf is about the size of the entries in a reply, without the overhead of encoding.
func sizeOf(entries []*kv.Entry) (n int) {
	for _, e := range entries {
		if e != nil {
			n += e.Size()
		}
	}
	return n
}

// kvList answers a page of keys. A worker makes long pages and counts, and those that leave something
// out.
func (f *Handlers) kvList(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := protocol.Read[protocol.KVListQuery](&s.Local.Req)
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	state, rights := f.store, s.Rights
	if q.CountOnly || q.Limit <= 0 || q.Limit > loopEntries || q.Reveal || !rights.Lists(&q.List) {
		reveal := s.Revealer(q.Reveal)
		gate.Works(s, h, func(_ context.Context, dst []byte) ([]byte, error) {
			page, err := list(rights.Page, state, q)
			page.Entries = reveal.Entries(page.Entries)
			return protocol.AppendKVPage(dst, q, page), err
		})
		return true
	}
	page, err := list(rights.Page, state, q)
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	encode(s, h, sizeOf(page.Entries), func(dst []byte) []byte { return protocol.AppendKVPage(dst, q, page) })
	return true
}

func list(allowed func(kv.View, kv.List) (kv.Page, error), state kv.Store, q protocol.KVListQuery) (kv.Page, error) {
	view := state.View()
	defer view.Close()
	if rev := view.Revision(); q.MinRev > rev {
		return kv.Page{}, notReached(q.MinRev, rev)
	}
	return allowed(view, q.List)
}

// kvHistory answers a page of a key's versions.
func (f *Handlers) kvHistory(ctx context.Context, r *edge.Request, dst []byte, q *protocol.KVHistoryQuery) ([]byte, error) {
	rev := f.store.Revision()
	versions, err := kv.PastVersions(ctx, f.store, q.NS, q.Key, q.Before, q.Limit)
	versions.Entries = r.Revealer(q.Reveal).Entries(versions.Entries)
	return protocol.AppendKVVersions(dst, rev, versions, q.Raw), err
}
