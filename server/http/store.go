package http

import (
	"math"
	"net/http"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/op"
	"confcenter/protocol"
)

// storeRoot is the root of our own REST API for the state store. Namespace and key
// are query parameters, so any name works.
const storeRoot = "/v1/store/"

// smallBody is the limit of bodies without a value.
const smallBody = 64 << 10

func (g *Gateway) storeRoutes() []route {
	const get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	routes := []route{
		of(protocol.KVNames, route{method: get, pattern: storeRoot + "namespaces", name: "store.namespaces", handle: g.storeNamespaces}),
		of(protocol.KVDrop, route{method: del, pattern: storeRoot + "namespace", name: "store.drop", handle: g.storeDrop}),
		of(protocol.KVList, route{method: get, pattern: storeRoot + "keys", name: "store.keys", handle: g.storeKeys}),
		of(protocol.KVGet, route{method: get, pattern: storeRoot + "key", name: "store.get", handle: g.storeGet}),
		of(protocol.KVPut, route{method: put, pattern: storeRoot + "key", name: "store.put", body: g.cfg.MaxBody, handle: g.storeWrite(kv.OpPut, readPut)}),
		of(protocol.KVDel, route{method: del, pattern: storeRoot + "key", name: "store.delete", handle: g.storeWrite(kv.OpDelete, nil)}),
		of(protocol.KVCas, route{method: post, pattern: storeRoot + "cas", name: "store.cas", body: g.cfg.MaxBody, handle: g.storeWrite(kv.OpPut, readCas)}),
		of(protocol.KVTxn, route{method: post, pattern: storeRoot + "batch", name: "store.batch", body: g.cfg.MaxBody, handle: g.storeBatch}),
		of(protocol.KVTxn, route{method: post, pattern: storeRoot + "txn", name: "store.txn", body: g.cfg.MaxBody, handle: g.storeTxn}),
		of(protocol.KVHistory, route{method: get, pattern: storeRoot + "history", name: "store.history", handle: g.storeHistory}),
		of(protocol.KVRestore, route{method: post, pattern: storeRoot + "restore", name: "store.restore", body: smallBody, handle: g.storeRestore}),
		of(protocol.KVWatch, route{method: get, pattern: storeRoot + "stream", name: "store.stream", stream: true, handle: g.storeStream}),
	}
	for i := range protocol.Commands {
		row := &protocol.Commands[i]
		kind, body := row.Op, int64(smallBody)
		if kind.Has(kv.MemberValue) {
			body = g.cfg.MaxBody
		}
		if name := kind.String(); kind.Follows() {
			routes = append(routes, of(row.ID, route{method: post, pattern: storeRoot + name, name: "store." + name, body: body, handle: g.storeWrite(kind, readChange)}))
		}
	}
	return routes
}

// storeNamespaces lists the namespaces, which are those with keys.
func (g *Gateway) storeNamespaces(w *reply, r *http.Request) error {
	p := parametersOf(r)
	after, limit := p.text("after"), p.limit(kv.MaxList)
	if err := p.end(); err != nil {
		return err
	}
	list, more, err := w.Rights.Namespaces(g.stores.State, after, int(limit))
	if err != nil {
		return err
	}
	size := memory.VersionCost * len(list)
	for i := range list {
		size += len(list[i].Name)
	}
	return w.sendLong(size, func(out *kvjson.Writer) {
		out.Open(kvjson.Namespaces, '[')
		for i := range list {
			out.Namespace(&list[i])
		}
		out.Close(']')
		out.Bool(kvjson.More, more)
		out.Number(kvjson.Revision, int64(g.stores.State.Revision()))
	})
}

// storeKeys lists or counts the keys of a namespace with a prefix, or finds those
// that contain a text.
func (g *Gateway) storeKeys(w *reply, r *http.Request) error {
	p := parametersOf(r)
	list := kv.List{NS: p.needed("ns"), Prefix: p.text("prefix"), After: p.text("after")}
	limit, keysOnly, reveal := p.count("limit"), p.flag("keys_only"), w.Revealer(p.flag("reveal"))
	list.CountOnly = p.flag("count")
	contains, values := p.text("contains"), p.flag("values")
	if contains != "" && list.CountOnly {
		p.fail(codes.Errorf(codes.BadRequest, "contains and count exclude each other"))
	}
	if err := g.asks(w, p, op.Keys(policy.Read, op.Any, list.NS, list.Prefix)); err != nil {
		return err
	}
	list.Limit = int(min(limit, kv.MaxList))
	if keysOnly {
		list.MaxBytes = math.MaxInt // a page counts the bytes of values
	}
	if contains != "" {
		return g.findKeys(w, r, list, contains, values, !keysOnly, reveal)
	}
	view := g.stores.State.View()
	defer view.Close()
	page, err := w.Rights.Page(view, list)
	if err != nil {
		return err
	}
	page.Entries = reveal.Entries(page.Entries)
	return w.sendPage(page, !keysOnly, nil)
}

