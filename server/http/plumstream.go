package http

import (
	"net/http"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/op"
)

// plumStream is a stream that Plum's document and SDK have, but Plum itself has
// not. With a namespace it begins with the namespace's contents, because the SDK
// discards what it knows when it reconnects, and reads nothing else. Without one it
// covers all namespaces from now on. It ignores nodeId, which Plum requires.
func (g *Gateway) plumStream(w *reply, r *http.Request) error {
	ns, err := plumQuery(r, "namespace")
	if err != nil {
		return err
	}
	if err := g.judge(w, op.Watch(w.Things(), kv.Filter{NS: ns})); err != nil {
		return err
	}
	if err := w.watch.In(w.Quotas, ns); err != nil {
		return err
	}
	sub, err := g.hub.subscribe(follow.Request{Filter: kv.Filter{NS: ns}, State: ns != ""})
	if err != nil {
		return err
	}
	return g.runStream(w, r, sub, eventStyle{form: plumForm})
}
