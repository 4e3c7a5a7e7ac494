package talk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"confcenter/protocol"
	"confcenter/tools/ccdump/hide"
	"confcenter/tools/ccdump/stream"
)

const (
	// maxWaiting is how many requests of one direction may wait for replies before
	// the older half counts as never answered: as many as a server queues.
	maxWaiting = 4096
	// maxWaitingAll is the same for all connections together.
	maxWaitingAll = 1 << 18
	// maxName is how much of a svrname, file or key is kept, in bytes.
	maxName = 256
	// maxKeptText is how much of a request is kept until its reply shows whether it is
	// wanted.
	maxKeptText = 64 << 10
	// maxToldUnanswered is how many unanswered requests of one connection are named; the
	// others are counted.
	maxToldUnanswered = 5
)

// Line is a frame or a remark to be shown.
type Line struct {
	// At is the time in ns since 1970.
	At   int64
	Conn *stream.Conn
	// Name is the svrname of the client, empty until it is identified; ID its svrid.
	Name string
	ID   int32
	From stream.Dir
	// Frame is nil for a remark. What is shown of its body is in Body.
	Frame *stream.Frame
	// Body is the body that is shown, without what Config hides.
	Body []byte
	// Subject is the file or key it is about, if Config asks for subjects.
	Subject string
	// Code is the reply's.
	Code    int32
	HasCode bool
	// Latency is the time since the request, for replies whose request was seen.
	Latency  time.Duration
	Answered bool
	// Remark is a comment on the frame, or stands in its place. Odd says that it
	// reports something that should not be.
	Remark string
	Odd    bool
}

// Config says what a Follower does with what it finds.
type Config struct {
	// Show is called for each line that Filter wants; nil shows nothing.
	Show   func(*Line)
	Filter Filter
	// Summary, if set, is added to.
	Summary *Summary
	// Subjects says that each line needs its subject.
	Subjects bool
	// Secrets shows tokens and secret values as well.
	Secrets bool
}

// Follower follows conversations. It implements stream.Sink.
type Follower struct {
	cfg      Config
	sum      *Summary
	subjects bool // are needed
	request  protocol.Request
	waiting  int // requests without a reply, of all connections
	line     Line
}

// New makes a Follower.
func New(cfg Config) *Follower {
	return &Follower{cfg: cfg, sum: cmp.Or(cfg.Summary, NewSummary()), subjects: cfg.Subjects || cfg.Filter.needsSubject()}
}

// speaker is what is known about a connection.
type speaker struct {
	name       string
	id         int32
	identified bool
	waits      [2]queue // by who asked
	reveals    bool     // a watch was asked for with reveal
	dropped    [2]int64 // requests too many to remember
	gaps       [2]int64 // by who sends: when bytes were last found lost, until a later reply is found; 0: none
}

// queue holds the requests of one side that wait for replies, the oldest first.
type queue []waiting

// take removes the request at place i.
func (q *queue) take(i int) waiting {
	w := (*q)[i]
	*q = slices.Delete(*q, i, i+1)
	return w
}

// waiting is a request whose reply has not come yet.
type waiting struct {
	at      int64
	cmd     protocol.Command
	seq     uint16
	wanted  bool   // by the filter, as far as a request can say
	subject string // the file or key
	kept    *Line  // to be shown if the reply is wanted
	name    string // svrname of a WHOAMI
	gap     bool   // the reply may be lost
	reveals bool   // it asks for what is to be hidden
}

func (f *Follower) speaker(c *stream.Conn) *speaker {
	if s, ok := c.State.(*speaker); ok {
		return s
	}
	s := &speaker{}
	c.State = s
	return s
}

// Opened implements stream.Sink.
func (f *Follower) Opened(c *stream.Conn, at int64, joined bool) {
	text := "opened"
	if joined {
		text = "joined: its beginning was not captured"
	}
	f.remark(c, at, stream.FromClient, text, false)
}

