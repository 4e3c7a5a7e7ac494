package server

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// What the state store's handlers do on the loop is bounded by these; anything
// larger is done by a worker.
const (
	loopEntries = 256       // entries looked up or listed
	loopBytes   = 128 << 10 // bytes of keys and values encoded
)

// maxReply is the most bytes of keys and values that one reply holds: what is
// read in pages is cut there, anything else is refused.
const maxReply = kv.MaxTxnBytes

// stateRoutes are the state store's commands. All of them take a body whose JSON
// may be followed by octets.
func stateRoutes() map[protocol.Command]route {
	return map[protocol.Command]route{
		protocol.KVGet:     {handle: (*session).kvGet, ahead: (*session).lookAhead, answer: (*session).answerAhead},
		protocol.KVMGet:    {handle: (*session).kvGetMany},
		protocol.KVList:    {handle: (*session).kvList},
		protocol.KVNames:   {handle: (*session).kvNames},
		protocol.KVHistory: {handle: (*session).kvHistory},
		protocol.KVStat:    {handle: (*session).kvStat},

		protocol.KVPut:       {handle: (*session).kvWrite, write: true},
		protocol.KVDel:       {handle: (*session).kvWrite, write: true},
		protocol.KVDelPrefix: {handle: (*session).kvWrite, write: true},
		protocol.KVDrop:      {handle: (*session).kvWrite, write: true},
		protocol.KVTxn:       {handle: (*session).kvWrite, write: true},
		protocol.KVCas:       {handle: (*session).kvWrite, write: true},
		protocol.KVIncr:      {handle: (*session).kvWrite, write: true},
		protocol.KVLease:     {handle: (*session).kvWrite, write: true},
		protocol.KVRevoke:    {handle: (*session).kvWrite, write: true},
		protocol.KVRestore:   {handle: (*session).kvRestore}, // reads first, so it waits

		protocol.KVAlive:     {handle: (*session).kvAlive},
		protocol.KVLeaseInfo: {handle: (*session).kvLeaseInfo},
		protocol.KVLock:      {handle: (*session).kvLock, write: true},
		protocol.KVUnlock:    {handle: (*session).kvUnlock, write: true},

		protocol.KVWatch:   {handle: (*session).kvWatch},
		protocol.KVUnwatch: {handle: (*session).kvUnwatch},
	}
}

// parseTailed reads the body of a state store's command. If it cannot be acted on
// it is answered and the result is false.
func (s *session) parseTailed(h protocol.Header, body []byte) bool {
	if s.srv.state == nil {
		s.result(h, int(codes.NotImplemented), "this server has no state store")
		return false
	}
	if err := s.loop.req.ParseTailed(body); err != nil {
		// Not CppCloud's 404, which would read as "no such key".
		s.refuseState(h, codes.Errorf(codes.BadJSON, "body json invalid: %w", err))
		return false
	}
	if !s.loop.req.IsObject() {
		s.refuseState(h, codes.Errorf(codes.BadJSON, "body is not a JSON object"))
		return false
	}
	return true
}

// refuseState answers that nothing was done.
func (s *session) refuseState(h protocol.Header, err error) {
	s.srv.count.StateRefused.Add(1)
	s.end(s.appendRefusal(s.begin(h.Command.Reply(), h.Seq), h, err))
}

// appendRefusal may be called from any goroutine.
func (s *session) appendRefusal(dst []byte, h protocol.Header, err error) []byte {
	return protocol.AppendResult(dst, int(codes.Of(err)), s.wireText(h, err))
}

// kvNames lists the namespaces.
func (s *session) kvNames(h protocol.Header, _ []byte) bool {
	q, err := s.loop.req.KVNames()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	state := s.srv.state
	s.later(h, func(dst []byte) []byte {
		rev := state.Revision()
		list, more := state.Namespaces(q.After, q.Limit)
		return protocol.AppendKVNamespaces(dst, rev, list, more)
	})
	return true
}

// kvStat tells what the store says about itself.
func (s *session) kvStat(h protocol.Header, _ []byte) bool {
	s.later(h, func(dst []byte) []byte { return protocol.AppendKVStats(dst, s.srv.stateStats()) })
	return true
}

// kvAlive begins a lease's time anew.
func (s *session) kvAlive(h protocol.Header, _ []byte) bool {
	return s.aboutLease(h, func(id kv.LeaseID) (kv.Lease, error) {
		lease, err := s.srv.state.KeepAlive(id)
		if err == nil { // whoever keeps it alive has it, also one that another connection was granted
			s.grants.lease(id)
		}
		return lease, err
	}, protocol.AppendKVAlive)
}

// kvLeaseInfo tells about a lease.
func (s *session) kvLeaseInfo(h protocol.Header, _ []byte) bool {
	return s.aboutLease(h, s.srv.state.Lease, protocol.AppendKVLeaseInfo)
}

func (s *session) aboutLease(h protocol.Header, ask func(kv.LeaseID) (kv.Lease, error), appendReply func([]byte, kv.Lease) []byte) bool {
	id, err := s.loop.req.KVLeaseID()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	lease, err := ask(id)
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	s.end(appendReply(s.begin(h.Command.Reply(), h.Seq), lease))
	return true
}
