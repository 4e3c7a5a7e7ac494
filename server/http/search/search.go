// Package search finds a text in documents and keys. A search runs on the goroutine of its request and
// on snapshots, so only its client waits for it, and it ends when it has cost enough.
package search

import (
	"bytes"
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Limits of a search.
const (
	maxWanted      = 256              // bytes of the text to search for
	maxHits        = 5                // matches listed per document; the others are counted
	maxHitPath     = 4 << 10          // bytes of a path; matches with a longer one are counted only
	maxHitText     = 160              // bytes shown of a value
	maxSearchBytes = 256 << 20        // of documents or entries scanned for one reply
	maxSearchTime  = time.Second      // for one reply
	maxSearches    = 2                // searches at a time, of an identity one; others wait
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

// In reports whether text contains it.
func (w *wanted) In(text []byte) bool { return w.index(text) >= 0 }

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

// Search is one search and what it may still cost.
type Search struct {
	Scanned int // bytes

	wanted
	server *Searchers
	ctx    context.Context // of the request
	until  time.Time
}

// Searchers are those who search, or wait for their turn. Of an identity one search runs at a time,
// so that no one takes the places of all. Make one with New.
type Searchers struct {
	// set at open
	clock   clock.Clock
	closing <-chan struct{}
	places  chan struct{} // holds one per running search

	mu  sync.Mutex
	all map[string]*searcher // guarded by mu; by name
}

type searcher struct {
	turn  chan struct{} // holds one while a search runs, or waits for a place
	users int           // guarded by the searchers' mu
}

// New is for a server that ends, and its searches with it, when closing is closed.
func New(c clock.Clock, closing <-chan struct{}) *Searchers {
	return &Searchers{clock: c, closing: closing, places: make(chan struct{}, maxSearches), all: map[string]*searcher{}}
}

// enter is for a caller that will leave.
func (l *Searchers) enter(name string) *searcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.all[name]
	if one == nil {
		one = &searcher{turn: make(chan struct{}, 1)}
		l.all[name] = one
	}
	one.users++
	return one
}

func (l *Searchers) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.all[name]; one.users == 1 {
		delete(l.all, name)
	} else {
		one.users--
	}
}

// Begin begins a search for a text, in any case, by who has that name, "" for no one that is known. It
// waits for its turn; done ends it. The search ends with ctx.
func (l *Searchers) Begin(ctx context.Context, who, text string) (s *Search, done func(), err error) {
	sought, err := newWanted(text)
	if err != nil {
		return nil, nil, err
	}
	patience := l.clock.NewTimer(searchBusy)
	defer patience.Stop()
	wait := func(place chan struct{}, busy string, args ...any) error {
		select {
		case place <- struct{}{}:
			return nil
		case <-ctx.Done():
			return codes.Errorf(codes.Closed, "the client no longer waits for the reply")
		case <-l.closing:
			return codes.Errorf(codes.Closed, "the server is stopping")
		case <-patience.C():
			return codes.Errorf(codes.Busy, busy, args...)
		}
	}
	leave := func() {}
	if who != "" {
		own := l.enter(who)
		if err := wait(own.turn, "a search of %s is already running; try again", who); err != nil {
			l.leave(who)
			return nil, nil, err
		}
		leave = func() {
			<-own.turn
			l.leave(who)
		}
	}
	if err = wait(l.places, "%d searches are already running; try again", maxSearches); err != nil {
		leave()
		return nil, nil, err
	}
	return &Search{wanted: sought, server: l, ctx: ctx, until: l.clock.Now().Add(maxSearchTime)}, func() {
		<-l.places
		leave()
	}, nil
}

// Spent reports whether the search must stop.
func (s *Search) Spent() bool {
	select {
	case <-s.server.closing:
		return true
	default:
		return s.Scanned > maxSearchBytes || s.server.clock.Now().After(s.until) || s.ctx.Err() != nil
	}
}

// Found is where a text is in a document.
type Found struct {
	Matches []Hit `json:"matches"`
	More    int   `json:"more"` // matches that are not listed
}

// Hit is one of them.
type Hit struct {
	Path string `json:"path"` // a JSON pointer, or the line in a broken file
	Text string `json:"text"`
}

// Document searches a valid document, in keys, in strings or in the text of other values.
func (s *Search) Document(found *Found, text []byte) {
	s.Scanned += len(text)
	// Escapes could hide a match. Text without escapes and without a match needs no
	// closer look.
	if bytes.IndexByte(text, '\\') < 0 && !s.In(text) {
		return
	}
	s.value(found, nil, text, 0)
}

// value searches the value at path.
func (s *Search) value(found *Found, path, raw []byte, depth int) {
	it := jsontext.Iterate(raw)
	inObject := it.Container() == jsontext.Object
	if depth == maxHitDepth || !inObject && it.Container() != jsontext.Array {
		if s.In(plainText(raw)) {
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
			named = s.In(key)
		} else {
			path = strconv.AppendInt(path, int64(n), 10)
		}
		switch kind := it.Kind(); {
		case kind == jsontext.Object || kind == jsontext.Array:
			if named {
				s.hit(found, path, it.Raw())
			}
			s.value(found, path, it.Raw(), depth+1)
		case named || s.In(plainText(it.Raw())):
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

func (s *Search) hit(found *Found, path, text []byte) {
	if len(found.Matches) == maxHits || len(path) > maxHitPath {
		found.More++
		return
	}
	found.Matches = append(found.Matches, Hit{string(path), s.around(text)})
}

// around returns the part of a text around the match.
func (s *Search) around(text []byte) string {
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

// Lines searches a text that is not a valid document, line by line.
func (s *Search) Lines(found *Found, text []byte) {
	s.Scanned += len(text)
	line := 0
	for part := range bytes.Lines(text) {
		line++
		if s.In(part) {
			s.hit(found, []byte("line "+strconv.Itoa(line)), bytes.ToValidUTF8(bytes.TrimSpace(part), []byte("?")))
		}
	}
}

// Keys reads the pages of a list and finds the keys that contain the text or, with values, whose value
// does. With sent the values found count against what an answer may have. When it must stop early,
// scanned is the key after which to continue.
func (s *Search) Keys(list kv.List, read func(kv.List) (kv.Page, error), values, sent bool) (all kv.Page, scanned string, err error) {
	limit := cmp.Or(list.Limit, kv.MaxList)
	size := 0
	all.More = true
	list.Limit, list.MaxBytes = keysPerTurn, maxSearchBytes
	for all.More && len(all.Entries) < limit && size < maxFoundBytes && !s.Spent() {
		page, err := read(list)
		if err != nil {
			return kv.Page{}, "", err
		}
		all.More = page.More
		for i, e := range page.Entries {
			list.After = e.Key
			s.Scanned += len(e.Key)
			if !s.entry(e, values) {
				continue
			}
			all.Entries = append(all.Entries, e)
			if sent {
				size += len(e.Value.Data)
			}
			if len(all.Entries) == limit || size >= maxFoundBytes {
				all.More = all.More || i < len(page.Entries)-1
				break
			}
		}
	}
	all.Count = int64(len(all.Entries))
	return all, list.After, nil
}

func (s *Search) entry(e *kv.Entry, values bool) bool {
	if s.In([]byte(e.Key)) {
		return true
	}
	if !values || e.Value.Type.Octets() {
		return false
	}
	s.Scanned += len(e.Value.Data)
	return s.In(e.Value.Data)
}
