package http

import (
	"net/http"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/kvjson"
	"confcenter/op"
	"confcenter/server/http/sse"
)

// storeStream sends changes of the state store as server-sent events. The last
// event of each revision has the revision in its id, so that a client can resume
// from it without a gap. A client that resumes from a revision of another epoch, or
// one that is no longer or not yet known, is told to forget everything and gets the
// current state.
func (g *Gateway) storeStream(w *reply, r *http.Request) error {
	p := parametersOf(r)
	filter := kv.Filter{NS: p.text("ns"), Exact: p.has("key")}
	if filter.Exact && p.has("prefix") {
		p.fail(codes.Errorf(codes.BadRequest, "key and prefix exclude each other"))
	}
	filter.Text = p.text("prefix")
	if filter.Exact {
		filter.Text = p.text("key")
	}
	state, style := p.flag("state"), ownStyle
	if p.flag("prev") {
		style.form = ownPrevForm
	}
	reveal := p.flag("reveal")
	last, given, valid := g.sse.IDs.Last(r, p.text("last"))
	if err := g.asks(w, p, op.Watch(w.Things(), filter)...); err != nil {
		return err
	}
	if err := w.watch.In(w.Quotas, filter.NS); err != nil {
		return err
	}
	from := kv.Revision(last)
	switch newest := g.stores.State.Revision(); {
	case !valid || from > newest:
		from, state, style.first = 0, true, ownResync
	case from > 0:
		state = false
	case given || newest == 0: // a client at revision 0 knows nothing
		state = true
	case !state:
		// Begin with an id: a client that disconnects before the first event would
		// otherwise have a gap.
		from = newest
		style.first = string(g.sse.IDs.AppendEvent(nil, "synced", int64(newest), sse.NoData))
	}
	sub, err := g.hub.subscribe(follow.Request{Filter: filter, From: from, State: state})
	if err != nil {
		return err
	}
	if reveal {
		sub.reveal = w.Revealer(true).Events
	}
	return g.runStream(w, r, sub, style)
}

// ownResync tells a client to forget everything.
const ownResync = "event: resync\ndata: {}\n\n"

// ownStyle is the style of our own streams.
var ownStyle = eventStyle{form: ownForm, ids: true, synced: appendOwnSynced, resync: ownResync}

func appendOwnSynced(dst []byte, _ kv.Revision) []byte {
	return append(dst, "event: synced\ndata: {}\n"...)
}

// appendOwn returns what appends an event in our form, with prev also the entry before the change.
func appendOwn(prev bool) func(dst []byte, e *kv.Event) []byte {
	return func(dst []byte, e *kv.Event) []byte {
		w := newWriter(append(append(append(dst, "event: "...), e.Kind.String()...), "\ndata: "...))
		w.OneLine = true
		w.Named(e.Entry, true)
		if prev {
			w.Entry(kvjson.Prev, e.Prev)
		}
		return append(w.End(), '\n')
	}
}
