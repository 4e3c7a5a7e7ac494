package http

import (
	"cmp"
	"fmt"
	"net/http"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
	"confcenter/op"
	"confcenter/server/http/sse"
)

// configRevisions sends the changes of documents as server-sent events, revision by revision, with
// the promises of CFWATCH. The last event of each revision has the revision in its id, and so have
// heartbeats, so that a client can resume from it, also after a restart. A client that asks
// for what is no longer kept, or resumes from a revision of other data, is told so and gets the
// current contents.
func (g *Gateway) configRevisions(w *reply, r *http.Request) error {
	p := parametersOf(r)
	q := p.documentWatch()
	last, given, valid := g.sse.IDs.Last(r, p.text("last"))
	if err := g.asks(w, p, op.WatchDocuments(w.Things(), q.Filter)...); err != nil {
		return err
	}
	want := follow.Request{Filter: q.Filter, From: q.From, Past: q.Past, State: q.State}
	style := documentStyle(&q)
	switch newest := g.changes.Revision(); {
	case !valid || kv.Revision(last) > newest:
		want = follow.Request{Filter: q.Filter, State: true}
		style.first = otherData
	case given:
		want = follow.Request{Filter: q.Filter, From: kv.Revision(last), Past: true}
	case !q.Past && !q.State:
		// Begin with an id: a client that disconnects before the first event would
		// otherwise have a gap.
		want.From, want.Past = newest, true
		style.first = string(g.sse.IDs.AppendEvent(nil, "synced", int64(newest), func(dst []byte) []byte { return appendRevision(dst, newest) }))
	}
	sub, err := g.changes.subscribe(want)
	if err != nil {
		return err
	}
	sub.path = q.Path
	if q.Reveal {
		sub.reveal = w.Revealer(true).Documents
	}
	return g.runStream(w, r, sub, style)
}

// documentWatch reads what CFWATCH has in its body.
func (p *parameters) documentWatch() documents.Watch {
	named := p.has("name")
	if named && p.has("prefix") {
		p.fail(documents.ErrNameAndPrefix)
	}
	q := documents.Watch{
		Filter: kv.Filter{NS: documents.Own, Text: p.text("prefix"), Exact: named}, Path: p.text("path"),
		Past: p.has("from"), From: kv.Revision(p.count("from")), State: p.flag("state"),
		Prev: p.flag("prev"), Changes: p.flag("changes"), Reveal: p.flag("reveal"),
	}
	if p.flag("resolved") {
		q.Filter.NS = documents.Resolved
	}
	if named {
		q.Filter.Text = p.text("name")
	}
	err := q.Complete()
	if named {
		err = cmp.Or(confstore.CheckName(q.Filter.Text), err)
	}
	p.fail(err)
	return q
}

// documentStyle is the style of a stream of documents.
func documentStyle(q *documents.Watch) eventStyle {
	style := eventStyle{form: documentForm, ids: true, resync: notKept, synced: appendDocumentsSynced}
	if q.Prev {
		style.form += documentPrevForm - documentForm
	}
	if q.Changes {
		style.form += documentPathsForm - documentForm
	}
	return style
}

// A stream that cannot go on from where it is to says so, and why.
var (
	notKept   = resyncOf("what has changed since is no longer kept: forget what this stream has told; the contents follow")
	otherData = resyncOf("the id is not one of the data that the server has: forget what this stream has told; the contents follow")
)

func resyncOf(text string) string {
	return fmt.Sprintf("event: resync\ndata: {\"code\":%d,\"error\":%q,\"detail\":%q}\n\n", codes.Compacted, codes.Compacted.Name(), text)
}

func appendRevision(dst []byte, revision kv.Revision) []byte {
	return append(appendNumber(dst, `{"rev":`, int64(revision)), '}')
}

func appendDocumentsSynced(dst []byte, revision kv.Revision) []byte {
	return append(appendRevision(append(dst, "event: synced\ndata: "...), revision), '\n')
}

// documentCut is cut for events that may be told with the contents before.
var documentCut = follow.Cut{Alone: true, Max: sse.Chunk, Cost: func(e *kv.Event) int {
	cost := memory.VersionCost + e.Entry.Size()
	if e.Prev != nil {
		cost += e.Prev.Size()
	}
	return cost
}}

// appendDocument returns what appends an event of a document.
func appendDocument(prev, changes bool) func(dst []byte, e *kv.Event) []byte {
	return func(dst []byte, e *kv.Event) []byte {
		w := newWriter(append(append(append(dst, "event: "...), e.Kind.String()...), "\ndata: "...))
		documents.AppendEvent(&w, e, prev, changes)
		return append(w.End(), '\n')
	}
}
