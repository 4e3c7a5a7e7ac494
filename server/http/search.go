package http

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/server/edge"
)

// Limits of a search. It runs on the goroutine of its request and on snapshots, so
// only its client waits for it.
const (
	maxWanted      = 256              // bytes of the text to search for
	maxHitFiles    = 200              // files in one reply
	maxHits        = 5                // matches listed per file; the others are counted
	maxHitPath     = 4 << 10          // bytes of a path; matches with a longer one are counted only
	maxHitText     = 160              // bytes shown of a value
	maxSearchBytes = 256 << 20        // of documents or entries scanned for one reply
	maxSearchTime  = time.Second      // for one reply
	maxSearches    = 2                // searches at a time, of an identity one; others wait
	maxBrokenRead  = 50               // broken files that are read from disk
	maxHitDepth    = 64               // nesting up to which a match gets a path of its own
	keysPerTurn    = 1000             // keys scanned between two looks at the clock
	maxFoundBytes  = int(kv.MaxPage)  // of values in one answer
	searchBusy     = 10 * time.Second // how long a search waits for its turn
)

// wanted is the text to search for, in any case.
type wanted struct {
	text  []byte // in lower case
	ascii bool
}

func newWanted(text string) (wanted, error) {
	if len(text) > maxWanted || !utf8.ValidString(text) {
		return wanted{}, codes.Errorf(codes.BadRequest, "the text to search for must be UTF-8 of at most %d bytes", maxWanted)
	}
	w := wanted{text: bytes.ToLower([]byte(text)), ascii: true}
	for i := range len(text) {
		w.ascii = w.ascii && text[i] < utf8.RuneSelf
	}
	return w, nil
}

// in reports whether text contains it.
func (w *wanted) in(text []byte) bool { return w.index(text) >= 0 }

func (w *wanted) index(text []byte) int {
	if !w.ascii {
		return bytes.Index(bytes.ToLower(text), w.text)
	}
	for i := 0; i+len(w.text) <= len(text); i++ {
		if text[i]|0x20 == w.text[0]|0x20 && bytes.EqualFold(text[i:i+len(w.text)], w.text) {
			return i
		}
	}
	return -1
}

// search is one search and what it may still cost.
type search struct {
	wanted
	g     *Gateway
	w     *reply
	r     *http.Request
	until time.Time
	bytes int
}

// searchers are those who search, or wait for their turn. Of an identity one search runs at a time,
// so that no one takes the places of all.
type searchers struct {
	places chan struct{} // holds one per running search; set at open

	mu  sync.Mutex
	all map[string]*searcher // guarded by mu; by name
}

type searcher struct {
	turn  chan struct{} // holds one while a search runs, or waits for a place
	users int           // guarded by the searchers' mu
}

func newSearchers() searchers {
	return searchers{places: make(chan struct{}, maxSearches), all: map[string]*searcher{}}
}

// enter is for a caller that will leave.
func (s *searchers) enter(name string) *searcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[name]
	if one == nil {
		one = &searcher{turn: make(chan struct{}, 1)}
		s.all[name] = one
	}
	one.users++
	return one
}

func (s *searchers) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[name]; one.users == 1 {
		delete(s.all, name)
	} else {
		one.users--
	}
}

// beginSearch waits for its turn; done ends it.
func (g *Gateway) beginSearch(w *reply, r *http.Request, text string) (s *search, done func(), err error) {
	sought, err := newWanted(text)
	if err != nil {
		return nil, nil, err
	}
	patience := g.clock.NewTimer(searchBusy)
	defer patience.Stop()
	wait := func(place chan struct{}, busy string, args ...any) error {
		select {
		case place <- struct{}{}:
			return nil
		case <-r.Context().Done():
			return codes.Errorf(codes.Closed, "the client no longer waits for the reply")
		case <-g.closing:
			return codes.Errorf(codes.Closed, "the server is stopping")
		case <-patience.C():
			return codes.Errorf(codes.Busy, busy, args...)
		}
	}
	leave := func() {}
	if who := w.Rights.Identity(); who != nil {
		own := g.searchers.enter(who.Name)
		if err := wait(own.turn, "a search of %s is already running; try again", who.Name); err != nil {
			g.searchers.leave(who.Name)
			return nil, nil, err
		}
		leave = func() {
			<-own.turn
			g.searchers.leave(who.Name)
		}
	}
	if err = wait(g.searchers.places, "%d searches are already running; try again", maxSearches); err != nil {
		leave()
		return nil, nil, err
	}
	done = func() {
		<-g.searchers.places
		leave()
	}
	if err := w.judgeAnew(); err != nil {
		done()
		return nil, nil, err
	}
	return &search{wanted: sought, g: g, w: w, r: r, until: g.clock.Now().Add(maxSearchTime)}, done, nil
}

// spent reports whether the search must stop.
func (s *search) spent() bool {
	return s.bytes > maxSearchBytes || s.g.clock.Now().After(s.until) || s.r.Context().Err() != nil || s.g.ending()
}

// The body of /v1/config/search.
type (
	foundBody struct {
		Files   []foundFile `json:"files"`
		More    bool        `json:"more"` // not everything was scanned or listed
		Scanned int         `json:"scanned_bytes"`
	}
	foundFile struct {
		Name    string `json:"name"`
		State   string `json:"state"`
		Matches []hit  `json:"matches"`
		More    int    `json:"more"` // matches that are not listed
	}
	hit struct {
		Path string `json:"path"` // a JSON pointer, or the line in a broken file
		Text string `json:"text"`
	}
)