// Closed implements stream.Sink.
func (f *Follower) Closed(c *stream.Conn, at int64, how stream.How) {
	s := f.speaker(c)
	for from := range s.waits {
		f.unanswered(c, s, stream.Dir(from), at)
	}
	text := string(how)
	if c.HasEnd && (how == stream.Finished || how == stream.Reset) {
		text += " by the " + dirName(c.EndedBy)
	}
	if c.Frames == 0 {
		f.sum.Silent++
		text += " without a frame"
	}
	f.remark(c, at, stream.FromClient, text, how == stream.Forgotten)
}

// unanswered gives up on the replies that one direction still waits for.
func (f *Follower) unanswered(c *stream.Conn, s *speaker, from stream.Dir, at int64) {
	var lost, never []waiting
	for _, w := range s.waits[from] {
		if w.gap || w.at <= s.gaps[from.Other()] {
			lost = append(lost, w)
		} else {
			never = append(never, w)
		}
	}
	f.lost(c, from.Other(), at, lost, "may be")
	for i := range never {
		w := &never[i]
		f.sum.unanswered(c, s, w)
		if i < maxToldUnanswered && w.wanted {
			f.showKept(w)
			f.remark(c, at, from, fmt.Sprintf("%v seq=%d was never answered, asked %v before", w.cmd, w.seq, time.Duration(at-w.at).Round(time.Microsecond)), true)
		}
	}
	if more := int64(len(never)-maxToldUnanswered) + s.dropped[from]; more > 0 {
		f.remark(c, at, from, fmt.Sprintf("%d more requests were never answered", more), true)
	}
	f.waiting -= len(s.waits[from])
	s.waits[from] = nil
}

// passed handles a reply that has come after a gap: the replies to the i requests before
// its own, which come in order, are lost in it.
func (f *Follower) passed(c *stream.Conn, s *speaker, reply stream.Dir, i int, at int64) {
	q := &s.waits[reply.Other()]
	var lost []waiting
	for k := 0; i > 0; i-- {
		w := &(*q)[k]
		switch {
		case w.at > s.gaps[reply]:
			k++
		case !inOrder(w.cmd):
			w.gap = true
			k++
		default:
			f.waiting--
			lost = append(lost, q.take(k))
		}
	}
	f.lost(c, reply, at, lost, "is")
	s.gaps[reply] = 0
}

// lost tells of requests whose replies are, or may be, among bytes missing from the capture.
func (f *Follower) lost(c *stream.Conn, reply stream.Dir, at int64, list []waiting, is string) {
	for i := range list[:min(len(list), maxToldUnanswered)] {
		if w := &list[i]; w.wanted {
			f.remark(c, at, reply, fmt.Sprintf("the reply to %v seq=%d %s lost in a gap of the capture", w.cmd, w.seq, is), false)
		}
	}
	if more := len(list) - maxToldUnanswered; more > 0 {
		f.remark(c, at, reply, fmt.Sprintf("the replies to %d more requests too", more), false)
	}
}

// inOrder reports whether replies to a command come in the order of the requests.
func inOrder(cmd protocol.Command) bool {
	row := protocol.Lookup(cmd)
	return row != nil && (row.Role == protocol.Served || row.Role == protocol.Reserved)
}

// Skipped implements stream.Sink.
func (f *Follower) Skipped(c *stream.Conn, skip *stream.Skip) {
	f.sum.skipped(c, skip)
	what := "skipped"
	if c.Frames == 0 && skip.Foreign {
		what = "not this protocol:"
	}
	if skip.Lost {
		f.speaker(c).gaps[skip.From] = skip.At
	}
	f.remark(c, skip.At, skip.From, fmt.Sprintf("%s %d bytes at offset %d: %s", what, skip.Bytes, skip.Offset, skip.Reason), true)
}

// remark shows a line without a frame.
func (f *Follower) remark(c *stream.Conn, at int64, from stream.Dir, text string, odd bool) {
	if f.cfg.Show == nil {
		return
	}
	s := f.speaker(c)
	f.line = Line{At: at, Conn: c, From: from, Remark: text, Odd: odd}
	f.line.label(s)
	if f.cfg.Filter.wantsRemark(s, c, odd) {
		f.cfg.Show(&f.line)
	}
}

