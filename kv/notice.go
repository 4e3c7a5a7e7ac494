package kv

// NoticeKind says what a Notice is.
type NoticeKind uint8

// The kinds of notices.
const (
	Changed NoticeKind = iota + 1 // Events happened, up to and with Revision
	State                         // Events are a piece of the state at Revision, as puts
	Synced                        // the state at Revision is complete
	Resync                        // changes were missed for good: forget everything, the state follows
)

var noticeNames = [...]string{Changed: "changed", State: "state", Synced: "synced", Resync: "resync"}

func (k NoticeKind) String() string {
	if int(k) < len(noticeNames) && noticeNames[k] != "" {
		return noticeNames[k]
	}
	return "unknown"
}

// Notice is one thing a watcher is told. Its events are shared and never change.
type Notice struct {
	Kind NoticeKind
	// Revision is where the receiver stands after this notice and, if it is a
	// Changed with More, those that continue it: watching from there goes on without
	// a gap. It may be above that of the last event, if what came then does not
	// match.
	Revision Revision
	Events   []Event
	// More says that the last revision in Events goes on in the next notice.
	More bool
}
