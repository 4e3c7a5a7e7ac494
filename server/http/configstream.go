package http

import (
	"cmp"
	"net/http"
	"reflect"

	"confcenter/access/policy"
	"confcenter/kv/follow"
	"confcenter/op"
	"confcenter/server/http/sse"
)

// configStream sends changes of the files that a reader may watch as server-sent events. A
// new reader first gets all files, then `synced`. A reader that returns with the last sequence it
// saw gets what it has missed. If the server does not know that sequence, the
// stream first tells the reader to forget everything.
func (g *Gateway) configStream(w *reply, r *http.Request) error {
	p := parametersOf(r)
	last, given, valid := g.sse.IDs.Last(r, p.text("last"))
	if err := p.end(); err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	defer g.configFeed.Join(wake)()
	s := &configTeller{feed: g.configFeed, may: w.May()}
	s.Stream = g.sse.Begin(w, connOf(r), func() {}, s.held)
	defer s.Close()
	s.begin(last, given, valid)
	return s.Run(r.Context(), wake, func() (bool, error) { return s.more(), nil }, func() { s.Buf = append(s.Buf, ":\n\n"...) })
}

// configTeller writes one stream. It keeps names of what it has to tell, and asks for the
// state of a file when it gets to it.
type configTeller struct {
	*sse.Stream
	feed *configFeed
	may  op.May          // files that it may not watch are not told of
	at   follow.Position // before what was noted since

	changes []follow.News // to tell of, in order; shared
	known   uint64        // the peer knows everything up to that sequence, before changes

	listing bool // all files are told, those after a name still
	after   string
}

// held is what the names take, if no other stream has the same list.
func (s *configTeller) held() int64 {
	return int64(len(s.changes)) * int64(reflect.TypeFor[follow.News]().Size())
}

// begin finds out what precedes the changes from now on.
func (s *configTeller) begin(last int64, given, valid bool) {
	if given && valid {
		if changes, at, known := s.feed.missed(uint64(last)); known {
			s.changes, s.at, s.known = changes, at, uint64(last)
			return
		}
	}
	s.all(given)
}

// all begins with all files.
func (s *configTeller) all(reset bool) {
	if reset {
		s.Event("reset", sse.NoID, sse.NoData)
	}
	_, s.at = s.feed.Present()
	s.listing, s.after = true, ""
}

// more puts in some of what is new, and reports whether there was anything.
func (s *configTeller) more() bool {
	switch {
	case s.listing:
		s.list()
		return true
	case len(s.changes) == 0:
		changes, at, known := s.feed.Since(s.at)
		if !known {
			s.all(true)
			return true
		}
		s.changes, s.known, s.at = changes, s.at.Seq, at
	}
	told := len(s.changes) > 0
	s.tell()
	return told
}

// listPage is how many files are looked up at a time.
const listPage = 32

// list puts in the next files, and after the last of them that these are all. What has
// changed meanwhile is told of afterwards.
func (s *configTeller) list() {
	now, _ := s.feed.Present()
	files := filesAfter(s.feed.store, now, s.after, listPage)
	for i := range files {
		if len(s.Buf) >= sse.Chunk {
			return
		}
		s.file(&files[i], sse.NoID)
		s.after = files[i].name
	}
	if len(files) == listPage {
		return
	}
	s.listing, s.after = false, ""
	s.Event("synced", int64(s.at.Seq), func(dst []byte) []byte {
		return append(appendNumber(dst, `{"seq":`, int64(s.at.Seq)), '}')
	})
}

// tell puts in the next changes. The last file of a sequence carries it as its id.
func (s *configTeller) tell() {
	now, _ := s.feed.Present()
	for len(s.changes) > 0 && len(s.Buf) < sse.Chunk {
		c := s.changes[0]
		s.changes = s.changes[1:]
		id := int64(sse.NoID)
		if c.Seq > s.known && (len(s.changes) == 0 || s.changes[0].Seq > c.Seq) {
			id = int64(c.Seq)
		}
		file, _ := fileOf(s.feed.store, now, c.Name)
		s.file(&file, id)
	}
	if len(s.changes) == 0 {
		s.changes = nil // the list may be long
	}
}

func (s *configTeller) file(file *fileState, id int64) {
	if !s.may.Sees(op.Document(policy.Watch, file.name)) || !s.may.Names(file.name) {
		if id != sse.NoID { // how far the reader has got, all the same: it is no event
			s.ID(id)
			s.Buf = append(s.Buf, '\n')
		}
		return
	}
	seq := s.at.Seq
	if file.known() {
		seq = cmp.Or(file.node.Seq(), seq)
	}
	s.Event("config", id, func(dst []byte) []byte {
		dst = appendFile(dst, file, s.may)
		if !file.known() && file.fault == "" {
			dst = append(dst, `,"gone":true`...)
		}
		return append(appendNumber(dst, `,"seq":`, int64(seq)), '}')
	})
}
