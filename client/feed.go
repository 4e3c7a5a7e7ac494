package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

type feedKey struct {
	name, path string
	merged     bool
	marks      bool // see Query
}

// wirePath is the path in the subscription. The server keeps one subscription per name
// and path, and pushes a part only if it changes in the form subscribed last. So the
// two forms of a part, merged and not, get different spellings, however the caller
// spells the path.
func (k feedKey) wirePath() string {
	if k.path == "" {
		return ""
	}
	path := cmp.Or(strings.TrimRight(k.path, "/"), "/")
	if !k.merged {
		path += "/"
	}
	return path
}

// feed follows one document for all its watches and handles, across any number of
// sessions. Only its goroutine asks the server about the document and passes states to
// followers, so these come in order.
//
// On each session it first subscribes and then fetches what it lacks. Changes after the
// subscription are pushed, so none is missed in between.
//
// A feed is not made of a watch on documents, as DocumentWatch is, because that tells every
// change with its contents. After 300 changes of a document of 64 KiB a feed is up to date in
// 6 ms by one of them, and a watch in 0.8 s by 20 MB; on a line of 4 MB/s, 40 ms after the last
// of them, and a watch 5 s. Nor does a watch tell a version that rises while the contents stay,
// as GetConfig does, and servers that are not ours or older have none.
type feed struct {
	// set at open
	c      *Client
	key    feedKey
	ctx    context.Context // ends when no one uses the feed any more
	cancel context.CancelFunc
	wake   chan struct{} // capacity 1: for a push, a new follower or a change of the connection

	told *session // feed's goroutine only: the session that has a subscription for doc

	mu        sync.Mutex // guards the rest; only the feed's goroutine writes doc and version
	followers []*follower
	doc       *Document // the newest state, nil if unknown
	version   int32     // doc's
	target    int32     // the version that the server has announced on this session
	suspect   bool      // a file has changed that may be a base of this one
}

// errBehind: the server has announced a version that it does not serve yet.
var errBehind = errors.New("the server does not serve yet what it announced")

// join makes w a follower of the feed for key. Once w has been told the feed, and the feed been
// woken, w gets the current state and every later one or, if there is no state, the reason.
func (c *Client) join(key feedKey, w *follower) (*feed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, closedError()
	}
	f := c.feeds[key]
	if f == nil {
		f = &feed{c: c, key: key, wake: make(chan struct{}, 1)}
		f.ctx, f.cancel = context.WithCancel(c.ctx)
		c.feeds[key] = f
		c.wg.Go(f.run)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers = append(f.followers, w)
	return f, nil
}

// leave undoes join. With the last follower the feed and its subscription end. The
// request for that is queued under the same lock as the subscription of a new feed for
// the same file, so the server sees them in the right order.
func (c *Client) leave(f *feed, w *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.mu.Lock()
	f.followers = slices.DeleteFunc(f.followers, func(o *follower) bool { return o == w })
	last := len(f.followers) == 0
	f.mu.Unlock()
	if !last {
		return
	}
	delete(c.feeds, f.key)
	f.cancel()
	if c.session == nil || len(c.sharedLocked(f.key)) > 0 {
		return
	}
	s := protocol.Subscription{File: f.key.name, Path: f.key.wirePath(), Unsubscribe: true}
	c.session.Start(protocol.BookCfgChange, subscriptionFrame(s)).Ignore()
}

// sharedLocked returns the feeds that share the subscription of key.
func (c *Client) sharedLocked(key feedKey) (list []*feed) {
	for other, f := range c.feeds {
		if other.name == key.name && other.wirePath() == key.wirePath() {
			list = append(list, f)
		}
	}
	return list
}

func subscriptionFrame(s protocol.Subscription) []byte {
	frame := begin(protocol.BookCfgChange)
	return protocol.FinishFrame(protocol.AppendSubscription(frame, s), 0)
}

