package gateway

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"confcenter/kv"
)

// maxListedViewers is how many streams are told one by one.
const maxListedViewers = 1000

// streams are the open streams, at most as many as there may be connections.
type streams struct {
	mu   sync.Mutex
	open map[*reply]viewerBody // guarded by mu
}

// enter notes a stream until leave is called.
func (l *streams) enter(w *reply, by viewerBody) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*reply]viewerBody{}
	}
	l.open[w] = by
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

// end is called after closing was closed: a peer that reads nothing would otherwise
// hold up Shutdown for as long as a write may take.
func (l *streams) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.open {
		w.hurry()
	}
}

// list returns the streams, oldest first; more are not in it.
func (l *streams) list() (list []viewerBody, more int) {
	l.mu.Lock()
	list = slices.AppendSeq(make([]viewerBody, 0, len(l.open)), maps.Values(l.open))
	l.mu.Unlock()
	slices.SortFunc(list, func(a, b viewerBody) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Address, b.Address))
	})
	more = max(0, len(list)-maxListedViewers)
	return list[:len(list)-more], more
}

// viewerOf says who asks for a stream, and of what. What the query says that no key can
// be is cut short; the handler refuses it.
func (g *Gateway) viewerOf(r *http.Request, rt *route) viewerBody {
	kind, _, _ := strings.Cut(rt.name, ".")
	query, _ := url.ParseQuery(r.URL.RawQuery) // what it is about is the handler's to refuse
	text := func(name string, most int) string {
		value := query.Get(name)
		return value[:min(len(value), most)]
	}
	one := viewerBody{Kind: kind, Address: r.RemoteAddr, Since: g.clock.Now().UnixMilli()}
	switch kind {
	case "store":
		one.keysBody = keysBody{NS: text("ns", kv.MaxNamespace), Key: text("key", kv.MaxKey), Prefix: text("prefix", kv.MaxKey)}
	case "plum":
		one.NS = text("namespace", kv.MaxNamespace)
	}
	return one
}
