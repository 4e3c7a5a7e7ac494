package gateway

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// buffer is scratch space of one request.
type buffer struct {
	b  []byte
	in bodyReader // of what was read into b
}

// maxKept is the longest buffer that is kept for another request.
const maxKept = 64 << 10

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 1024)} }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

func (b *buffer) free() {
	if cap(b.b) <= maxKept {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// read appends the request's body, which limitBody has bounded. What was read is
// the caller's until free.
func (b *buffer) read(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return codes.Errorf(codes.BadRequest, "Content-Encoding %.40q is not supported; send the body unencoded", coding)
	}
	const first = 4096
	want := first
	if r.ContentLength > 0 {
		want = int(min(r.ContentLength+1, maxKept)) // with room to see the end
	}
	for {
		if cap(b.b)-len(b.b) < want {
			grown := make([]byte, len(b.b), max(2*cap(b.b), len(b.b)+want))
			copy(grown, b.b)
			b.b = grown
		}
		n, err := r.Body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if err == io.EOF { //nolint:errorlint // as io.Reader says
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
		want = 512
	}
}

// autoLength is up to where net/http finds out by itself how long a reply is.
const autoLength = 2048

// sendJSON sends a whole reply. body is not kept.
func sendJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = contentJSON
	if len(body) >= autoLength {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, err := w.Write(body)
	return gone(err)
}

// gone hides an error of writing: the peer is not there to be told, and the log has
// no use for it.
func gone(error) error { return nil }

// allowTime gives the peer time to read the next piece of a long reply.
func (g *Gateway) allowTime(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.cfg.WriteTimeout))
}

// committing is a transaction that a handler waits for. It is used again, because a
// channel and a function for each write are a part of what a write costs.
type committing struct {
	finished chan struct{} // capacity 1: the store's goroutine must not wait
	done     func(*kv.Result, error)
	result   *kv.Result
	err      error
}

var commits = sync.Pool{New: func() any {
	c := &committing{finished: make(chan struct{}, 1)}
	c.done = func(result *kv.Result, err error) {
		c.result, c.err = result, err
		c.finished <- struct{}{}
	}
	return c
}}

// commit returns when the transaction is durable or has failed. It does not end
// earlier if the peer goes away: the write stands either way.
func (g *Gateway) commit(r *http.Request, txn *kv.Txn) (*kv.Result, error) {
	txn.Actor = actorOf(r)
	c := commits.Get().(*committing)
	if err := g.stores.State.Commit(txn, c.done); err != nil {
		commits.Put(c)
		return nil, err
	}
	<-c.finished
	result, err := c.result, c.err
	c.result, c.err = nil, nil
	commits.Put(c)
	return result, err
}
