package kv

import (
	"context"
	"sync"

	"confcenter/codes"
)

// WatchRequest says what a watcher is told.
type WatchRequest struct {
	Filter Filter
	// From asks for the changes after that revision, so that whoever was told of
	// everything up to it goes on without a gap. 0: from now, unless Past is set.
	From Revision
	// Past says that From is meant also if it is 0, where a store was empty.
	Past bool
	// State wants what there is first: pieces of the current state, then a Synced
	// notice, then the changes since. It excludes From and Past.
	State bool
	// Prev says that the receiver looks at Event.Prev. It is there either way
	// where the store has it; a receiver that encodes events asks this field.
	Prev bool
	// Coalesce lets a watcher that fell behind be told only the last event of each
	// key. Revisions are then skipped, and a notice may join what several did.
	Coalesce bool
}

// NoticeKind says what a Notice is.
type NoticeKind uint8

// The kinds of notices.
const (
	Changed NoticeKind = iota + 1 // Events happened, up to and with Revision
	State                         // Events are a piece of the state at Revision, as puts
	Synced                        // the state at Revision is complete
	Resync                        // changes were missed for good: forget everything, the state follows
)

var noticeNames = [...]string{Changed: "changed", State: "state", Synced: "synced", Resync: "resync"}

func (k NoticeKind) String() string {
	if int(k) < len(noticeNames) && noticeNames[k] != "" {
		return noticeNames[k]
	}
	return "unknown"
}

// Notice is one thing a watcher is told. Its events are shared and never change.
type Notice struct {
	Kind NoticeKind
	// Revision is where the receiver stands after this notice and, if it is a
	// Changed with More, those that continue it: watching from there goes on without
	// a gap. It may be above that of the last event, if what came then does not
	// match.
	Revision Revision
	Events   []Event
	// More says that the last revision in Events goes on in the next notice.
	More bool
}

// Limits of one watcher. What it is told about is shared with the store, so that
// falling behind costs others nothing; beyond the first two limits it forgets what
// waits and reads it back from the store when it gets there.
const (
	MaxWatchEvents = 8192    // matching events that wait for the receiver
	MaxWatchBytes  = 4 << 20 // keys and values of them
	MaxNotice      = 1024    // events of one notice
	watchChunk     = 1 << 20 // bytes read back at a time
)

// Watcher is a running watch. Make it with Watch.
type Watcher struct {
	// set at start
	store   Store
	request WatchRequest
	deliver func(Notice) error
	unhook  func()
	life    context.Context // ends with Close
	end     context.CancelFunc
	done    chan struct{}

	// the goroutine's
	position Revision // everything up to it has been delivered, or does not match
	failed   error    // of deliver
	err      error    // read by others once done is closed

	mu sync.Mutex

	// guarded by mu
	wake   chan struct{} // capacity 1: something is new below
	queue  []*Batch      // with matching events, oldest first
	events int           // matching ones in queue
	bytes  int           // of them
	newest Revision      // of the batches seen, matching or not
	behind bool          // batches were dropped: what follows position must be read back
}

