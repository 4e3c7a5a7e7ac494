package gateway

import (
	"cmp"
	"net/http"
)

// configStream sends changes of files as server-sent events. A new reader first
// gets all files, then `synced`. A reader that returns with the last sequence it
// saw gets what it has missed. If the server does not know that sequence, the
// stream first tells the reader to forget everything.
func (g *Gateway) configStream(w *reply, r *http.Request) error {
	p := parametersOf(r)
	last, given, valid := g.lastEvent(r, p)
	if err := p.end(); err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	defer g.configFeed.join(wake)()
	s := &configTeller{sseWriter: g.newSSE(w), feed: g.configFeed}
	next := func() { s.begin(last, given, valid) }
	return s.run(r, wake, func() (bool, error) {
		next()
		next = s.more
		return false, nil
	}, func() { s.b = append(s.b, ":\n\n"...) })
}

// configTeller writes one stream.
type configTeller struct {
	*sseWriter
	feed *configFeed
	at   configPosition
}

// begin puts in what precedes the changes from now on.
func (s *configTeller) begin(last int64, given, valid bool) {
	if given && valid {
		if files, at, known := s.feed.missed(uint64(last)); known {
			s.at = at
			s.tell(files, uint64(last))
			return
		}
	}
	s.all(given)
}

// more puts in what is new.
func (s *configTeller) more() {
	files, at, known := s.feed.since(s.at)
	if !known {
		s.all(true)
		return
	}
	before := s.at.seq
	s.at = at
	s.tell(files, before)
}

// all puts in all files.
func (s *configTeller) all(reset bool) {
	if reset {
		s.b = s.gateway.appendEvent(s.b, "reset", noID, noData)
	}
	now, at := s.feed.present()
	s.at = at
	for _, file := range filesOf(s.feed.store, now) {
		s.file(&file, noID)
	}
	s.b = s.gateway.appendEvent(s.b, "synced", int64(at.seq), func(dst []byte) []byte {
		return append(appendNumber(dst, `{"seq":`, int64(at.seq)), '}')
	})
}

// tell puts in files, which are in order, for a peer that knows everything up to
// seq. The last file of a sequence carries it as its id.
func (s *configTeller) tell(files []fileState, seq uint64) {
	for i := range files {
		id := int64(noID)
		if own := files[i].seq(); own > seq && (i == len(files)-1 || files[i+1].seq() > own) {
			id = int64(own)
		}
		s.file(&files[i], id)
	}
}

func (s *configTeller) file(file *fileState, id int64) {
	s.b = s.gateway.appendEvent(s.b, "config", id, func(dst []byte) []byte {
		dst = appendFile(dst, file)
		if !file.known() && file.fault == "" {
			dst = append(dst, `,"gone":true`...)
		}
		return append(appendNumber(dst, `,"seq":`, int64(cmp.Or(file.seq(), s.at.seq))), '}')
	})
	s.writeIfLong()
}
