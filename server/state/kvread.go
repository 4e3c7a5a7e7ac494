package state

import (
	"confcenter/access/guard"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/gate"
)

// kvGet answers from memory, without waiting and without allocating; a worker reads past
// versions.
func (f *Handlers) kvGet(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.KVGet()
	if err == nil {
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
		reveal := revealer(s, true)
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
	state, ns, key := f.store, string(q.NS), string(q.Key)
	reveal := revealer(s, q.Reveal)
	s.Later(h, func(dst []byte) []byte {
		if rev := state.Revision(); q.MinRev > rev {
			return s.AppendRefusal(dst, h, notReached(q.MinRev, rev))
		}
		entry, err := state.GetAt(f.life, ns, key, q.Rev)
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		return protocol.AppendKVGot(dst, q.Rev, reveal.Entry(entry), q.Raw)
	})
}

// revealer is for a worker, because what it does takes too long for a loop.
func revealer(s *gate.Session, asked bool) *guard.Revealer {
	if !asked {
		return nil
	}
	return s.Rights.Apart().Revealer(s.Ring, true)
}

// kvGetMany answers KVMGET: many keys at one revision.
func (f *Handlers) kvGetMany(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.KVMGet()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	state := f.store
	if len(q.Keys) > loopEntries || q.Reveal {
		reveal := revealer(s, q.Reveal)
		s.Later(h, func(dst []byte) []byte {
			entries, rev, err := getMany(state, q)
			if err != nil {
				return s.AppendRefusal(dst, h, err)
			}
			return protocol.AppendKVGotMany(dst, rev, reveal.Entries(entries), q.Raw)
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
	q, err := s.Desk.Req.KVList()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	state := f.store
	if q.CountOnly || q.Limit <= 0 || q.Limit > loopEntries || q.Reveal || !s.Rights.Lists(&q.List) {
		reveal, rights := revealer(s, q.Reveal), s.Rights.Apart()
		s.Later(h, func(dst []byte) []byte {
			page, err := list(rights, state, q)
			if err != nil {
				return s.AppendRefusal(dst, h, err)
			}
			page.Entries = reveal.Entries(page.Entries)
			return protocol.AppendKVPage(dst, q, page)
		})
		return true
	}
	page, err := list(s.Rights, state, q)
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	encode(s, h, sizeOf(page.Entries), func(dst []byte) []byte { return protocol.AppendKVPage(dst, q, page) })
	return true
}

func list(rights *guard.Caller, state kv.Store, q protocol.KVListQuery) (kv.Page, error) {
	view := state.View()
	defer view.Close()
	if rev := view.Revision(); q.MinRev > rev {
		return kv.Page{}, notReached(q.MinRev, rev)
	}
	return rights.Page(view, q.List)
}

// kvHistory answers a page of a key's versions.
func (f *Handlers) kvHistory(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.KVHistory()
	if err == nil {
		err = s.Judge(q.Things(s.Things()))
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	state, reveal := f.store, revealer(s, q.Reveal)
	s.Later(h, func(dst []byte) []byte {
		rev := state.Revision()
		versions, err := kv.PastVersions(f.life, state, q.NS, q.Key, q.Before, q.Limit)
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		versions.Entries = reveal.Entries(versions.Entries)
		return protocol.AppendKVVersions(dst, rev, versions, q.Raw)
	})
	return true
}