// pushed handles a change that the server announces. The connection's reader calls it.
func (c *Client) pushed(change protocol.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// CppCloud's server has neither paths nor an epoch: it always announces whole
	// documents.
	pathless := c.session == nil || c.session.epoch == ""
	for key, f := range c.feeds {
		whole := change.Path == "" && (key.path == "" || pathless)
		switch {
		case key.name == change.File && (whole || change.Path == key.wirePath()):
			f.announce(change.Mtime)
		case key.merged && whole:
			f.suspectBase(change.Mtime)
		}
	}
}

// announce records that the server has this version.
func (f *feed) announce(mtime int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mtime > f.target {
		f.target = mtime
		clock.Nudge(f.wake)
	}
}

// suspectBase records that another file has changed, which may be a base of this one:
// with --frame-exact the server names only the base. A base's new version is always
// greater than the last version of what inherits it.
func (f *feed) suspectBase(mtime int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mtime > f.version {
		f.suspect = true
		clock.Nudge(f.wake)
	}
}

// run is the feed's goroutine.
func (f *feed) run() {
	defer context.AfterFunc(f.ctx, func() { clock.Nudge(f.wake) })()
	for pause := f.c.newBackoff(); f.ctx.Err() == nil; {
		err := f.step()
		if err == nil {
			pause.reset()
			<-f.wake
			continue
		}
		if err != errBehind {
			f.c.report(err)
		}
		clock.Within(f.c.cfg.Clock, pause.delay(), f.wake)
	}
	f.confirm()
}

// step does what can be done now. After an error it must be repeated after a while;
// otherwise something wakes the feed.
func (f *feed) step() error {
	sess, down := f.c.state()
	if f.told != nil && f.told != sess {
		f.confirm()
	}
	if sess == nil {
		if f.doc == nil && down != nil {
			f.setState(f.c.cache.load(f.key))
		}
		f.tell(notConnected(down))
		return nil
	}
	err := f.sync(sess)
	if sess.Err() != nil || f.ctx.Err() != nil {
		return nil // the end of the session wakes us
	}
	f.tell(err)
	return err
}

// confirm records in the cache until when the state was known to be the newest.
func (f *feed) confirm() {
	if f.told != nil && f.doc != nil {
		f.c.cache.confirm(f.key, f.told.Heard())
	}
	f.told = nil
}

// tell gives all followers the state or, if there is none, err; those that have the state take no
// notice. If there is neither, they go on waiting.
func (f *feed) tell(err error) {
	if f.doc == nil && err == nil {
		return
	}
	f.mu.Lock()
	followers := slices.Clone(f.followers)
	f.mu.Unlock()
	for _, w := range followers {
		if f.doc != nil {
			w.update(f, f.doc)
		} else {
			w.fail(f, err)
		}
	}
}

// sync brings doc up to date on sess.
func (f *feed) sync(sess *session) error {
	for f.told != sess {
		err := f.subscribe(sess)
		switch {
		case err == nil:
			f.told = sess
		case !sess.Later(f.ctx, nil, codes.RetryAfter(err)):
			return err
		}
	}
	for {
		target, more := f.wanting()
		if !more {
			return nil
		}
		if err := f.fetch(sess); err != nil {
			f.mu.Lock()
			f.suspect = true // the next round fetches in any case
			f.mu.Unlock()
			return err
		}
		if f.behind(target) {
			return errBehind
		}
	}
}

// wanting reports the version that the server has announced, and whether there may be a
// newer one than doc.
func (f *feed) wanting() (target int32, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	suspect := f.suspect
	f.suspect = false
	return f.target, suspect || f.target > f.version
}

