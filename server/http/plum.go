package http

import (
	"net/http"
	"net/url"
	"strings"

	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/http/plum"
)

// The root of Plum's API, and its errors.
const plumRoot = "/v1/kv"

var (
	errPlumMethod   = &plum.Error{Status: http.StatusMethodNotAllowed, Text: "method not allowed"}
	errPlumNotFound = &plum.Error{Status: http.StatusNotFound, Text: "404 page not found"}
	errPlumKey      = &plum.Error{Status: http.StatusBadRequest, Text: "namespace and key required"}
	errPlumPath     = &plum.Error{Status: http.StatusBadRequest, Text: "invalid path"}
	errPlumDots     = &plum.Error{Status: http.StatusBadRequest, Text: "invalid path: a segment is . or .., which programs on the way would resolve; write its dots as %2E, or use /v1/store/key?ns=NAMESPACE&key=KEY"}
)

// plumMethods are the methods that Plum accepts anywhere below its root.
var plumMethods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete}

// The requests that share Plum's one path.
var (
	plumNamespaces = of(protocol.KVNames, route{name: "plum.namespaces", plain: true})
	plumList       = of(protocol.KVList, route{name: "plum.list", plain: true})
	plumKeys       = of(protocol.KVList, route{name: "plum.keys", plain: true})
	plumGet        = of(protocol.KVGet, route{name: "plum.get", plain: true})
	plumPut        = of(protocol.KVPut, route{name: "plum.put", plain: true})
	plumDelete     = of(protocol.KVDel, route{name: "plum.delete", plain: true})
	plumBatch      = of(protocol.KVPut, route{name: "plum.batch", plain: true})
)

func (g *Gateway) plumRoutes() []route {
	uses := []*route{&plumNamespaces, &plumList, &plumKeys, &plumGet, &plumPut, &plumDelete, &plumBatch}
	return []route{
		of(protocol.KVNames, route{methods: plumMethods[:1], pattern: plumRoot, uses: uses[:1], name: "plum.namespaces", body: g.cfg.MaxBody, plain: true, handle: g.plum}),
		of(protocol.KVTxn, route{methods: plumMethods, pattern: plumRoot + "/", uses: uses, name: "plum.kv", body: g.cfg.MaxBody, plain: true, handle: g.plum}),
		of(protocol.KVWatch, route{method: http.MethodGet, pattern: "/v1/stream", name: "plum.stream", plain: true, stream: true, handle: g.plumStream}),
	}
}

// plum interprets a path in the same order as Plum, but as it was sent: %2F is part of a name,
// and what has /batch at its end means a batch, but /%62atch is a key.
func (g *Gateway) plum(w *reply, r *http.Request) error {
	path := sentPath(r.URL)
	if dotted(path) {
		return errPlumDots
	}
	rest := ""
	if parts := strings.SplitN(path, "/", 4); len(parts) == 4 { // the root may be spelt with escapes
		rest = parts[3]
	}
	if rest == "" {
		return g.plumDo(w, r, &plumNamespaces, http.MethodGet, rest, g.plumNamespaces)
	}
	if ns, ok := strings.CutSuffix(rest, "/batch"); ok {
		return g.plumDo(w, r, &plumBatch, http.MethodPost, ns, g.plumBatch)
	}
	if ns, ok := strings.CutSuffix(rest, "/keys"); ok {
		return g.plumDo(w, r, &plumKeys, http.MethodGet, ns, g.plumKeys)
	}
	ns, key, single := strings.Cut(rest, "/")
	if !single {
		return g.plumDo(w, r, &plumList, http.MethodGet, ns, g.plumList)
	}
	if ns == "" || key == "" {
		return errPlumKey
	}
	ns, key = plumName(ns), plumName(key)
	switch r.Method {
	case http.MethodGet:
		w.route = &plumGet
		return g.plumGet(w, ns, key)
	case http.MethodPut:
		w.route = &plumPut
		return g.plumPut(w, r, ns, key)
	case http.MethodDelete:
		w.route = &plumDelete
		return g.plumDelete(w, r, ns, key)
	}
	w.Header().Set("Allow", "DELETE, GET, OPTIONS, PUT")
	return errPlumMethod
}

func (g *Gateway) plumDo(w *reply, r *http.Request, as *route, method, ns string, do func(w *reply, r *http.Request, ns string) error) error {
	w.route = as
	if r.Method != method {
		w.Header().Set("Allow", method+", OPTIONS")
		return errPlumMethod
	}
	if strings.Contains(ns, "/") || ns == "" && as != &plumNamespaces {
		return errPlumPath
	}
	return do(w, r, plumName(ns))
}

// plumName is the name that a part of a path spells.
func plumName(part string) string {
	name, err := url.PathUnescape(part)
	if err != nil {
		return part // net/http has refused what cannot be read
	}
	return name
}

func (g *Gateway) plumGet(w *reply, ns, key string) error {
	if err := g.judge(w, readOf(w.Things(), ns, key, false)); err != nil {
		return err
	}
	entry := g.entry(w, ns, key)
	if entry == nil {
		return errPlumNotFound
	}
	if err := w.grow(entry.Size() + entryOverhead); err != nil {
		return err
	}
	w.b = append(plum.AppendEntry(w.b, entry, false), '\n')
	return w.send(w.b)
}