func (l *Line) label(s *speaker) {
	if s.identified {
		l.Name, l.ID = s.name, s.id
	}
}

// Frame implements stream.Sink.
func (f *Follower) Frame(c *stream.Conn, frame *stream.Frame) {
	s := f.speaker(c)
	f.line = Line{At: frame.At, Conn: c, From: frame.From, Frame: frame}
	if frame.Command.IsReply() {
		f.reply(c, s, frame)
	} else {
		f.ask(c, s, frame)
	}
}

// ask handles a request or push.
func (f *Follower) ask(c *stream.Conn, s *speaker, frame *stream.Frame) {
	l := &f.line
	expects, push := expectation(frame)
	w := waiting{at: frame.At, cmd: frame.Command, seq: frame.Seq}
	var pushed []string
	if f.reads(frame, push) && f.parse(frame) {
		switch {
		case frame.Command == protocol.Whoami:
			w.name = clip(f.request.Text("svrname"))
			s.name = cmp.Or(s.name, w.name)
		case frame.Command == protocol.EvNotify && frame.From == stream.FromServer:
			// A push is recognised by the missing sender: another client would be one.
			_, routed := f.request.Member("from")
			expects, push = routed, !routed
		case frame.Command == protocol.AppRunLog:
			_, expects = f.request.Member("to")
		case frame.Command == protocol.Testing:
			expects = string(f.request.Text("cmd")) == "broadshow"
		}
		if f.subjects || push {
			pushed = subjects(frame.Command, &f.request)
			l.Subject = strings.Join(pushed, " ")
		}
	}
	l.label(s)
	f.oddRequest(frame)
	f.sum.request(frame, push, pushed)
	w.subject = l.Subject
	w.wanted = f.cfg.Filter.wantsRequest(s, l)
	if f.cfg.Show != nil && w.wanted {
		switch {
		case !f.cfg.Filter.judgesReplies(), l.Odd && f.cfg.Filter.Slower == 0:
			f.show(l, s.reveals && (frame.Command == protocol.KVEvent || frame.Command == protocol.CfEvent))
		case expects:
			w.kept = keep(l, f.shown(l, false))
		}
	}
	if f.cfg.Show != nil && !f.cfg.Secrets && hide.Reveals(frame.Command, frame.Body) {
		w.reveals = true
		s.reveals = s.reveals || frame.Command == protocol.KVWatch || frame.Command == protocol.CfWatch
	}
	if expects {
		f.await(c, s, frame.From, w)
	}
}

// reads reports whether a request has to be parsed.
func (f *Follower) reads(frame *stream.Frame, push bool) bool {
	switch frame.Command {
	case protocol.Whoami, protocol.EvNotify, protocol.AppRunLog, protocol.Testing:
		return true
	}
	return f.subjects || (push && f.cfg.Summary != nil)
}

// oddRequest adds a remark on what a server will reject.
func (f *Follower) oddRequest(frame *stream.Frame) {
	l := &f.line
	if frame.From != stream.FromClient {
		return
	}
	switch {
	case frame.BodyLen > protocol.BodyLimit(frame.Command, true):
		l.Remark, l.Odd = fmt.Sprintf("longer than the limit of %d bytes: the server closes", protocol.BodyLimit(frame.Command, true)), true
	case protocol.Lookup(frame.Command) == nil:
		l.Remark, l.Odd = "no such command: the server ignores it", true
	}
}

// await remembers a request until its reply comes.
func (f *Follower) await(c *stream.Conn, s *speaker, from stream.Dir, w waiting) {
	q := &s.waits[from]
	*q = append(*q, w)
	f.waiting++
	if len(*q) <= maxWaiting && f.waiting <= maxWaitingAll {
		return
	}
	old := (*q)[:(len(*q)+1)/2] // more than one at once, since the others have to move
	for i := range old {
		f.sum.unanswered(c, s, &old[i])
	}
	s.dropped[from] += int64(len(old))
	f.waiting -= len(old)
	*q = slices.Delete(*q, 0, len(old))
}

