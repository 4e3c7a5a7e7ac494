package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
	"confcenter/tools/ccdump/hide"
	"confcenter/tools/ccdump/stream"
)

const (
	dialLimit = 10 * time.Second
	// maxUnread is how many frames that are not expected yet are kept for a connection,
	// and maxUnreadBytes how many bytes.
	maxUnread      = 100_000
	maxUnreadBytes = 64 << 20
	// maxAsked is how many requests may wait for replies.
	maxAsked = 65536
)

// peer is a connection to the server under replay.
type peer struct {
	label string
	conn  net.Conn
	lost  bool // and reported

	reveals bool // a watch was asked for with reveal

	requests []request // whose replies the capture has still to show
	gaps     bool      // the capture lacks some of what its server has sent
	said     *atomic.Int64

	mu      sync.Mutex // guards the rest
	came    []frame
	bytes   int
	err     error
	arrived chan struct{} // has something when something came
	done    chan struct{}
}

type request struct {
	cmd  protocol.Command
	seq  uint16
	body []byte

	reveals bool // it asks for what is to be hidden
}

// frame is what has come: a reply, a push, or an event of a watch, because how these are grouped
// into frames depends on timing.
type frame struct {
	protocol.Header
	about string // what a push is about
	body  []byte
	after int64 // how many requests had been sent when it came
}

// dial connects. said is how many requests were sent on all connections.
func dial(ctx context.Context, addr, label string, said *atomic.Int64) (*peer, error) {
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("the server cannot be reached: %w", err)
	}
	p := &peer{label: label, conn: conn, said: said, arrived: make(chan struct{}, 1), done: make(chan struct{})}
	go p.read()
	return p, nil
}

// read reads frames until the connection ends.
func (p *peer) read() {
	defer close(p.done)
	in := bufio.NewReader(p.conn)
	for {
		f, err := readFrame(in)
		if err == nil && f.Command == protocol.KeepAlive {
			err = p.send(protocol.KeepAlive.Reply(), f.Seq, nil)
			if err == nil {
				continue
			}
		}
		if !p.took(f, err) {
			return
		}
	}
}

