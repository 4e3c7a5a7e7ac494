package talk

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"confcenter/protocol"
	"confcenter/tools/ccdump/stream"
)

// Filter selects lines. The zero value takes all; otherwise every field that is set must
// hold, except that either of File and Key suffices. A reply is about what its request
// is about.
type Filter struct {
	// Commands are the requests' ids and include their replies.
	Commands []protocol.Command
	// Client is a svrname, a pattern for one (app*), a svrid, or an address with or
	// without the port.
	Client string
	// File is a document's name or a pattern for it; .json may be left off.
	File string
	// Key is NAMESPACE/KEY or a pattern for it.
	Key string
	// Errors selects only refusals and oddities.
	Errors bool
	// Slower selects only requests that took longer, and their replies.
	Slower time.Duration
}

func (f *Filter) needsSubject() bool { return f.File != "" || f.Key != "" }

// judgesReplies reports whether requests must wait for their replies before they are
// shown.
func (f *Filter) judgesReplies() bool { return f.Errors || f.Slower > 0 }

func (f *Filter) wantsRequest(s *speaker, l *Line) bool {
	expects, _ := expectation(l.Frame) // what nothing answers is neither slow nor refused
	return f.wantsCommand(l.Frame.Command) && f.wantsClient(s, l.Conn) && f.wantsSubject(l.Subject) && (!f.judgesReplies() || expects || l.Odd)
}

func (f *Filter) wantsReply(s *speaker, l *Line, w *waiting) bool {
	if l.Answered {
		// The request has decided what it can.
		if !w.wanted && !(l.Frame.Command == protocol.Whoami.Reply() && f.wantsClient(s, l.Conn) && f.wantsCommand(l.Frame.Command) && f.wantsSubject(l.Subject)) {
			return false
		}
	} else if !f.wantsCommand(l.Frame.Command) || !f.wantsClient(s, l.Conn) || f.needsSubject() {
		return false
	}
	if f.Errors && !l.Odd && (!l.HasCode || l.Code == 0) {
		return false
	}
	return f.Slower == 0 || (l.Answered && l.Latency > f.Slower)
}

// wantsRemark leaves out ordinary remarks while the user is looking for something.
func (f *Filter) wantsRemark(s *speaker, c *stream.Conn, odd bool) bool {
	if !f.wantsClient(s, c) {
		return false
	}
	return odd || (len(f.Commands) == 0 && !f.needsSubject() && !f.judgesReplies())
}

func (f *Filter) wantsCommand(c protocol.Command) bool {
	return len(f.Commands) == 0 || slices.Contains(f.Commands, c.Request())
}

func (f *Filter) wantsClient(s *speaker, c *stream.Conn) bool {
	if f.Client == "" || matches(f.Client, s.name) {
		return true
	}
	if s.identified && f.Client == strconv.Itoa(int(s.id)) {
		return true
	}
	addr := c.Endpoint(stream.FromClient)
	return f.Client == addr.String() || f.Client == addr.Addr().String()
}

func (f *Filter) wantsSubject(subject string) bool {
	if f.File == "" && f.Key == "" {
		return true
	}
	for _, one := range strings.Fields(subject) {
		if f.File != "" && (matches(f.File, one) || matches(f.File+".json", one) || matches(f.File, one+".json")) {
			return true
		}
		if f.Key != "" && matches(f.Key, one) {
			return true
		}
	}
	// Keys may have blanks in them.
	return f.Key != "" && matches(f.Key, subject)
}

func matches(pattern, text string) bool {
	if pattern == text {
		return text != ""
	}
	ok, err := path.Match(pattern, text)
	return ok && err == nil && text != ""
}