// reply handles a reply and finds its request: the oldest with the same command and
// sequence, because replies come in the order of requests.
func (f *Follower) reply(c *stream.Conn, s *speaker, frame *stream.Frame) {
	l := &f.line
	l.Code, l.HasCode = codeOf(frame.Body)
	q := &s.waits[frame.From.Other()]
	var w waiting
	if i := slices.IndexFunc(*q, func(w waiting) bool { return w.seq == frame.Seq && w.cmd == frame.Command.Request() }); i >= 0 {
		w = q.take(i)
		f.waiting--
		l.Answered = true
		l.Latency = max(0, time.Duration(frame.At-w.at))
		l.Subject = w.subject
		f.learn(s, frame, &w)
		if s.gaps[frame.From] != 0 {
			defer f.passed(c, s, frame.From, i, frame.At) // it needs f.line, too
		}
	} else {
		l.Remark = "its request was not seen"
	}
	l.label(s)
	f.sum.reply(l)
	if f.cfg.Show != nil && f.cfg.Filter.wantsReply(s, l, &w) {
		f.showKept(&w)
		f.show(l, w.reveals)
	}
}

// learn remembers what is needed later from a reply.
func (f *Follower) learn(s *speaker, frame *stream.Frame, w *waiting) {
	if w.cmd != protocol.Whoami || f.line.Code != 0 || !f.parse(frame) {
		return
	}
	if id, ok := f.request.Int("svrid"); ok {
		s.id, s.identified, s.name = id, true, cmp.Or(w.name, s.name)
	}
}

// parse parses a body; it returns false if the body is not whole or not JSON.
func (f *Follower) parse(frame *stream.Frame) bool {
	if !frame.Whole() {
		return false
	}
	if frame.Command.IsState() {
		return f.request.ParseTailed(frame.Body) == nil
	}
	return f.request.Parse(frame.Body) == nil
}

// codeOf finds a reply's code.
func codeOf(body []byte) (int32, bool) {
	if len(body) == 0 || body[0] != '{' {
		return 0, false
	}
	code := gjson.GetBytes(body, "code")
	return int32(code.Int()), code.Type == gjson.Number
}

// show shows a line with a frame, which reveals says has what a request has asked to have revealed.
func (f *Follower) show(l *Line, reveals bool) {
	l.Body = f.shown(l, reveals)
	if !f.cfg.Secrets {
		l.Subject = hide.Text(l.Subject)
	}
	f.cfg.Show(l)
}

// shown is what is shown of the body of a line's frame.
func (f *Follower) shown(l *Line, reveals bool) []byte {
	if f.cfg.Secrets {
		return l.Frame.Body
	}
	return hide.Body(l.Frame.Command, l.Frame.Body, l.Frame.Whole(), reveals)
}

// keep copies a line for later, with up to maxKeptText of what is shown of its body.
func keep(l *Line, shown []byte) *Line {
	kept, frame := *l, *l.Frame
	if len(frame.Body) > maxKeptText {
		frame.Body = frame.Body[:maxKeptText:maxKeptText]
	}
	frame.Body = append([]byte(nil), frame.Body...)
	kept.Frame, kept.Body = &frame, append([]byte(nil), shown[:min(len(shown), maxKeptText)]...)
	return &kept
}

func (f *Follower) showKept(w *waiting) {
	if w.kept != nil && f.cfg.Show != nil {
		f.cfg.Show(w.kept)
		w.kept = nil
	}
}

// expectation says whether a request expects an answer, and whether it is a push.
func expectation(frame *stream.Frame) (expects, push bool) {
	row := protocol.Lookup(frame.Command)
	if row == nil {
		return false, false
	}
	switch frame.Command {
	case protocol.KVEvent, protocol.KVGrant:
		return false, true
	case protocol.EvNotify:
		return frame.From == stream.FromClient, frame.From == stream.FromServer
	case protocol.AppRunLog, protocol.Testing:
		return false, false // some are answered, which only the body tells
	}
	return row.Role == protocol.Served || row.Role == protocol.Reserved || row.Role == protocol.Routed, false
}