func readFrame(in io.Reader) (f frame, err error) {
	var head [protocol.HeaderSize]byte
	if _, err = io.ReadFull(in, head[:]); err != nil {
		return f, err
	}
	if f.Header, err = protocol.ParseHeader(head[:]); err != nil {
		return f, err
	}
	if f.BodyLen > stream.MaxFrame {
		return f, fmt.Errorf("a body of %d bytes is announced", f.BodyLen)
	}
	f.body, err = io.ReadAll(io.LimitReader(in, int64(f.BodyLen)))
	if err == nil && len(f.body) < int(f.BodyLen) {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// took stores a received frame; it returns false if nothing more will come.
func (p *peer) took(f frame, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && (len(p.came) >= maxUnread || p.bytes > maxUnreadBytes) {
		err = errors.New("the server sends far more than is in the capture")
	}
	if p.err = err; err == nil {
		p.bytes += len(f.body)
		f.after = p.said.Load()
		p.came = append(p.came, apart(f)...)
	}
	select {
	case p.arrived <- struct{}{}:
	default:
	}
	return err == nil
}

func (p *peer) send(cmd protocol.Command, seq uint16, body []byte) error {
	_, err := p.conn.Write(protocol.AppendFrame(nil, cmd, seq, body))
	return err
}

// gone is why nothing more will come, nil while something may.
func (p *peer) gone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// take removes the first frame that fits. It waits until there is one, nothing more will come or
// patience runs out.
func (p *peer) take(r *Replayer, fits func(frame) bool) (body []byte, ok bool) {
	patience := time.After(r.cfg.Patience)
	for {
		p.mu.Lock()
		i, over := slices.IndexFunc(p.came, fits), p.err != nil
		if i >= 0 {
			body = p.came[i].body
			p.bytes -= len(body)
			p.came = slices.Delete(p.came, i, i+1)
		}
		p.mu.Unlock()
		if i >= 0 || over {
			return body, i >= 0
		}
		select {
		case <-p.arrived:
		case <-patience:
			return nil, false
		case <-r.ctx.Done():
			return nil, false
		}
	}
}

func (p *peer) reply(r *Replayer, cmd protocol.Command, seq uint16) ([]byte, bool) {
	return p.take(r, func(f frame) bool { return f.Command == cmd && f.Seq == seq })
}

func (p *peer) push(r *Replayer, cmd protocol.Command, about string) ([]byte, bool) {
	return p.take(r, func(f frame) bool { return f.Command == cmd && f.about == about })
}

// asked remembers a request until the capture shows its reply.
func (p *peer) asked(f *stream.Frame) {
	if len(p.requests) >= maxAsked {
		p.requests = p.requests[1:]
	}
	q := request{cmd: f.Command, seq: f.Seq, reveals: hide.Reveals(f.Command, f.Body)}
	p.reveals = p.reveals || q.reveals && (f.Command == protocol.KVWatch || f.Command == protocol.CfWatch)
	if !f.Command.IsState() {
		q.body = append(q.body, f.Body[:min(len(f.Body), keptRequest)]...)
	}
	p.requests = append(p.requests, q)
}

// keptRequest is how much of a request is kept, to know which file it was about.
const keptRequest = 64 << 10

// answered finds the request of a reply of the capture.
func (p *peer) answered(f *stream.Frame) (q request, ok bool) {
	i := slices.IndexFunc(p.requests, func(q request) bool { return q.seq == f.Seq && q.cmd == f.Command.Request() })
	if i < 0 {
		return q, false
	}
	q = p.requests[i]
	p.requests = slices.Delete(p.requests, i, i+1)
	return q, true
}

// close ends the connection and waits for its reader.
func (p *peer) close() {
	p.conn.Close()
	<-p.done
}

// rest lists what came and was not expected. If the capture ends before the connection,
// it leaves out what may have come after that: replies that the capture does not show,
// and what came after the last request.
func (p *peer) rest(r *Replayer, open bool) []string {
	var list []string
	last := p.said.Load()
	beyond := func(f *frame) bool {
		if !f.Command.IsReply() {
			return open && f.after >= last
		}
		return (open || p.gaps) && slices.ContainsFunc(p.requests, func(q request) bool { return q.seq == f.Seq && q.cmd == f.Command.Request() })
	}
	for _, f := range p.came {
		if beyond(&f) {
			continue
		}
		what := fmt.Sprintf("%v seq=%d", f.Command, f.Seq)
		if f.Command == protocol.KVEvent {
			what = "KVEVENT of " + f.about
		}
		list = append(list, what+" "+r.hidden(f.Command, f.body, f.Command.IsReply() || p.reveals))
	}
	slices.Sort(list)
	return list
}

// apart says what a frame is about, and makes a frame of each event, with any flags, of a KVEVENT.
// Octets after the JSON stay with the last event.
func apart(f frame) (list []frame) {
	var r protocol.Request
	if parse(f.Command, &r, f.body) != nil || f.Command.IsReply() {
		return []frame{f}
	}
	switch f.Command {
	case protocol.KVEvent:
	case protocol.KVGrant:
		f.about = fmt.Sprintf("%q %q", r.Text("ns"), r.Text("key"))
		return []frame{f}
	default:
		f.about = fmt.Sprintf("%q %q %q", r.Text("notify"), r.Text("filename"), r.Text("key_pattern"))
		return []frame{f}
	}
	add := func(body []byte) {
		event := f
		event.body = body
		list = append(list, event)
	}
	if m, ok := r.Member("watch"); ok {
		f.about = "watch " + number(m.Raw)
	}
	if m, ok := r.Member("events"); ok {
		jsontext.EachElement(m.Raw, func(raw []byte, _ jsontext.Kind) bool {
			add(slices.Clone(raw))
			return true
		})
	}
	if n := len(list); n > 0 {
		list[n-1].body = append(list[n-1].body, r.Tail()...)
	}
	for _, flag := range []string{"synced", "resync"} {
		if r.Flag(flag) {
			add([]byte(`{"` + flag + `":1}`))
		}
	}
	return list
}