// configSearch finds files whose name or own contents contain a text, in keys, in
// strings or in the text of other values.
func (g *Gateway) configSearch(w *reply, r *http.Request) error {
	p := parametersOf(r)
	text := p.needed("q")
	if err := p.end(); err != nil {
		return err
	}
	body := foundBody{Files: []foundFile{}}
	if text == "" {
		return w.sendStruct(&body)
	}
	s, done, err := g.beginSearch(w, r, text)
	if err != nil {
		return err
	}
	defer done()
	files := filesOf(g.stores.Config, g.stores.Config.Snapshot())
	read := 0
	for i := range files {
		file := &files[i]
		if file.state() == stateDeleted || !w.May().Names(file.name) {
			continue
		}
		if len(body.Files) == maxHitFiles || s.spent() {
			body.More = true
			break
		}
		found := foundFile{Name: file.name, State: file.state(), Matches: []hit{}}
		if found.State == stateBroken {
			if read++; read > maxBrokenRead {
				body.More = true
			} else {
				s.broken(&found)
			}
		} else {
			s.document(&found, file.node)
		}
		if len(found.Matches) > 0 || s.in([]byte(file.name)) {
			body.Files = append(body.Files, found)
		}
	}
	body.Scanned = s.bytes
	return w.sendStruct(&body)
}

func (s *search) document(found *foundFile, node *snapshot.Node) {
	text, _ := node.Contents(false)
	s.bytes += len(text)
	// Escapes could hide a match. Text without escapes and without a match needs no
	// closer look.
	if bytes.IndexByte(text, '\\') < 0 && !s.in(text) {
		return
	}
	s.value(found, nil, text, 0)
}

// value searches the value at path.
func (s *search) value(found *foundFile, path, raw []byte, depth int) {
	it := jsontext.Iterate(raw)
	inObject := it.Container() == jsontext.Object
	if depth == maxHitDepth || !inObject && it.Container() != jsontext.Array {
		if s.in(plainText(raw)) {
			s.hit(found, path, raw)
		}
		return
	}
	for n := 0; it.Next(); n++ {
		length := len(path)
		path = append(path, '/')
		named := false
		if inObject {
			key := it.Key()
			path = appendPointer(path, key)
			named = s.in(key)
		} else {
			path = strconv.AppendInt(path, int64(n), 10)
		}
		switch kind := it.Kind(); {
		case kind == jsontext.Object || kind == jsontext.Array:
			if named {
				s.hit(found, path, it.Raw())
			}
			s.value(found, path, it.Raw(), depth+1)
		case named || s.in(plainText(it.Raw())):
			s.hit(found, path, it.Raw())
		}
		path = path[:length]
	}
}

// plainText returns a scalar as people read it: a string without quotes and
// escapes.
func plainText(raw []byte) []byte {
	if len(raw) > 0 && raw[0] == '"' {
		return jsontext.Unquote(raw)
	}
	return raw
}

func appendPointer(dst, key []byte) []byte {
	for _, c := range key {
		switch c {
		case '~':
			dst = append(dst, "~0"...)
		case '/':
			dst = append(dst, "~1"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func (s *search) hit(found *foundFile, path, text []byte) {
	if len(found.Matches) == maxHits || len(path) > maxHitPath {
		found.More++
		return
	}
	found.Matches = append(found.Matches, hit{string(path), s.around(text)})
}

// around returns the part of a text around the match.
func (s *search) around(text []byte) string {
	if len(text) <= maxHitText {
		return string(text)
	}
	from := max(0, min(s.index(text)-maxHitText/4, len(text)-maxHitText))
	part := strings.ToValidUTF8(string(text[from:from+maxHitText]), "")
	if from > 0 {
		part = "…" + part
	}
	if from+maxHitText < len(text) {
		part += "…"
	}
	return part
}

// broken searches a file that is not a valid document, line by line.
func (s *search) broken(found *foundFile) {
	text, _, err := s.g.stores.Config.Look(found.Name, s.w.takeFile)
	if err != nil {
		return // it cannot be read
	}
	s.bytes += len(text)
	line := 0
	for part := range bytes.Lines(text) {
		line++
		if s.in(part) {
			s.hit(found, []byte("line "+strconv.Itoa(line)), bytes.ToValidUTF8(bytes.TrimSpace(part), []byte("?")))
		}
	}
}

// findKeys is storeKeys for keys that contain a text or, with values, whose value
// does. When it must stop early, scanned is the key after which to continue.
func (g *Gateway) findKeys(w *reply, r *http.Request, list kv.List, text string, values, withValues bool, reveal *edge.Revealer) error {
	s, done, err := g.beginSearch(w, r, text)
	if err != nil {
		return err
	}
	defer done()
	limit := cmp.Or(list.Limit, kv.MaxList)
	view := g.stores.State.View()
	defer view.Close()
	var found []*kv.Entry
	size, more := 0, true
	list.Limit, list.MaxBytes = keysPerTurn, maxSearchBytes
	for more && len(found) < limit && size < maxFoundBytes && !s.spent() {
		page, err := w.Rights.Page(view, list)
		if err != nil {
			return err
		}
		more = page.More
		for i, e := range page.Entries {
			list.After = e.Key
			s.bytes += len(e.Key)
			if !s.entry(e, values) {
				continue
			}
			found = append(found, e)
			if withValues {
				size += len(e.Value.Data)
			}
			if len(found) == limit || size >= maxFoundBytes {
				more = more || i < len(page.Entries)-1
				break
			}
		}
	}
	page := kv.Page{Revision: view.Revision(), Entries: reveal.Entries(found), Count: int64(len(found)), More: more}
	return w.sendPage(page, withValues, &list.After)
}

func (s *search) entry(e *kv.Entry, values bool) bool {
	if s.in([]byte(e.Key)) {
		return true
	}
	if !values || e.Value.Type.Octets() {
		return false
	}
	s.bytes += len(e.Value.Data)
	return s.in(e.Value.Data)
}