// behind reports whether the last fetch has missed target, which the server had
// announced before it. Two such misses are in order: the file is gone, or the
// announcement was for the merged document, whose version may be greater than the
// file's own. Then target is forgotten, unless a newer one has come in the meantime.
func (f *feed) behind(target int32) bool {
	greater := !f.key.merged && f.c.mergedToo(f.key.name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.target <= f.version || f.target != target {
		return false
	}
	if f.version == 0 || greater {
		f.target = f.version
		return false
	}
	return true
}

func (c *Client) mergedToo(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.feeds {
		if key.merged && key.name == name {
			return true
		}
	}
	return false
}

// subscribe subscribes on a new session. If doc is of this server's data, the server
// compares versions; otherwise the document is fetched in the same round trip.
func (f *feed) subscribe(sess *session) error {
	return f.turn(func(expired <-chan time.Time) error {
		known := f.doc != nil && f.doc.Mtime != 0 && f.doc.epoch == sess.epoch && sess.epoch != ""
		book := f.book(sess, known)
		if book == nil {
			return f.ctx.Err()
		}
		var get *connection.Call
		if !known {
			get = sess.Start(protocol.GetConfig, queryFrame(f.key, 0))
		}
		body, err := book.Wait(f.ctx, expired)
		if err == nil {
			err = f.subscribed(body, known)
		}
		switch {
		case get == nil:
			return err
		case err != nil:
			get.Forsake()
			return err
		}
		body, err = get.Wait(f.ctx, expired)
		return f.fetched(sess, body, err)
	})
}

// book sends the subscription, unless the feed has been released. The lock keeps it in
// order with leave.
func (f *feed) book(sess *session, known bool) *connection.Call {
	f.mu.Lock()
	f.target, f.suspect = 0, false
	f.mu.Unlock()
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.c.feeds[f.key] != f {
		return nil
	}
	s := protocol.Subscription{File: f.key.name, Path: f.key.wirePath(), MissingOK: true}
	// One subscription may serve both forms, so it must not lose the bases.
	s.Inherit = slices.ContainsFunc(f.c.sharedLocked(f.key), func(o *feed) bool { return o.key.merged })
	if known {
		s.Mtime, s.HasMtime = f.doc.Mtime, true
	}
	return sess.Start(protocol.BookCfgChange, subscriptionFrame(s))
}

// subscribed handles the answer to book.
func (f *feed) subscribed(body []byte, known bool) error {
	s, err := protocol.ParseSubscribed(body)
	if err != nil {
		return unreadable(err)
	}
	if s.Code != 0 {
		return refusal(s.Result)
	}
	// The server assumes that everyone who shares the subscription knows this version,
	// and does not push it.
	f.c.mu.Lock()
	for _, other := range f.c.sharedLocked(f.key) {
		other.announce(s.Mtime)
	}
	f.c.mu.Unlock()
	switch {
	case !known || s.Mtime > f.doc.Mtime: // fetched now or next
	case s.Mtime < f.doc.Mtime:
		// Versions never fall on one server, so ours cannot be trusted.
		f.mu.Lock()
		f.version, f.suspect = 0, true
		f.mu.Unlock()
	default:
		f.take(nil)
	}
	return nil
}

// fetch asks for a newer version than doc.
func (f *feed) fetch(sess *session) error {
	return f.turn(func(expired <-chan time.Time) error {
		body, err := sess.Request(f.ctx, expired, protocol.GetConfig, queryFrame(f.key, f.version))
		return f.fetched(sess, body, err)
	})
}

func (f *feed) fetched(sess *session, body []byte, err error) error {
	if err != nil {
		return err
	}
	doc, err := f.c.document(f.key, sess.epoch, body)
	if err == nil || errors.Is(err, ErrUpToDate) {
		f.take(doc)
		return nil
	}
	return err
}

// turn asks the server something when it is the feed's turn.
func (f *feed) turn(ask func(expired <-chan time.Time) error) error {
	if err := f.c.take(f.ctx, nil, f.c.fetches); err != nil {
		return err
	}
	defer give(f.c.fetches)
	timer := f.c.cfg.Clock.NewTimer(f.c.cfg.RequestTimeout)
	defer timer.Stop()
	return ask(timer.C())
}

// take makes doc the state and passes it on; nil confirms the current one.
func (f *feed) take(doc *Document) {
	switch {
	case doc != nil:
		f.c.cache.store(f.key, doc)
	case f.doc == nil || !f.doc.stale:
		return
	default:
		doc = f.doc.confirmed(f.c.cfg.Clock.Now())
	}
	f.setState(doc)
	f.tell(nil)
}

func (f *feed) setState(doc *Document) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.doc = doc; doc != nil {
		f.version = doc.Mtime
	}
}

func (f *feed) known() *Document {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.doc
}
