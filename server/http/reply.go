package http

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/op"
	"confcenter/server/edge"
)

// reply is the ResponseWriter that handlers get. It notes what the log and the
// metrics need, and holds the scratch space of one request. Replies are pooled: a
// handler keeps neither its reply nor anything that lies in it.
type reply struct {
	http.ResponseWriter
	edge.Request
	judging edge.Room
	route   *route
	watch   edge.Watch    // of a stream
	status  int           // 0: nothing is written yet
	rested  time.Duration // how long the connection was made to wait

	room room       // what the request holds of the pool Bodies
	b    []byte     // the request's body, then the reply's
	in   bodyReader // reads the body in b

	// the transaction that the handler waits for
	write     kv.Write
	txn       kv.Txn // room for a transaction of one operation
	one       [1]kv.Op
	writes    [1]*kv.Write
	committed chan struct{} // capacity 1: the store must not wait
}

// maxKept is the longest buffer that is kept for another request.
const maxKept = 64 << 10

var replies = sync.Pool{New: func() any {
	w := &reply{b: make([]byte, 0, 1024), committed: make(chan struct{}, 1)}
	w.write.For, w.writes[0] = w, &w.write
	return w
}}

func newReply(to http.ResponseWriter, pool *memory.Pool, e *edge.Edge) *reply {
	w := replies.Get().(*reply)
	w.room = room{pool: pool}
	w.Request = edge.Request{Edge: e, Room: &w.judging}
	w.ResponseWriter, w.route, w.watch, w.status, w.rested = to, &unrouted, edge.Watch{}, 0, 0
	return w
}

// free returns a reply to the pool. Nothing may write to it any more.
func (w *reply) free() {
	if cap(w.b) > maxKept {
		return
	}
	w.b, w.ResponseWriter = w.b[:0], nil
	w.forget()
	replies.Put(w)
}

// forget does not keep the entries of a transaction alive.
func (w *reply) forget() {
	if w.write.Txn != nil {
		w.write.Room(len(w.one))
		w.write.Txn, w.txn, w.one[0] = nil, kv.Txn{}, kv.Op{}
	}
}

// letGo gives back what a request has held that is answered but not over: how long the rest of
// its body takes to arrive is up to its sender.
func (w *reply) letGo() {
	if cap(w.b) > smallRoom {
		w.b = nil
	}
	w.in = bodyReader{}
	w.forget()
	w.room.give()
}

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *reply) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// read appends the request's body, which limitBody has bounded, to w.b.
func (w *reply) read(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return codes.Errorf(codes.BadRequest, "Content-Encoding %.40q is not supported; send the body unencoded", coding)
	}
	for want := int64(smallRoom); ; {
		if len(w.b) == cap(w.b) || len(w.b) == 0 {
			if err := w.enlarge(r, want); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(w.b[len(w.b):cap(w.b)])
		w.b = w.b[:len(w.b)+n]
		if err == io.EOF { //nolint:errorlint // as io.Reader says
			return w.judgeAnew()
		}
		if err != nil {
			return bodyError(err)
		}
		want = 2 * int64(len(w.b))
	}
}

// judgeAnew is for a request that may have waited since it was let in: its sender may only have
// been waiting for the end of what was allowed by then.
func (w *reply) judgeAnew() error {
	var ok bool
	switch w.Rights, ok = w.Rights.Renew(); {
	case ok:
		return nil
	case w.Rights.Permits == nil:
		return codes.Errorf(codes.NotIdentified, "your token, session or certificate has ended while the request was on its way; nothing was done: get a new one")
	}
	return codes.Errorf(codes.Forbidden, "you may do less than when the request was let in; nothing was done: ask again")
}

// enlarge makes room for a body of want bytes. One whose length is known has all that it
// needs as soon as it is more than a little, and takeBody has reserved it; one whose
// length is not reserves what it has come to.
func (w *reply) enlarge(r *http.Request, want int64) error {
	switch {
	case r.ContentLength < 0:
		if err := w.take(want - int64(cap(w.b))); err != nil {
			return err
		}
	case want > smallRoom || r.ContentLength < want:
		want = r.ContentLength + 1 // with room to see the end
	}
	if int64(cap(w.b)) < want {
		w.b = append(make([]byte, 0, want), w.b...)
	}
	return nil
}

// autoLength is the length from which on net/http does not determine the length of a
// reply by itself.
const autoLength = 2048

// send answers with a whole JSON text, which it does not keep.
func (w *reply) send(body []byte) error {
	h := w.Header()
	h["Content-Type"] = contentJSON
	if len(body) >= autoLength {
		w.setLength(len(body))
	}
	_, err := w.Write(body)
	return gone(err)
}