// Watch tells deliver everything that the request asks for, in order, without a
// gap and without repeating anything, from a goroutine of its own, until Close or
// until deliver, or a read of the store, fails. deliver may take its time: a
// watcher that has fallen behind too far catches up from the store's log, and
// below the log's floor it is told Resync and the whole state; writers never wait
// for it. codes.FutureRevision if From is not reached, codes.BadRequest and what
// Filter.Check finds otherwise.
func Watch(store Store, request WatchRequest, deliver func(Notice) error) (*Watcher, error) {
	if err := request.Filter.Check(); err != nil {
		return nil, err
	}
	if request.From < 0 || (request.State && (request.From != 0 || request.Past)) {
		return nil, codes.Errorf(codes.BadRequest, "from is %d: it is a revision, and excludes state", request.From)
	}
	w := &Watcher{
		store:   store,
		request: request,
		deliver: deliver,
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	w.life, w.end = context.WithCancel(context.Background())
	w.unhook = store.Follow(w.follow)
	// Only now, so that no change lies between what is read and what is followed.
	w.position = store.Revision()
	if request.From > w.position {
		w.unhook()
		w.end()
		return nil, codes.Errorf(codes.FutureRevision, "from is revision %d, which is in the future: the newest is %d", request.From, w.position)
	}
	if request.From > 0 || request.Past {
		w.mu.Lock() // the store follows already
		w.position, w.behind = request.From, true
		w.mu.Unlock()
	}
	go w.run()
	return w, nil
}

// Close ends the watch and waits until deliver has returned; it must not be called
// by deliver. It may be called several times.
func (w *Watcher) Close() {
	w.end()
	<-w.done
}

// Done is closed when the watch has ended, for whatever reason.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// Err is why the watch ended by itself: deliver's error or the store's. It is nil
// before Done is closed and after Close.
func (w *Watcher) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// follow is called by the store's goroutine and only takes note.
func (w *Watcher) follow(b *Batch) {
	events, bytes := w.measure(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest = b.Last()
	if events > 0 && !w.behind {
		w.queue = append(w.queue, b)
		w.events += events
		w.bytes += bytes
		if len(w.queue) > 1 && (w.events > MaxWatchEvents || w.bytes > MaxWatchBytes) {
			w.dropLocked()
			w.behind = true
		}
	}
	w.poke()
}

func (w *Watcher) measure(b *Batch) (events, bytes int) {
	for i := range b.Changes {
		for j := range b.Changes[i].Events {
			entry := b.Changes[i].Events[j].Entry
			if w.request.Filter.Match(entry.NS, entry.Key) {
				events++
				bytes += entry.Size()
			}
		}
	}
	return events, bytes
}

func (w *Watcher) dropLocked() { w.queue, w.events, w.bytes = nil, 0, 0 }

func (w *Watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watcher) run() {
	defer close(w.done)
	defer w.end()
	defer w.unhook()
	var err error
	if w.request.State {
		err = w.state()
	}
	for err == nil && !w.stopped() {
		batches, newest, behind := w.take()
		switch {
		case behind:
			err = w.catchUp()
		case newest > w.position:
			err = w.live(batches, newest)
		default:
			select {
			case <-w.life.Done():
			case <-w.wake:
			}
		}
	}
	if !w.stopped() {
		w.err = err
	}
}

func (w *Watcher) stopped() bool { return w.life.Err() != nil }

// take empties the queue. What the store tells from now on is queued again, also
// if something was dropped before: it comes after all that catchUp will read.
func (w *Watcher) take() (batches []*Batch, newest Revision, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batches, behind = w.queue, w.behind
	w.dropLocked()
	w.behind = false
	return batches, w.newest, behind
}

// live delivers what was queued, of which catchUp or a state may have been ahead.
func (w *Watcher) live(batches []*Batch, newest Revision) error {
	if w.request.Coalesce && len(batches) > 1 {
		var changes []Change
		for _, b := range batches {
			changes = append(changes, b.Changes...)
		}
		if err := w.coalesced(changes, newest); err != nil {
			return err
		}
		batches = nil
	}
	for _, b := range batches {
		if err := w.changes(b.Changes); err != nil {
			return err
		}
	}
	w.position = max(w.position, newest)
	return nil
}

// catchUp reads back what follows position until nothing does.
func (w *Watcher) catchUp() error {
	for !w.stopped() {
		changes, err := w.store.Changes(w.life, w.position, watchChunk)
		switch {
		case codes.Of(err) == codes.Compacted:
			return w.resync()
		case err != nil:
			return err
		case len(changes) == 0:
			return nil
		}
		last := changes[len(changes)-1].Revision
		if w.request.Coalesce {
			err = w.coalesced(changes, last)
		} else {
			err = w.changes(changes)
		}
		if err != nil {
			return err
		}
		w.position = max(w.position, last)
	}
	return nil
}

// changes delivers those after position: as many whole revisions to a notice as
// fit, longer ones continued.
func (w *Watcher) changes(changes []Change) error {
	var events []Event
	var revision Revision
	flush := func(more bool) error {
		if len(events) == 0 {
			return nil
		}
		err := w.tell(Notice{Kind: Changed, Revision: revision, Events: events, More: more})
		events = nil
		return err
	}
	for i := range changes {
		if changes[i].Revision <= w.position {
			continue
		}
		selected := w.request.Filter.Select(changes[i].Events)
		if len(events)+len(selected) > MaxNotice {
			if err := flush(false); err != nil {
				return err
			}
		}
		revision = changes[i].Revision
		for len(selected) > MaxNotice {
			events, selected = selected[:MaxNotice:MaxNotice], selected[MaxNotice:]
			if err := flush(true); err != nil {
				return err
			}
		}
		if len(events) == 0 {
			events = selected[:len(selected):len(selected)] // shared until something is added
		} else {
			events = append(events, selected...)
		}
	}
	return flush(false)
}

// coalesced delivers the last event of each key, with the entry before the first
// one, in the order of those last events.
func (w *Watcher) coalesced(changes []Change, last Revision) error {
	type id struct{ ns, key string }
	type span struct {
		index int // of the key's last event
		prev  *Entry
	}
	var events []Event
	spans := map[id]span{}
	for i := range changes {
		if changes[i].Revision <= w.position {
			continue
		}
		for _, event := range w.request.Filter.Select(changes[i].Events) {
			key := id{event.Entry.NS, event.Entry.Key}
			prev := event.Prev
			if earlier, seen := spans[key]; seen {
				prev = earlier.prev
			}
			spans[key] = span{len(events), prev}
			events = append(events, event)
		}
	}
	kept := events[:0]
	for i, event := range events {
		if s := spans[id{event.Entry.NS, event.Entry.Key}]; s.index == i {
			event.Prev = s.prev
			kept = append(kept, event)
		}
	}
	return w.pieces(Notice{Kind: Changed, Revision: last}, kept)
}

// pieces delivers events in notices that are like n. A Changed that is cut says so.
func (w *Watcher) pieces(n Notice, events []Event) error {
	for len(events) > 0 {
		size := min(len(events), MaxNotice)
		n.Events, events = events[:size:size], events[size:]
		n.More = n.Kind == Changed && len(events) > 0
		if err := w.tell(n); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watcher) resync() error {
	if err := w.tell(Notice{Kind: Resync}); err != nil {
		return err
	}
	return w.state()
}

// state delivers what there is. If the receiver takes so long that the view is
// ended, all of it begins anew.
func (w *Watcher) state() error {
	for {
		err := w.stateOnce()
		if w.failed != nil || codes.Of(err) != codes.Compacted {
			return err
		}
		if err := w.tell(Notice{Kind: Resync}); err != nil {
			return err
		}
	}
}

func (w *Watcher) stateOnce() error {
	view := w.store.View()
	defer view.Close()
	if err := w.eachNamespace(func(ns string) error { return w.namespaceState(view, ns) }); err != nil {
		return err
	}
	w.position = view.Revision()
	return w.tell(Notice{Kind: Synced, Revision: w.position})
}

// eachNamespace calls fn for those that may match. A namespace that appears after
// the view was made has nothing in it, and one that is gone since is told as the
// deletions that follow.
func (w *Watcher) eachNamespace(fn func(ns string) error) error {
	if w.request.Filter.NS != "" {
		return fn(w.request.Filter.NS)
	}
	const page = 256
	after := ""
	for {
		list, more := w.store.Namespaces(after, page)
		for _, ns := range list {
			if err := fn(ns.Name); err != nil {
				return err
			}
			after = ns.Name
		}
		if !more {
			return nil
		}
	}
}

func (w *Watcher) namespaceState(view View, ns string) error {
	notice := Notice{Kind: State, Revision: view.Revision()}
	if w.request.Filter.Exact {
		entry, err := view.Get(ns, w.request.Filter.Text)
		if err != nil || entry == nil {
			return err
		}
		return w.pieces(notice, []Event{{Kind: Put, Entry: entry}})
	}
	list := List{NS: ns, Prefix: w.request.Filter.Text, Limit: MaxNotice}
	for !w.stopped() {
		page, err := view.List(list)
		if err != nil {
			return err
		}
		events := make([]Event, len(page.Entries))
		for i, entry := range page.Entries {
			events[i] = Event{Kind: Put, Entry: entry}
			list.After = entry.Key
		}
		if err := w.pieces(notice, events); err != nil || !page.More {
			return err
		}
	}
	return nil
}

// tell is the only place that calls deliver.
func (w *Watcher) tell(n Notice) error {
	if w.stopped() {
		return nil
	}
	w.failed = w.deliver(n)
	return w.failed
}
