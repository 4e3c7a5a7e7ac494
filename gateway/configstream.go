package gateway

import (
	"cmp"
	"net/http"
)

// configStream sends changes of files as server-sent events. A new reader first gets
// all files, then `synced`. A reader that returns with the last sequence it saw gets
// what it has missed. If that sequence means nothing here, the reader is first told
// to forget everything.
func (g *Gateway) configStream(w *reply, r *http.Request) error {
	p := parametersOf(r)
	last, given, valid := g.lastEvent(r, p)
	if err := p.end(); err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	defer g.configFeed.join(wake)()
	stream, err := g.newSSE(w)
	if err != nil {
		return gone(err)
	}
	defer stream.close()
	s := &configTeller{sseWriter: stream, feed: g.configFeed}
	beat := g.clock.NewTicker(g.cfg.Heartbeat)
	defer beat.Stop()
	for err = s.begin(last, given, valid); err == nil && !g.ending(); {
		select {
		case <-r.Context().Done():
			return nil
		case <-g.closing:
			return nil
		case <-beat.C():
			s.b = append(s.b, ":\n\n"...)
			err = s.flush()
		case <-wake:
			err = s.more()
		}
	}
	return gone(err)
}

// configTeller is one stream.
type configTeller struct {
	*sseWriter
	feed *configFeed
	at   configPosition
}

// begin sends what comes before what happens from now on.
func (s *configTeller) begin(last int64, given, valid bool) error {
	if given && valid {
		if files, at, known := s.feed.missed(uint64(last)); known {
			s.at = at
			return s.tell(files, uint64(last))
		}
	}
	return s.all(given)
}

// more sends what is new.
func (s *configTeller) more() error {
	files, at, known := s.feed.since(s.at)
	if !known {
		return s.all(true)
	}
	before := s.at.seq
	s.at = at
	return s.tell(files, before)
}

// all sends all files.
func (s *configTeller) all(reset bool) error {
	if reset {
		s.b = s.gateway.appendEvent(s.b, "reset", noID, noData)
	}
	now, at := s.feed.present()
	s.at = at
	for _, file := range filesOf(s.feed.store, now) {
		if err := s.file(&file, noID); err != nil {
			return err
		}
	}
	s.b = s.gateway.appendEvent(s.b, "synced", int64(at.seq), func(dst []byte) []byte {
		return append(appendNumber(dst, `{"seq":`, int64(at.seq)), '}')
	})
	return s.flush()
}

// tell sends files, which are in order, to a peer that knows everything up to seq.
// The last one of a sequence has it as its id.
func (s *configTeller) tell(files []fileState, seq uint64) error {
	for i := range files {
		id := int64(noID)
		if own := files[i].seq(); own > seq && (i == len(files)-1 || files[i+1].seq() > own) {
			id = int64(own)
		}
		if err := s.file(&files[i], id); err != nil {
			return err
		}
	}
	return s.flush()
}

func (s *configTeller) file(file *fileState, id int64) error {
	s.b = s.gateway.appendEvent(s.b, "config", id, func(dst []byte) []byte {
		dst = appendFile(dst, file)
		if !file.known() && file.fault == "" {
			dst = append(dst, `,"gone":true`...)
		}
		return append(appendNumber(dst, `,"seq":`, int64(cmp.Or(file.seq(), s.at.seq))), '}')
	})
	if len(s.b) >= sseChunk {
		return s.write()
	}
	return nil
}
