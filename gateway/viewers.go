package gateway

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"confcenter/kv"
)

// maxListedViewers is how many streams are told one by one.
const maxListedViewers = 1000

// viewers are the streams that are open, as people are shown them. They are as many
// as there may be connections.
type viewers struct {
	mu   sync.Mutex
	open map[*viewerBody]struct{} // guarded by mu
}

// enter notes a stream until leave is called.
func (v *viewers) enter(one *viewerBody) (leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open == nil {
		v.open = map[*viewerBody]struct{}{}
	}
	v.open[one] = struct{}{}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.open, one)
	}
}

// list is the streams, oldest first; more are not in it.
func (v *viewers) list() (list []viewerBody, more int) {
	v.mu.Lock()
	list = make([]viewerBody, 0, len(v.open))
	for one := range v.open {
		list = append(list, *one)
	}
	v.mu.Unlock()
	slices.SortFunc(list, func(a, b viewerBody) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Address, b.Address))
	})
	more = max(0, len(list)-maxListedViewers)
	return list[:len(list)-more], more
}

// viewerOf says who asks for a stream, and of what. What the query says that no key can
// be is cut short; the handler refuses it.
func (g *Gateway) viewerOf(r *http.Request, rt *route) *viewerBody {
	kind, _, _ := strings.Cut(rt.name, ".")
	query, _ := url.ParseQuery(r.URL.RawQuery) // what it is about is the handler's to refuse
	text := func(name string, most int) string {
		value := query.Get(name)
		return value[:min(len(value), most)]
	}
	one := &viewerBody{Kind: kind, Address: r.RemoteAddr, Since: g.clock.Now().UnixMilli()}
	switch kind {
	case "store":
		one.keysBody = keysBody{NS: text("ns", kv.MaxNamespace), Key: text("key", kv.MaxKey), Prefix: text("prefix", kv.MaxKey)}
	case "plum":
		one.NS = text("namespace", kv.MaxNamespace)
	}
	return one
}