// sendPage answers with a list. scanned is the key after which an unfinished search
// continues.
func (w *reply) sendPage(page kv.Page, withValues bool, scanned *string) error {
	return w.sendLong(sizeOf(page.Entries, withValues), func(out *kvjson.Writer) {
		out.Entries(kvjson.Entries, page.Entries, withValues)
		out.Number(kvjson.Count, page.Count)
		out.Bool(kvjson.More, page.More)
		if page.More && scanned != nil {
			out.Text(kvjson.Scanned, *scanned)
		}
		out.Number(kvjson.Revision, int64(page.Revision))
	})
}

// storeGet returns a key as it is, or as it was at a revision.
func (g *Gateway) storeGet(w *reply, r *http.Request) error {
	p := parametersOf(r)
	ns, key := p.needed("ns"), p.needed("key")
	past, reveal := p.has("revision"), w.Revealer(p.flag("reveal"))
	rev := kv.Revision(p.count("revision"))
	if err := g.asks(w, p, readOf(w.Things(), ns, key, past)...); err != nil {
		return err
	}
	entry, err := g.entryAt(w, r, ns, key, past, rev)
	switch {
	case err != nil:
		return err
	case entry == nil:
		return codes.Errorf(codes.NotFound, "there is no key %q in namespace %q", key, ns)
	case !past && unchanged(r, versionTag(int64(entry.Mod)), true):
		return w.sendUnchanged(versionTag(int64(entry.Mod)))
	}
	return w.sendEntry(reveal.Entry(entry))
}

// readOf is about a key, or its past.
func readOf(things []op.Thing, ns, key string, past bool) []op.Thing {
	if past {
		return op.Past(things, ns, key)
	}
	return append(things, op.Key(policy.Read, ns, key))
}

func (g *Gateway) entryAt(w *reply, r *http.Request, ns, key string, past bool, rev kv.Revision) (*kv.Entry, error) {
	if past {
		if err := kv.CheckPair(ns, key); err != nil {
			return nil, err
		}
		if err := w.take(kv.MaxValue); err != nil { // it is read from disk
			return nil, err
		}
		return g.stores.State.GetAt(r.Context(), ns, key, rev)
	}
	entry := g.entry(w, ns, key)
	if entry == nil { // also if the name is invalid; then report that
		return nil, kv.CheckPair(ns, key)
	}
	return entry, nil
}

// entry returns the current entry of a key, nil if it is absent.
func (g *Gateway) entry(w *reply, ns, key string) *kv.Entry {
	w.b = append(append(w.b[:0], ns...), key...)
	entry, _ := g.stores.State.Get(w.b[:len(ns)], w.b[len(ns):])
	return entry
}

// storeHistory lists the versions of a key, newest first.
func (g *Gateway) storeHistory(w *reply, r *http.Request) error {
	p := parametersOf(r)
	ns, key := p.needed("ns"), p.needed("key")
	before, limit, reveal := kv.Revision(p.count("before")), p.count("limit"), w.Revealer(p.flag("reveal"))
	if err := p.end(); err != nil {
		return err
	}
	if err := kv.CheckPair(ns, key); err != nil {
		return err
	}
	if err := g.judge(w, op.Past(w.Things(), ns, key)); err != nil {
		return err
	}
	if err := w.take(kv.MaxPage); err != nil { // they are read from disk
		return err
	}
	all, err := kv.PastVersions(r.Context(), g.stores.State, ns, key, before, int(min(limit, kv.MaxHistory)))
	if err != nil {
		return err
	}
	return w.sendLong(sizeOf(all.Entries, true), func(out *kvjson.Writer) {
		out.Entries(kvjson.Versions, reveal.Entries(all.Entries), true)
		out.Bool(kvjson.More, all.More)
		out.Number(kvjson.Floor, int64(all.Floor))
	})
}
