package client

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/follow/followtest"
	"confcenter/kv/lock"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// fakeState is the state store of a fakeServer: the engine in memory and the
// protocol's own functions. A connection's requests are answered one by one.
type fakeState struct {
	*memory.Store
	locks *lock.Manager
}

// stateful gives s a state store.
func stateful(t testing.TB, s *fakeServer, cfg memory.Config) *fakeState {
	state := &fakeState{Store: memory.New(cfg)}
	state.locks = lock.New(state, lock.Config{Clock: cfg.Clock})
	s.change(func(s *fakeServer) { s.state = state })
	t.Cleanup(func() {
		s.stop()
		state.locks.Close()
		require.NoError(t, state.Close())
	})
	return state
}

// space is a server with a state store, and a namespace of it as a client sees it.
func space(t testing.TB) (*fakeServer, *fakeState, *KV) {
	s := newFakeServer(t, nil)
	state := stateful(t, s, memory.Config{})
	return s, state, dial(t, s).KV("n")
}

// fakeWatches are the watches of one connection.
type fakeWatches struct {
	mu   sync.Mutex
	last uint32                         // guarded by mu
	byID map[uint32]*followtest.Watcher // guarded by mu
}

func (w *fakeWatches) add(watcher *followtest.Watcher, id uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[uint32]*followtest.Watcher{}
	}
	w.byID[id] = watcher
}

func (w *fakeWatches) next() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	return w.last
}

func (w *fakeWatches) remove(id uint32) *followtest.Watcher {
	w.mu.Lock()
	defer w.mu.Unlock()
	watcher := w.byID[id]
	delete(w.byID, id)
	return watcher
}

// close ends all watches; the connection is closed, so that none is in the middle
// of a write for long.
func (w *fakeWatches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watcher := range w.byID {
		watcher.Close()
	}
}

// answerKV is what a good server does with a command of the state store.
func (c *fakeConn) answerKV(h protocol.Header, body []byte) {
	c.srv.mu.Lock()
	state := c.srv.state
	c.srv.mu.Unlock()
	var r protocol.Request
	err := r.ParseTailed(body)
	if state == nil {
		err = codes.Errorf(codes.NotImplemented, "there is no state store")
	}
	var answer []byte
	if err == nil {
		answer, err = c.kvReply(state, h, &r)
	}
	if err != nil {
		answer = protocol.AppendResult(nil, int(codes.Of(err)), codes.Message(err))
	}
	if answer != nil {
		c.reply(h, answer)
	}
}

func (c *fakeConn) kvReply(state *fakeState, h protocol.Header, r *protocol.Request) ([]byte, error) {
	switch h.Command {
	case protocol.KVGet, protocol.KVMGet, protocol.KVList, protocol.KVNames, protocol.KVHistory:
		return state.read(h.Command, r)
	case protocol.KVAlive:
		id, err := r.KVLeaseID()
		if err != nil {
			return nil, err
		}
		l, err := state.KeepAlive(context.Background(), id)
		return protocol.AppendKVAlive(nil, l), err
	case protocol.KVRestore:
		q, err := r.KVRestore()
		if err != nil {
			return nil, err
		}
		e, err := state.GetAt(context.Background(), q.NS, q.Key, q.Rev)
		if err == nil && e == nil {
			err = codes.Errorf(codes.NotFound, "nothing to restore")
		}
		if err != nil {
			return nil, err
		}
		return state.write(q.Write(e.Value))
	case protocol.KVLock, protocol.KVUnlock:
		return c.kvLock(state, h, r)
	case protocol.KVWatch:
		return nil, c.kvWatch(state, h, r)
	case protocol.KVUnwatch:
		id, err := r.KVUnwatch()
		if w := c.watches.remove(id); w != nil {
			w.Close()
		}
		return protocol.AppendResult(nil, 0, ""), err
	}
	w, err := r.KVWrite(h.Command)
	if err != nil {
		return nil, err
	}
	return state.write(w)
}

func (s *fakeState) write(w protocol.KVWrite) ([]byte, error) {
	type outcome struct {
		res *kv.Result
		err error
	}
	done := make(chan outcome, 1)
	if err := s.Commit(w.Txn, func(res *kv.Result, err error) { done <- outcome{res, err} }); err != nil {
		return nil, err
	}
	o := <-done
	if o.err != nil {
		return nil, o.err
	}
	return w.AppendReply(nil, o.res), nil
}

func (s *fakeState) read(cmd protocol.Command, r *protocol.Request) ([]byte, error) {
	switch cmd {
	case protocol.KVGet:
		q, err := r.KVGet()
		if err != nil {
			return nil, err
		}
		e, rev := s.Get(q.NS, q.Key)
		if q.Rev > 0 {
			e, err = s.GetAt(context.Background(), string(q.NS), string(q.Key), q.Rev)
		}
		return protocol.AppendKVGot(nil, rev, e, q.Raw), err
	case protocol.KVNames:
		q, err := protocol.Read[protocol.KVNamesQuery](r)
		list, more := s.Namespaces(q.After, min(q.Limit, 2)) // short pages, to see several
		return protocol.AppendReply(nil, &protocol.KVNamespaces{Revision: s.Revision(), Namespaces: list, More: more}), err
	case protocol.KVHistory:
		q, err := protocol.Read[protocol.KVHistoryQuery](r)
		if err != nil {
			return nil, err
		}
		v, err := s.History(context.Background(), q.NS, q.Key, q.Before, q.Limit)
		return protocol.AppendKVVersions(nil, s.Revision(), v, q.Raw), err
	case protocol.KVMGet:
		q, err := r.KVMGet()
		if err != nil {
			return nil, err
		}
		view := s.View()
		defer view.Close()
		var entries []*kv.Entry
		for _, key := range q.Keys {
			e, _ := view.Get(q.NS, key)
			entries = append(entries, e)
		}
		return protocol.AppendKVGotMany(nil, view.Revision(), entries, q.Raw), nil
	}
	q, err := protocol.Read[protocol.KVListQuery](r)
	if err != nil {
		return nil, err
	}
	q.Limit = cmp.Or(q.Limit, 3)
	view := s.View()
	defer view.Close()
	page, err := view.List(q.List)
	return protocol.AppendKVPage(nil, q, page), err
}

