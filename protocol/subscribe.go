package protocol

// Subscription is BOOKCFGCHANGE's request. Everything after Inherit is confcenter's own;
// CppCloud's clients do not use it.
type Subscription struct {
	// File is the name to follow; pushes repeat it as it is written here.
	File string
	// Inherit follows the bases too.
	Inherit bool
	// Mtime, if HasMtime, is the version that the client has. A greater one is pushed
	// right after the reply.
	Mtime    int32
	HasMtime bool
	// Path limits the subscription to changes of a part of the document. Empty means all.
	Path string
	// MissingOK makes it a success to subscribe to a file that does not exist yet. Without
	// it the answer is a refusal, although the subscription is made.
	MissingOK bool
	// Unsubscribe ends the subscription of File and Path instead.
	Unsubscribe bool
}

// Subscription reads BOOKCFGCHANGE's request.
func (r *Request) Subscription() Subscription {
	s := Subscription{
		File:        string(r.Text("file_pattern")),
		Path:        string(r.Text("key_pattern")),
		Inherit:     r.Flag("incbase") || r.Flag("inbase"),
		MissingOK:   r.Flag("missing_ok"),
		Unsubscribe: r.Flag("unsubscribe"),
	}
	s.Mtime, s.HasMtime = r.Int("mtime")
	return s
}

// AppendSubscription appends BOOKCFGCHANGE's request.
func AppendSubscription(dst []byte, s Subscription) []byte {
	dst = append(dst, '{')
	dst = appendText(dst, "file_pattern", s.File)
	if s.Path != "" {
		dst = appendText(dst, "key_pattern", s.Path)
	}
	if s.Inherit {
		dst = appendInt(dst, "incbase", 1)
	}
	if s.HasMtime {
		dst = appendInt(dst, "mtime", s.Mtime)
	}
	if s.MissingOK {
		dst = appendInt(dst, "missing_ok", 1)
	}
	if s.Unsubscribe {
		dst = appendInt(dst, "unsubscribe", 1)
	}
	return append(dst, '}')
}

// Subscribed is BOOKCFGCHANGE's reply.
type Subscribed struct {
	Result
	// Mtime is the version now served, 0 for a file that does not exist.
	Mtime int32
}

// AppendSubscribed appends the reply to a BOOKCFGCHANGE that succeeded.
func AppendSubscribed(dst []byte, mtime int32, desc string) []byte {
	dst = append(dst, `{"code":0`...)
	dst = appendText(dst, "desc", desc)
	return append(appendInt(dst, "mtime", mtime), '}')
}

// ParseSubscribed reads BOOKCFGCHANGE's reply.
func ParseSubscribed(body []byte) (Subscribed, error) {
	u, err := ParseConfigUpdated(body) // of the same form
	return Subscribed(u), err
}
