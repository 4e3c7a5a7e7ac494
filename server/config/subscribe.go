package config

import (
	"fmt"
	"strings"

	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/internal/memory"
	"confcenter/meta"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// subscription is one session's subscription to one file.
type subscription struct {
	of   *follower // set at open
	file string    // set at open: the file's full name
	name string    // set at open: the name as the peer wrote it
	path string    // set at open: key path, empty for the whole document

	count edge.Watch // set at open

	// loop only
	inherit bool
	since   uint64 // changes up to this snapshot are not news
	told    int32  // version last pushed to the peer, 0 for none
	first   int32  // version in the reply to the subscription
	place   int    // in the hub's list
	dead    bool
}

// maxPath is the longest key path that can be subscribed, in bytes.
const maxPath = 1024

// size is about the memory of a subscription, in bytes.
func (sub *subscription) size() int64 {
	return int64(memory.VersionCost + len(sub.file) + len(sub.name) + len(sub.path))
}

// subscribe answers BOOKCFGCHANGE.
func (f *Handlers) subscribe(s *gate.Session, h protocol.Header, _ []byte) bool {
	want := s.Local.Req.Subscription()
	if want.Unsubscribe {
		followerOf(s).unsubscribe(want.File, want.Path)
		s.Result(h, 0, "success")
		return true
	}
	if len(want.Path) > maxPath {
		s.Result(h, int(codes.BadRequest), fmt.Sprintf("key_pattern has %d bytes, the limit is %d", len(want.Path), maxPath))
		return true
	}
	snap := f.store.Snapshot()
	node := snap.Find([]byte(want.File))
	if err := s.Judge(want.Things(s.Things())); err != nil {
		s.Refuse(h, err)
		return true
	}
	known := node != nil && node.Known()
	file := meta.Complete(want.File)
	switch err := confstore.CheckName(file); {
	case known || err == nil:
	case want.MissingOK:
		s.Refuse(h, err)
		return true
	default:
		f.noSuchFile(s, h, want)
		return true
	}
	sub, err := followerOf(s).add(want, file, snap.Seq())
	if err != nil {
		s.Group().Count.SubscriptionLimit.Add(1)
		s.Refuse(h, err)
		return true
	}
	if !known && !want.MissingOK {
		// CppCloud's clients ignore the reply to a subscription and do not ask again: they
		// get CppCloud's answer, and a push all the same when the file is created.
		f.noSuchFile(s, h, want)
		return true
	}
	var mtime int32
	if node != nil {
		mtime = node.Mtime(want.Inherit)
	}
	sub.first = max(sub.first, mtime)
	s.End(protocol.AppendSubscribed(s.Begin(h.Command.Reply(), h.Seq), mtime, monitored(file, node, want.Inherit, s.May())))
	if want.HasMtime && mtime > want.Mtime {
		catchUp(s, sub, mtime)
	}
	return true
}

func (f *Handlers) noSuchFile(s *gate.Session, h protocol.Header, want protocol.Subscription) {
	desc := "no file=" + want.File
	if broken := f.store.NeverGood([]byte(want.File)); broken != nil {
		desc = broken.Error()
	}
	s.Result(h, int(codes.NotSubscribed), desc)
}

// monitored is the text of CppCloud's answer. The names of bases are told only to those who may
// read them.
func monitored(file string, node *snapshot.Node, inherit bool, may op.May) string {
	var b strings.Builder
	b.WriteString("monitor ")
	if inherit && node != nil {
		for _, base := range node.Bases() {
			if !may.Names(base) {
				continue
			}
			b.WriteString(base)
			b.WriteByte(' ')
		}
	}
	b.WriteString(file)
	b.WriteString("  success")
	return b.String()
}

// catchUp pushes what a new subscriber has missed.
func catchUp(s *gate.Session, sub *subscription, mtime int32) {
	sub.told = mtime
	frame := appendPush(nil, protocol.Change{File: sub.name, Mtime: mtime, Path: sub.path})
	protocol.SetSeq(frame, s.Group().NextSeq())
	s.FlushReplies()
	s.Out.SendPush(frame, loop.PushKey{File: sub.name, Path: sub.path})
}

// add adds a subscription, or widens the one for the same name and path: repeats are pushed
// once.
func (f *follower) add(want protocol.Subscription, file string, seq uint64) (*subscription, error) {
	for _, sub := range f.subs {
		if sub.name == want.File && sub.path == want.Path {
			// since stays: a change that is on its way to this subscription is news to the
			// peer, whatever it requests in the meantime.
			sub.inherit = sub.inherit || want.Inherit
			return sub, nil
		}
	}
	if max := f.s.Limits().Subscriptions; len(f.subs) >= max {
		return nil, codes.Errorf(codes.Limit, "a connection may hold %d subscriptions; end some with unsubscribe", max)
	}
	sub := &subscription{of: f, file: file, name: want.File, path: want.Path, inherit: want.Inherit, since: seq}
	if !f.s.Group().Memory.Fits(sub.size()) {
		return nil, codes.Errorf(codes.Limit, "the memory for what peers hold is used up; try again later")
	}
	var err error
	if sub.count, err = f.s.Watch(""); err != nil {
		return nil, err
	}
	f.s.Group().Memory.Add(sub.size())
	f.hub.add(sub)
	f.subs = append(f.subs, sub)
	return sub, nil
}

// unsubscribe ends the subscription of that name and path, if there is one.
func (f *follower) unsubscribe(name, path string) {
	for i, sub := range f.subs {
		if sub.name == name && sub.path == path {
			f.hub.removeSub(sub)
			f.subs = append(f.subs[:i:i], f.subs[i+1:]...)
			return
		}
	}
}

// appendPush appends the EVNOTIFY frame of c. Its sequence is filled in for each
// receiver.
func appendPush(dst []byte, c protocol.Change) []byte {
	start := len(dst)
	dst = protocol.AppendChange(protocol.BeginFrame(dst, protocol.EvNotify, 0), c)
	return protocol.FinishFrame(dst, start)
}
