package server

// session is a connection and who its peer says it is. Everything in it belongs to
// its loop.
type session struct {
	conn

	// set at open
	srv *Server

	// loop only
	client *client // nil before WHOAMI
	subs   []*subscription
	kv     *kvWatches             // nil: it has never had one
	waits  map[*lockWait]struct{} // for locks
	grants grants
}

// readOn is called when the peer has read.
func (s *session) readOn() { s.watchesDrained() }

// ended lets go of all that others know of the session.
func (s *session) ended(err error) {
	s.loop.hub.drop(s)
	s.dropWatches()
	s.dropWaits()
	s.srv.sessionClosed(s, err)
}

func (s *session) identified() bool { return s.client != nil }

// name is what logs call the session.
func (s *session) name() string {
	if s.client == nil {
		return ""
	}
	return s.srv.registry.label(s.client)
}

// session is that of the loop's connection at place i.
func (l *loop) session(i int) *session { return l.conns[i].user.(*session) }
