package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"confcenter/protocol"
	"confcenter/tools/ccdump/hide"
	"confcenter/tools/ccdump/stream"
)

// ErrDifferent says that a server answered differently.
var ErrDifferent = errors.New("the server answered differently")

// Config says how to replay.
type Config struct {
	// To is the server's address.
	To string
	// Pace is the speed: 1 as in the capture, 2 twice as fast, 0 waits for nothing
	// but answers.
	Pace float64
	// Patience is how long to wait for an answer.
	Patience time.Duration
	// Exact compares bodies byte by byte and translates nothing.
	Exact bool
	// Secrets has differences told with tokens and secret values.
	Secrets bool
	// Tell is called for each difference.
	Tell func(Difference)
}

// Difference is a deviation from the capture.
type Difference struct {
	// Conn is the connection's number in the capture.
	Conn int `json:"conn"`
	// What names the frame by command and sequence.
	What string `json:"what"`
	// How says how it differs.
	How string `json:"how"`
}

func (d Difference) String() string { return fmt.Sprintf("#%d %s: %s", d.Conn, d.What, d.How) }

// Result is the counts of a replay.
type Result struct {
	Connections int `json:"connections"`
	Requests    int `json:"requests"`
	Replies     int `json:"replies"` // alike
	Pushes      int `json:"pushes"`  // alike
	Different   int `json:"different"`
	Skipped     int `json:"skipped"` // requests that are not whole in the capture
}

// Replayer is a stream.Sink.
type Replayer struct {
	ctx    context.Context
	cfg    Config
	names  names
	result Result
	err    error

	open  map[*stream.Conn]*peer
	said  atomic.Int64 // requests that were sent
	start int64        // of the capture
	began time.Time    // of the replay
}

// New makes a Replayer that ends with ctx.
func New(ctx context.Context, cfg Config) *Replayer {
	return &Replayer{ctx: ctx, cfg: cfg, names: names{of: map[name]string{}}, open: map[*stream.Conn]*peer{}}
}

// Err is why the replay cannot go on, nil if it can.
func (r *Replayer) Err() error { return r.err }

// Result closes all connections and returns the outcome.
func (r *Replayer) Result() (Result, error) {
	for c := range r.open {
		r.leave(c, true)
	}
	err := r.err
	if err == nil && r.result.Different > 0 {
		err = ErrDifferent
	}
	return r.result, err
}

func (r *Replayer) differs(c *stream.Conn, what, how string) {
	r.result.Different++
	if !r.cfg.Secrets {
		what, how = hide.Text(what), hide.Text(how)
	}
	if r.cfg.Tell != nil {
		r.cfg.Tell(Difference{Conn: c.ID, What: what, How: how})
	}
}

// Opened implements stream.Sink. A connection is dialed with its first request.
func (r *Replayer) Opened(*stream.Conn, int64, bool) {}

// Skipped implements stream.Sink.
func (r *Replayer) Skipped(c *stream.Conn, s *stream.Skip) {
	if c.Frames > 0 && s.From == stream.FromClient {
		r.result.Skipped++
	}
	if p := r.open[c]; p != nil && s.From == stream.FromServer {
		p.gaps = true
	}
}

// Closed implements stream.Sink.
func (r *Replayer) Closed(c *stream.Conn, _ int64, how stream.How) {
	if how != stream.Open {
		r.leave(c, how == stream.Forgotten)
	}
}

// Frame implements stream.Sink.
func (r *Replayer) Frame(c *stream.Conn, f *stream.Frame) {
	if r.err != nil || r.ctx.Err() != nil {
		return
	}
	switch keepAlive := f.Command.Request() == protocol.KeepAlive && (f.From == stream.FromServer) != f.Command.IsReply(); {
	case keepAlive:
		// The server's own keep-alives, at its own times: the peer answers them.
	case f.From == stream.FromServer:
		if p := r.open[c]; p != nil {
			r.expect(c, p, f)
		}
	case !f.Whole():
		r.result.Skipped++
	default:
		r.say(c, f)
	}
}

// say sends a request, or a client's reply to another client, when it is time.
func (r *Replayer) say(c *stream.Conn, f *stream.Frame) {
	r.wait(f.At)
	p := r.open[c]
	if p == nil {
		var err error
		if p, err = r.connect(c, f); err != nil {
			r.err = err
			return
		}
	}
	body := f.Body
	if !r.cfg.Exact {
		body = r.names.translate(nil, f.Command, p.label, f.Body)
	}
	r.result.Requests++
	r.said.Add(1)
	if !f.Command.IsReply() {
		p.asked(f)
	}
	if err := p.send(f.Command, f.Seq, body); err != nil && !p.lost {
		p.lost = true
		r.differs(c, what(f), fmt.Sprintf("it cannot be sent: %v", err))
	}
}

// wait waits until a request is due.
func (r *Replayer) wait(at int64) {
	if r.began.IsZero() {
		r.start, r.began = at, time.Now()
	}
	if r.cfg.Pace <= 0 {
		return
	}
	due := r.began.Add(time.Duration(float64(at-r.start) / r.cfg.Pace))
	select {
	case <-time.After(time.Until(due)):
	case <-r.ctx.Done():
	}
}