func (g *Gateway) plumPut(w *reply, r *http.Request, ns, key string) error {
	if err := w.read(r); err != nil {
		return err
	}
	put, ignored, err := plum.ReadPut(w.b, ns, key)
	if err != nil {
		return err
	}
	if _, err := g.commit(w, r, w.single(put)); err != nil {
		return err
	}
	w.b = plum.AppendPut(w.b[:0], &put, ignored)
	return w.send(w.b)
}

// plumDelete succeeds even if there is no such key.
func (g *Gateway) plumDelete(w *reply, r *http.Request, ns, key string) error {
	if _, err := g.commit(w, r, w.single(kv.Op{Kind: kv.OpDelete, NS: ns, Key: key})); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) plumBatch(w *reply, r *http.Request, ns string) error {
	if err := w.read(r); err != nil {
		return err
	}
	ops, ignored, err := plum.ReadBatch(w.b, ns)
	if err != nil {
		return err
	}
	count := len(ops)
	if _, err := g.commit(w, r, &kv.Txn{Then: ops}); err != nil {
		return err
	}
	w.b = plum.AppendBatch(w.b[:0], ns, count, ignored)
	return w.send(w.b)
}

// namesPage is how many namespaces are read and sent in one go.
const namesPage = 200

// plumNamespaces sends the list a page at a time: there may be any number of namespaces, and
// Plum's form has no pages. It leaves out those that Plum's writes are refused in, and those in which
// there is nothing that the caller may read.
func (g *Gateway) plumNamespaces(w *reply, _ *http.Request, _ string) error {
	if err := w.grow(namesPage * (kv.MaxNamespace + len(`"",`))); err != nil {
		return err
	}
	w.b = append(w.b, `{"namespaces":[`...)
	separator := ""
	view := g.stores.State.View()
	defer view.Close()
	for after, more := "", true; more; {
		var list []kv.Namespace
		list, more = g.stores.State.Namespaces(after, namesPage)
		for i := range list {
			after = list[i].Name
			if kv.Guarded(after) != "" {
				continue
			}
			switch there, err := w.Rights.Namespace(view, after); {
			case err != nil:
				return err
			case !there:
				continue
			}
			w.b = plum.AppendText(append(w.b, separator...), after)
			separator = ","
		}
		if more && !g.sendPiece(w) {
			return nil
		}
	}
	w.b = append(w.b, "]}\n"...)
	return w.sendRest()
}

func (g *Gateway) plumKeys(w *reply, _ *http.Request, ns string) error {
	return g.plumPages(w, kv.List{NS: ns}, `{"keys":[`, func(b []byte, e *kv.Entry) []byte { return plum.AppendText(b, e.Key) },
		func(b []byte) []byte { return append(plum.AppendText(append(b, `],"namespace":`...), ns), "}\n"...) })
}

// plumList takes the prefix literally: no character in it is special.
func (g *Gateway) plumList(w *reply, r *http.Request, ns string) error {
	prefix, err := plumQuery(r, "prefix")
	if err != nil {
		return err
	}
	list := kv.List{NS: ns, Prefix: prefix}
	return g.plumPages(w, list, "[", func(b []byte, e *kv.Entry) []byte { return plum.AppendEntry(b, e, true) },
		func(b []byte) []byte { return append(b, "]\n"...) })
}

// plumQuery returns a parameter, "" if absent. It refuses a malformed query: its
// parameters would count as absent, and the reply would cover everything. The SDK
// does not escape a namespace such as 100%.
func plumQuery(r *http.Request, name string) (string, error) {
	if r.URL.RawQuery == "" {
		return "", nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", plum.Bad("the query cannot be read: escape what stands in it, %% as %%25 and ; as %%3B")
	}
	return values.Get(name), nil
}

// plumPage is how many bytes of entries are read and sent in one go.
const plumPage = 256 << 10

// plumPages sends a list of any length as of one moment. It sends a page at a time,
// so that the list is never in memory as a whole.
func (g *Gateway) plumPages(w *reply, list kv.List, begin string, item func([]byte, *kv.Entry) []byte, end func([]byte) []byte) error {
	if err := g.judge(w, append(w.Things(), op.Keys(policy.Read, op.Any, list.NS, list.Prefix))); err != nil {
		return err
	}
	if err := w.grow(2 * plumPage); err != nil {
		return err
	}
	view := g.stores.State.View()
	defer view.Close()
	w.b = append(w.b, begin...)
	list.MaxBytes = plumPage
	for first := true; ; first = false {
		page, err := w.Rights.Page(view, list)
		if err != nil {
			return err
		}
		for i, entry := range page.Entries {
			if i > 0 || !first {
				w.b = append(w.b, ',')
			}
			w.b = item(w.b, entry)
			list.After = entry.Key
		}
		if !page.More {
			w.b = end(w.b)
			return w.sendRest()
		}
		if !g.sendPiece(w) {
			return nil
		}
	}
}
