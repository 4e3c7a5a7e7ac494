package server

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// kvGet answers from memory, without waiting and without allocating; a version of
// the past comes from a worker.
func (f *stateHandlers) kvGet(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVGet()
	if err != nil {
		s.refuseState(h, err)
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
func kvGot(s *session, h protocol.Header, q protocol.KVRead, entry *kv.Entry, rev kv.Revision) {
	switch {
	case q.MinRev > rev:
		s.refuseState(h, notReached(q.MinRev, rev))
	case entry != nil && entry.Size() > loopBytes:
		s.later(h, func(dst []byte) []byte { return protocol.AppendKVGot(dst, rev, entry, q.Raw) })
	default:
		s.end(protocol.AppendKVGot(s.begin(h.Command.Reply(), h.Seq), rev, entry, q.Raw))
	}
}

func notReached(want, rev kv.Revision) error {
	return codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", want, rev)
}

// getPast answers KVGET with the entry as it was at a revision.
func (f *stateHandlers) getPast(s *session, h protocol.Header, q protocol.KVRead) {
	state, ns, key := f.store, string(q.NS), string(q.Key)
	s.later(h, func(dst []byte) []byte {
		if rev := state.Revision(); q.MinRev > rev {
			return s.appendRefusal(dst, h, notReached(q.MinRev, rev))
		}
		entry, err := state.GetAt(f.life, ns, key, q.Rev)
		if err != nil {
			return s.appendRefusal(dst, h, err)
		}
		return protocol.AppendKVGot(dst, q.Rev, entry, q.Raw)
	})
}

// kvGetMany answers KVMGET: many keys at one revision.
func (f *stateHandlers) kvGetMany(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVMGet()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	state := f.store
	if len(q.Keys) > loopEntries {
		s.later(h, func(dst []byte) []byte {
			entries, rev, err := getMany(state, q)
			if err != nil {
				return s.appendRefusal(dst, h, err)
			}
			return protocol.AppendKVGotMany(dst, rev, entries, q.Raw)
		})
		return true
	}
	entries, rev, err := getMany(state, q)
	if err != nil {
		s.refuseState(h, err)
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

// encode makes a reply of about that many bytes, on the loop if that is quick.
func encode(s *session, h protocol.Header, size int, body func(dst []byte) []byte) {
	if size > loopBytes {
		s.later(h, body)
		return
	}
	s.end(body(s.begin(h.Command.Reply(), h.Seq)))
}

// sizeOf is about what the entries take in a reply, without what encoding adds.
func sizeOf(entries []*kv.Entry) (n int) {
	for _, e := range entries {
		if e != nil {
			n += e.Size()
		}
	}
	return n
}

// kvList answers a page of keys. Long pages and counts are made by a worker.
func (f *stateHandlers) kvList(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVList()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	state := f.store
	if q.CountOnly || q.Limit <= 0 || q.Limit > loopEntries {
		s.later(h, func(dst []byte) []byte {
			page, err := list(state, q)
			if err != nil {
				return s.appendRefusal(dst, h, err)
			}
			return protocol.AppendKVPage(dst, q, page)
		})
		return true
	}
	page, err := list(state, q)
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	encode(s, h, sizeOf(page.Entries), func(dst []byte) []byte { return protocol.AppendKVPage(dst, q, page) })
	return true
}

func list(state kv.Store, q protocol.KVListQuery) (kv.Page, error) {
	view := state.View()
	defer view.Close()
	if rev := view.Revision(); q.MinRev > rev {
		return kv.Page{}, notReached(q.MinRev, rev)
	}
	return view.List(q.List)
}

// kvHistory answers a page of a key's versions.
func (f *stateHandlers) kvHistory(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVHistory()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	state := f.store
	s.later(h, func(dst []byte) []byte {
		rev := state.Revision()
		versions, err := kv.PastVersions(f.life, state, q.NS, q.Key, q.Before, q.Limit)
		if err != nil {
			return s.appendRefusal(dst, h, err)
		}
		return protocol.AppendKVVersions(dst, rev, versions, q.Raw)
	})
	return true
}
