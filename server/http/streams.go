package http

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"confcenter/kv"
	"confcenter/server/edge"
	"confcenter/server/http/sse"
)

// maxListedViewers is how many streams are listed one by one.
const maxListedViewers = 1000

// streams is the register of open streams. There are never more than connections.
type streams struct {
	mu   sync.Mutex
	open map[*reply]stream // guarded by mu
}

// stream is an open stream.
type stream struct {
	viewer viewerBody
	by     *edge.Request // apart
	cut    func()        // ends it
}

// enter registers a stream until leave is called. It ends one whose rights have become less since
// it was let in: when they did, it was not among those to be asked.
func (l *streams) enter(w *reply, by stream) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[w] = by
	by.renew(w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, w)
	}
}

func (l *streams) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// end hurries all streams once closing is closed: a peer that does not read would
// otherwise hold up Shutdown for as long as a write may take.
func (l *streams) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.open {
		sse.Hurry(http.NewResponseController(w))
	}
}

// renew cuts those off whose rights are less than they were.
func (l *streams) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w, s := range l.open {
		s.renew(w)
	}
}

// renew cuts the stream off if its rights are less than they were.
func (s *stream) renew(w *reply) {
	var ok bool
	if s.by.Rights, ok = s.by.Rights.Renew(); !ok {
		s.cut()
		sse.Hurry(http.NewResponseController(w))
	}
}

// list returns the streams, oldest first, and how many more there are.
func (l *streams) list() (list []viewerBody, more int) {
	l.mu.Lock()
	list = make([]viewerBody, 0, len(l.open))
	for _, s := range l.open {
		list = append(list, s.viewer)
	}
	l.mu.Unlock()
	slices.SortFunc(list, func(a, b viewerBody) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Address, b.Address))
	})
	more = max(0, len(list)-maxListedViewers)
	return list[:len(list)-more], more
}

// viewerOf describes a stream by its client and what it follows. It cuts names that
// are too long for a key; the handler refuses them.
func (g *Gateway) viewerOf(r *http.Request, rt *route) viewerBody {
	kind, _, _ := strings.Cut(rt.name, ".")
	query, _ := url.ParseQuery(r.URL.RawQuery) // the handler refuses a malformed one
	text := func(name string, most int) string {
		value := query.Get(name)
		return value[:min(len(value), most)]
	}
	one := viewerBody{Kind: kind, Address: r.RemoteAddr, Since: g.clock.Now().UnixMilli()}
	switch kind {
	case "config": // files by their names
		one.keysBody = keysBody{Key: text("name", kv.MaxKey), Prefix: text("prefix", kv.MaxKey)}
	case "store":
		one.keysBody = keysBody{NS: text("ns", kv.MaxNamespace), Key: text("key", kv.MaxKey), Prefix: text("prefix", kv.MaxKey)}
	case "plum":
		one.NS = text("namespace", kv.MaxNamespace)
	}
	return one
}