// kvLock answers KVLOCK and KVUNLOCK, the reply first and the grant after it.
func (c *fakeConn) kvLock(state *fakeState, h protocol.Header, r *protocol.Request) ([]byte, error) {
	answered := make(chan []byte, 1)
	refuse := func(err error) []byte {
		return protocol.AppendResult(nil, int(codes.Of(err)), codes.Message(err))
	}
	if h.Command == protocol.KVUnlock {
		q, err := r.KVUnlock()
		done := func(rev kv.Revision, err error) {
			if err != nil {
				answered <- refuse(err)
				return
			}
			answered <- protocol.AppendKVDone(nil, rev)
		}
		switch {
		case err != nil:
		case q.Fence != 0:
			err = state.locks.Unlock(nil, q.NS, q.Key, q.Fence, done)
		default:
			err = state.locks.GiveUp(nil, q.NS, q.Key, q.Lease, done)
		}
		if err != nil {
			return nil, err
		}
		return <-answered, nil
	}
	q, err := r.KVLock()
	if err != nil {
		return nil, err
	}
	replied := make(chan struct{})
	defer close(replied)
	err = state.locks.Lock(lock.Request{NS: q.NS, Key: q.Key, Lease: q.Lease, Value: q.Value, Wait: q.Wait},
		func(o lock.Outcome, err error) {
			switch {
			case codes.Of(err) == codes.Locked:
				answered <- protocol.AppendKVHeld(nil, codes.Locked.Error(), o.Revision, o.Holder, q.Raw)
			case err != nil:
				answered <- refuse(err)
			default:
				c.addWaiter(o.Waiter)
				answered <- protocol.AppendKVLocked(nil, protocol.KVLocked{Granted: o.Granted, Fence: o.Fence, Revision: o.Revision})
			}
		},
		func(g lock.Grant) {
			c.srv.wg.Go(func() { // the callback must not block
				<-replied
				push := protocol.KVGranted{NS: g.NS, Key: g.Key, Lease: g.Lease, Fence: g.Fence}
				if g.Err != nil {
					push.Code, push.Desc = codes.Of(g.Err), codes.Message(g.Err)
				}
				c.Write(protocol.AppendFrame(nil, protocol.KVGrant, 78, protocol.AppendMessage(nil, &push)))
			})
		})
	if err != nil {
		return nil, err
	}
	c.reply(h, <-answered)
	return nil, nil
}

func (c *fakeConn) addWaiter(w *lock.Waiter) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	if w != nil {
		c.waiters = append(c.waiters, w)
	}
}

// kvWatch answers KVWATCH; the events follow the reply.
func (c *fakeConn) kvWatch(state *fakeState, h protocol.Header, r *protocol.Request) error {
	q, err := r.KVWatch()
	if err != nil {
		return err
	}
	rev, id := state.Revision(), c.watches.next()
	if !q.Past && !q.State {
		q.From, q.Past = rev, true // as it answers
	}
	replied := make(chan struct{})
	defer close(replied)
	spare := follow.Nothing
	if q.Coalesce {
		spare = follow.Joined
	}
	w, err := followtest.Watch(state, follow.Request{Filter: q.Filter, From: q.From, Past: q.Past, State: q.State, Spare: spare}, follow.Cut{Alone: true}, func(n kv.Notice) error {
		<-replied
		ev := protocol.KVEvents{Watch: id, Revision: n.Revision, Events: n.Events, More: n.More,
			State: n.Kind == kv.State, Synced: n.Kind == kv.Synced, Resync: n.Kind == kv.Resync}
		_, err := c.Write(protocol.AppendFrame(nil, protocol.KVEvent, 79, protocol.AppendKVEvents(nil, ev, q.Prev, q.Raw)))
		return err
	})
	if err != nil {
		return err
	}
	c.watches.add(w, id)
	c.reply(h, protocol.AppendKVWatching(nil, rev, id))
	return nil
}

// dropKV ends what the state store does for a closed connection.
func (c *fakeConn) dropKV() {
	c.watches.close()
	c.srv.mu.Lock()
	waiters := c.waiters
	c.srv.mu.Unlock()
	for _, w := range waiters {
		w.Cancel()
	}
}

// put is a write by another client.
func (s *fakeState) put(t testing.TB, key string, v int) kv.Revision {
	t.Helper()
	return s.commit(t, kv.PutTxn("n", key, kv.IntValue(int64(v))))
}

func (s *fakeState) commit(t testing.TB, txn *kv.Txn) kv.Revision {
	t.Helper()
	type outcome struct {
		res *kv.Result
		err error
	}
	done := make(chan outcome, 1)
	require.NoError(t, s.Commit(txn, func(res *kv.Result, err error) { done <- outcome{res, err} }))
	o := <-done
	require.NoError(t, o.err)
	return o.res.Revision
}

// text is an entry for comparing: key=value@mod.
func text(e *kv.Entry) string {
	if e == nil {
		return "-"
	}
	if e.Deleted() {
		return e.Key + "@" + strconv.FormatInt(int64(e.Mod), 10)
	}
	return e.Key + "=" + string(e.Value.Data) + "@" + strconv.FormatInt(int64(e.Mod), 10)
}
