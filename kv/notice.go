package kv

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The kinds of notices.
const (
	Changed NoticeKind = iota + 1 // Events happened, up to and including Revision
	State                         // Events are a piece of the state at Revision, as puts
	Synced                        // the state at Revision is complete
	Resync                        // changes are lost for good: forget everything, the state follows
)

var noticeNames = [...]string{Changed: "changed", State: "state", Synced: "synced", Resync: "resync"}

func (k NoticeKind) String() string {
	if int(k) < len(noticeNames) && noticeNames[k] != "" {
		return noticeNames[k]
	}
	return "unknown"
}

// Notice is one message to a watcher. Its events are shared and immutable.
type Notice struct {
	Kind NoticeKind
	// Revision is the receiver's position after this notice and, if it is a Changed
	// with More, after those that continue it: watching from there continues without a
	// gap. It may be above that of the last event if later changes do not match.
	Revision Revision
	Events   []Event
	// More says that the last revision in Events continues in the next notice.
	More bool
}
