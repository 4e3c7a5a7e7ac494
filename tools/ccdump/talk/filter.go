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

// Filter chooses lines. The zero value takes all; otherwise all that is set has to
// hold, but of File and Key either is enough. A reply is about what its request is
// about.
type Filter struct {
	// Commands are the requests' ids; their replies are meant too.
	Commands []protocol.Command
	// Client is a svrname, a pattern of one (app*), a svrid, or an address with or
	// without the port.
	Client string
	// File is a document's name or a pattern of it; .json may be left off.
	File string
	// Key is NAMESPACE/KEY or a pattern of it.
	Key string
	// Errors wants only refusals and oddities.
	Errors bool
	// Slower wants only requests that took longer, and their replies.
	Slower time.Duration
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) error {
	_, err := path.Match(pattern, "")
	return err
}

func (f *Filter) needsSubject() bool { return f.File != "" || f.Key != "" }

// judgesReplies says that a request cannot be shown before its reply is there.
func (f *Filter) judgesReplies() bool { return f.Errors || f.Slower > 0 }

func (f *Filter) wantsRequest(s *speaker, l *Line) bool {
	return f.wantsCommand(l.Frame.Command) && f.wantsClient(s, l.Conn) && f.wantsSubject(l.Subject) && (!f.judgesReplies() || !push(l) || l.Odd)
}

// push says that nothing will answer l, so that it is neither slow nor refused.
func push(l *Line) bool {
	expects, _ := expectation(l.Frame)
	return !expects
}

func (f *Filter) wantsReply(s *speaker, l *Line, w *waiting) bool {
	if l.Answered {
		// What can be told by the request was.
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

// wantsRemark leaves out what says nothing to somebody who looks for something.
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
