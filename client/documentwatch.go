package client

import (
	"context"
	"fmt"
	"iter"

	"confcenter/codes"
	"confcenter/internal/jsonpath"
	"confcenter/kv"
	"confcenter/protocol"
)

// DocumentWatchOptions say which documents to watch. The zero value watches all files, from now
// on.
type DocumentWatchOptions struct {
	// Name is one document's, ".json" may be left out; Prefix begins the names of several. At
	// most one of them.
	Name, Prefix string
	// Path is a key path: only what changes there is told.
	Path string
	// Merged asks for documents merged over the files they inherit from.
	Merged bool
	// Reveal asks for sealed values revealed, as far as the program may know them. Without it there
	// are marks.
	Reveal bool
	// From asks for the changes after that revision: DocumentNotice.Revision of what was
	// done last. If what has changed since is no longer kept the watch begins with a Resync.
	// 0: from now.
	From kv.Revision
	// Epoch, with From, is DocumentNotice.Epoch of then: if the server has other data by now,
	// such as that of a backup, the watch begins with a Resync.
	Epoch string
	// State asks for the current contents first: State notices, then Synced, then the
	// changes since. It excludes From.
	State bool
	// Buffer is about how many bytes may wait for Next; default 4 MiB. See WatchOptions.
	Buffer int
}

// DocumentNotice is what Next of a DocumentWatch returns, see kv.Notice. One of kind Changed has
// all changes of a revision; one without any says only how far the watch has come.
type DocumentNotice struct {
	Kind     kv.NoticeKind
	Revision kv.Revision // for DocumentWatchOptions.From
	Epoch    string      // likewise
	Changes  []DocumentChange
}

// DocumentChange is a document, or its part at DocumentWatchOptions.Path, as a change has left
// it.
type DocumentChange struct {
	Name     string
	Mtime    int32  // the greatest version of its file and, if merged, of those it inherits from
	Contents []byte // compact JSON, not to be written to; nil: there are none any more
	Old      []byte // before the change; nil: there were none, or it is a State
}

// PathChange is a value of a document that has changed.
type PathChange struct {
	Path     string // below the watched path; ~1 stands for a slash in a key, ~0 for a tilde
	Old, New []byte // compact JSON; nil: there is none
}

// Paths returns the values that have changed, in the order of the document. A document that
// appears or disappears has changed as a whole, at the path "".
func (c *DocumentChange) Paths() (list []PathChange, err error) {
	compare := jsonpath.Comparer{Tell: func(path string, _ jsonpath.Difference, old, new []byte) {
		list = append(list, PathChange{path, old, new})
	}}
	if err := compare.Compare(c.Old, c.Contents); err != nil {
		return nil, codes.Errorf(codes.TooLarge, "%s: %w", c.Name, err)
	}
	return list, nil
}

// DocumentWatch follows the contents of documents revision by revision: in order, all documents
// of a revision together, none missed and none repeated, across lost connections and restarts
// of the server. Where only the newest contents matter, [Client.Watch] and [Bind] are simpler.
// End it with Stop.
//
// If what has changed is no longer kept, or the server has other data, there is a Resync notice:
// discard what you have; the contents follow, as if DocumentWatchOptions.State were set.
type DocumentWatch struct {
	w    *KVWatch
	part []DocumentChange // of a revision that is not complete; Next's
}

// WatchDocuments starts a watch and waits until a server has accepted it, at most until ctx
// ends; see KV.Watch. Servers before this version do not know it: codes.NotImplemented or no
// answer.
func (c *Client) WatchDocuments(ctx context.Context, o DocumentWatchOptions) (*DocumentWatch, error) {
	filter := kv.Filter{NS: protocol.OwnConfig, Text: o.Prefix}
	if o.Merged {
		filter.NS = protocol.ResolvedConfig
	}
	if o.Name != "" {
		filter.Text, filter.Exact = o.Name, true
	}
	switch {
	case o.Name != "" && o.Prefix != "":
		return nil, notSent(codes.BadRequest, "watch: name and prefix exclude each other")
	case o.From < 0 || o.State && o.From != 0:
		return nil, notSent(codes.BadRequest, "watch: from is %d: it is a revision, and excludes state", o.From)
	}
	kind := watchKind{
		watch: protocol.CfWatch, unwatch: protocol.CfUnwatch, event: protocol.CfEvent, parse: protocol.ParseConfigEvents, marks: true,
		append: func(dst []byte, r protocol.KVWatchRequest) []byte {
			return protocol.AppendConfigWatch(dst, protocol.ConfigWatch{Filter: r.Filter, Path: o.Path, From: r.From, Past: r.Past, State: r.State, Prev: true, Reveal: o.Reveal})
		},
	}
	w, err := c.watch(ctx, kind, filter, WatchOptions{From: o.From, Epoch: o.Epoch, State: o.State, Prev: true, Buffer: o.Buffer})
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	return &DocumentWatch{w: w}, nil
}

// Next waits for the next notice; see KVWatch.Next. Only one call may be under way at a time.
func (w *DocumentWatch) Next(ctx context.Context) (DocumentNotice, error) {
	for {
		n, err := w.w.Next(ctx)
		if err != nil {
			return DocumentNotice{}, err
		}
		if n.Kind == kv.Resync {
			w.part = nil
		}
		for _, e := range n.Events {
			change := DocumentChange{Name: e.Entry.Key, Mtime: int32(e.Entry.Updated / 1000), Contents: e.Entry.Value.Data}
			if e.Prev != nil {
				change.Old = e.Prev.Value.Data
			}
			w.part = append(w.part, change)
		}
		if n.More {
			continue // the rest of the revision
		}
		told := DocumentNotice{Kind: n.Kind, Revision: n.Revision, Epoch: w.w.Epoch(), Changes: w.part}
		w.part = nil
		return told, nil
	}
}

// Notices yields the notices one by one. The loop ends after an error, which is that of Next.
func (w *DocumentWatch) Notices(ctx context.Context) iter.Seq2[DocumentNotice, error] {
	return each(ctx, w.Next)
}

// Stop ends the watch. Next fails from now on.
func (w *DocumentWatch) Stop() { w.w.Stop() }
