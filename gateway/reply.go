package gateway

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// reply is the ResponseWriter that handlers get. It notes what the log and the
// metrics need, and holds the scratch space of one request. Replies are pooled: a
// handler keeps neither its reply nor anything that lies in it.
type reply struct {
	http.ResponseWriter
	route  *route
	status int // 0: nothing is written yet

	b  []byte     // the request's body, then the reply's
	in bodyReader // reads the body in b

	// the transaction that the handler waits for
	write     kv.Write
	txn       kv.Txn // room for a transaction of one operation
	op        [1]kv.Op
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

func newReply(to http.ResponseWriter) *reply {
	w := replies.Get().(*reply)
	w.ResponseWriter, w.route, w.status = to, &unrouted, 0
	return w
}

// free returns a reply to the pool. Nothing may write to it any more.
func (w *reply) free() {
	if cap(w.b) > maxKept {
		return
	}
	w.b, w.ResponseWriter = w.b[:0], nil
	if w.write.Txn != nil { // do not keep its entries alive
		w.write.Room(len(w.op))
		w.write.Txn, w.txn, w.op[0] = nil, kv.Txn{}, kv.Op{}
	}
	replies.Put(w)
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
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// read appends the request's body, which limitBody has bounded, to w.b.
func (w *reply) read(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return codes.Errorf(codes.BadRequest, "Content-Encoding %.40q is not supported; send the body unencoded", coding)
	}
	want := 4096
	if r.ContentLength > 0 {
		want = int(min(r.ContentLength+1, maxKept)) // with room to see the end
	}
	for {
		w.b = slices.Grow(w.b, want)
		n, err := r.Body.Read(w.b[len(w.b):cap(w.b)])
		w.b = w.b[:len(w.b)+n]
		if err == io.EOF { //nolint:errorlint // as io.Reader says
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
		want = 512
	}
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

// object begins a JSON object of about size bytes in w.b, in place of what is there.
func (w *reply) object(size int) kvjson.Writer {
	w.b = slices.Grow(w.b[:0], size+entryOverhead)
	return newWriter(w.b)
}

// sendObject ends what object began and answers with it.
func (w *reply) sendObject(out *kvjson.Writer) error {
	w.b = out.End()
	return w.sendFresh(w.b)
}

// gone discards an error of writing: the peer is not there to be told, and the log
// has no use for it.
func gone(error) error { return nil }

// allowTime extends the deadline for the next piece of a long reply.
func (g *Gateway) allowTime(w *reply) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.cfg.WriteTimeout))
}

// single makes a transaction of one operation in the reply's own room.
func (w *reply) single(op kv.Op) *kv.Txn {
	w.op[0] = op
	w.txn = kv.Txn{Then: w.op[:]}
	return &w.txn
}

// commit returns when the transaction is durable or has failed. It does not return
// earlier if the peer goes away: the write stands either way. The result is valid as
// long as the reply is.
func (g *Gateway) commit(w *reply, r *http.Request, txn *kv.Txn) (*kv.Result, error) {
	txn.Actor = actorOf(r)
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
