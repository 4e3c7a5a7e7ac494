package gateway

import (
	"net/http"

	"confcenter/kv"
)

// plumStream is the stream that Plum's document and SDK have and Plum has not. With a
// namespace it begins with what is in it, because the SDK reads nothing else after it
// was away; it drops what it knows. Without one it tells of all namespaces, from now
// on. A nodeId, which Plum needs, is not looked at.
func (g *Gateway) plumStream(w *reply, r *http.Request) error {
	ns, err := plumQuery(r, "namespace")
	if err != nil {
		return err
	}
	sub, err := g.hub.subscribe(kv.Filter{NS: ns}, 0, ns != "")
	if err != nil {
		return err
	}
	return g.runStream(w, r, sub, eventStyle{form: plumForm})
}