// connect opens a connection in place of c, and identifies it if the capture does not.
func (r *Replayer) connect(c *stream.Conn, first *stream.Frame) (*peer, error) {
	p, err := dial(r.ctx, r.cfg.To, fmt.Sprint(c.ID), &r.said)
	if err != nil {
		return nil, err
	}
	r.open[c] = p
	r.result.Connections++
	if first.Command != protocol.Whoami && first.Offset > 0 {
		hello := protocol.AppendIdentify(nil, protocol.Identify{Name: "ccdump-replay"})
		if err := p.send(protocol.Whoami, 0, hello); err != nil {
			return nil, err
		}
		if _, ok := p.reply(r, protocol.Whoami.Reply(), 0); !ok {
			return nil, fmt.Errorf("%s does not answer WHOAMI", r.cfg.To)
		}
	}
	return p, nil
}

// expect waits for what the capture's server sent, and compares.
func (r *Replayer) expect(c *stream.Conn, p *peer, f *stream.Frame) {
	if f.Command.IsReply() {
		r.expectReply(c, p, f)
		return
	}
	if !f.Whole() {
		return
	}
	for _, one := range apart(frame{Header: f.Header, body: f.Body}) {
		if !r.expectPush(c, p, f, one) {
			return
		}
	}
}

func (r *Replayer) expectReply(c *stream.Conn, p *peer, f *stream.Frame) {
	request, asked := p.answered(f)
	if !asked {
		return // the request is not in the capture
	}
	now, ok := p.reply(r, f.Command, f.Seq)
	if !ok {
		r.missing(c, p, what(f), "no reply")
		return
	}
	if !f.Whole() {
		return
	}
	if !r.cfg.Exact {
		var about protocol.Request
		if f.Command.IsState() || parse(f.Command, &about, request.body) != nil {
			about = protocol.Request{}
		}
		r.names.learnFrom(f.Command, p.label, &about, f.Body, now)
	}
	r.compare(c, f, f.Body, now, request.reveals, &r.result.Replies)
}

// compare counts a match and reports a difference.
func (r *Replayer) compare(c *stream.Conn, f *stream.Frame, old, now []byte, revealed bool, alike *int) bool {
	how := r.how(f.Command, old, now, revealed)
	if how != "" {
		r.differs(c, what(f), how)
		return false
	}
	*alike++
	return true
}

// how is compare, without what is hidden.
func (r *Replayer) how(cmd protocol.Command, old, now []byte, revealed bool) string {
	how := compare(cmd, old, now, r.cfg.Exact)
	if how == "" || r.cfg.Secrets {
		return how
	}
	old, now = hide.Body(cmd, old, true, revealed), hide.Body(cmd, now, true, revealed)
	return cmp.Or(compare(cmd, old, now, r.cfg.Exact), "it differs in what --secrets shows")
}

// hidden is what is shown of a body.
func (r *Replayer) hidden(cmd protocol.Command, body []byte, revealed bool) string {
	if !r.cfg.Secrets {
		body = hide.Body(cmd, body, true, revealed)
	}
	return shown(body)
}

// expectPush waits for a push, or an event of a watch, and reports whether it is alike.
func (r *Replayer) expectPush(c *stream.Conn, p *peer, f *stream.Frame, one frame) bool {
	about := one.about
	if watch, ok := strings.CutPrefix(about, "watch "); ok {
		about = "watch " + cmp.Or(r.names.of[name{kindWatch, p.label, watch}], watch)
	}
	now, ok := p.push(r, f.Command, about)
	if !ok {
		r.missing(c, p, what(f), fmt.Sprintf("the push %s does not come", r.hidden(f.Command, one.body, p.reveals)))
		return false
	}
	var of protocol.Request
	if !r.cfg.Exact && f.Command != protocol.KVEvent && parse(f.Command, &of, one.body) == nil {
		r.names.learnFrom(f.Command, p.label, &of, one.body, now)
	}
	return r.compare(c, f, one.body, now, p.reveals, &r.result.Pushes)
}

// missing reports what did not come, only once if the connection is gone.
func (r *Replayer) missing(c *stream.Conn, p *peer, what, how string) {
	if err := p.gone(); err != nil {
		if p.lost {
			return
		}
		p.lost = true
		how += fmt.Sprintf(": %v", err)
	} else {
		how += fmt.Sprintf(" within %v", r.cfg.Patience)
	}
	r.differs(c, what, how)
}

// leave closes the connection in place of c and reports what came but is not in the
// capture. open says that the capture does not contain the connection's end.
func (r *Replayer) leave(c *stream.Conn, open bool) {
	p := r.open[c]
	if p == nil {
		return
	}
	delete(r.open, c)
	if p.gone() == nil && r.ctx.Err() == nil && !p.lost {
		// Whatever was in flight has arrived when two more requests are answered.
		for range 2 {
			if p.send(protocol.KeepAlive, 0, nil) != nil {
				break
			}
			if _, ok := p.reply(r, protocol.KeepAlive.Reply(), 0); !ok {
				break
			}
		}
	}
	p.close()
	if r.ctx.Err() != nil || r.err != nil {
		return // the capture was not read to its end
	}
	for _, extra := range p.rest(r, open) {
		r.differs(c, extra, "it is not in the capture")
	}
}

func what(f *stream.Frame) string { return fmt.Sprintf("%v seq=%d", f.Command, f.Seq) }