func (w *reply) setLength(n int) { w.Header()["Content-Length"] = []string{strconv.Itoa(n)} }

// sendFresh answers with a JSON text that caches must not store.
func (w *reply) sendFresh(body []byte) error {
	w.Header()["Cache-Control"] = noStore
	return w.send(append(body, '\n'))
}

// object begins a short JSON object in w.b, in place of what is there.
func (w *reply) object() kvjson.Writer { return newWriter(w.b[:0]) }

// sendLong answers with an object of about size bytes, which is refused if there is no memory for it.
func (w *reply) sendLong(size int, write func(out *kvjson.Writer)) error {
	if err := w.grow(size + entryOverhead); err != nil {
		return err
	}
	out := w.object()
	write(&out)
	return w.sendObject(&out)
}

// grow makes room for a reply of about size bytes in w.b, in place of what is there.
func (w *reply) grow(size int) error {
	w.b = w.b[:0]
	if size <= cap(w.b) {
		return nil
	}
	if err := w.take(int64(size)); err != nil {
		return err
	}
	w.b = make([]byte, 0, size)
	return nil
}

// sendObject ends what object began and answers with it.
func (w *reply) sendObject(out *kvjson.Writer) error {
	w.b = out.End()
	return w.sendFresh(w.b)
}

// gone discards an error of writing: the peer is not there to be told, and the log
// has no use for it.
func gone(error) error { return nil }

// sendPiece sends what is in w.b of an answer that is never in memory as a whole, and empties
// it. It returns false if the peer has gone, or may do less than when it asked: then the answer
// stays incomplete.
func (g *Gateway) sendPiece(w *reply) bool {
	if w.judgeAnew() != nil {
		return false
	}
	w.Header()["Content-Type"] = contentJSON
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.cfg.WriteTimeout)) // for this piece
	_, err := w.Write(w.b)
	w.b = w.b[:0]
	return err == nil
}

// sendRest ends what may have begun with pieces.
func (w *reply) sendRest() error {
	if w.status == 0 {
		return w.send(w.b)
	}
	_, err := w.Write(w.b)
	return gone(err)
}

// single makes a transaction of one operation in the reply's own room.
func (w *reply) single(op kv.Op) *kv.Txn {
	w.one[0] = op
	w.txn = kv.Txn{Then: w.one[:]}
	return &w.txn
}

// commit commits a transaction if that is allowed.
func (g *Gateway) commit(w *reply, r *http.Request, txn *kv.Txn) (*kv.Result, error) {
	if err := g.judgeTxn(w, r, txn); err != nil {
		return nil, err
	}
	return g.commitJudged(w, txn)
}

// judgeTxn decides about all that a transaction reads and changes, after other things that its request is about.
func (g *Gateway) judgeTxn(w *reply, r *http.Request, txn *kv.Txn, before ...op.Thing) (err error) {
	if txn.Actor, err = w.actor(r); err != nil {
		return err
	}
	return g.judge(w, op.Txn(append(w.Things(), before...), txn))
}

// commitJudged is commit of a transaction that has been judged.
func (g *Gateway) commitJudged(w *reply, txn *kv.Txn) (*kv.Result, error) {
	if err := w.prepare(txn); err != nil {
		return nil, err
	}
	return g.carryOut(w, txn)
}

// prepare seals what is to be sealed in a transaction, and takes memory: values are copied out of the body.
func (w *reply) prepare(txn *kv.Txn) error {
	if err := w.Seal(txn); err != nil {
		return err
	}
	return w.take(int64(txn.Size() + memory.WaiterCost*(len(txn.Then)+len(txn.Else)+len(txn.If))))
}

// carryOut returns when the transaction is durable or has failed. It does not return earlier if the peer goes
// away: the write stands either way. The result is valid as long as the reply is.
func (g *Gateway) carryOut(w *reply, txn *kv.Txn) (*kv.Result, error) {
	w.write.Txn = txn
	if _, err := g.stores.State.CommitEach(waiting{}, w.writes[:]); err != nil {
		return nil, err
	}
	<-w.committed
	return &w.write.Result, w.write.Err
}

// waiting is every handler that waits for a transaction: one caller, so that the
// store completes a whole group in one call.
type waiting struct{}

// Committed implements kv.Caller.
func (waiting) Committed(writes []*kv.Write) {
	for _, write := range writes {
		write.For.(*reply).committed <- struct{}{}
	}
}
