package protocol

import (
	"slices"
	"strconv"

	"confcenter/internal/jsontext"
)

// Values of EVNOTIFY's member notify.
const (
	NotifyConfigChange = "cfg_change"
	NotifyCloseLink    = "closelink"
)

// Change is the EVNOTIFY that a server pushes for a config. It never has a member `from`,
// since both SDKs answer messages that have one.
type Change struct {
	// File is the name as subscribed, or the name of a base.
	File  string
	Mtime int32
	// Path is the subscription's, empty for the whole document.
	Path string
}

// AppendChange appends the push's body.
func AppendChange(dst []byte, c Change) []byte {
	dst = append(dst, `{"notify":"cfg_change"`...)
	dst = appendText(dst, "filename", c.File)
	dst = appendInt(dst, "mtime", c.Mtime)
	if c.Path != "" {
		dst = appendText(dst, "key_pattern", c.Path)
	}
	return append(dst, '}')
}

// ParseChange reads an EVNOTIFY. ok is false if it is about something else.
func ParseChange(body []byte) (c Change, ok bool, err error) {
	var r Request
	if err := r.Parse(body); err != nil {
		return Change{}, false, err
	}
	if string(r.Text("notify")) != NotifyConfigChange {
		return Change{}, false, nil
	}
	mtime, ok := r.Int("mtime")
	if !ok {
		return Change{}, false, &ReplyError{Member: "mtime"}
	}
	return Change{File: string(r.Text("filename")), Mtime: mtime, Path: string(r.Text("key_pattern"))}, true, nil
}

// AppendNotifyResult appends the server's answer to an EVNOTIFY that was meant
// for itself.
func AppendNotifyResult(dst []byte, code int, notify []byte) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", int32(code))
	return append(appendText(dst, "notify_r", notify), '}')
}

// routeMembers are the members that a router sets; the sender's are dropped, so that
// no client can impersonate another.
var routeMembers = []string{"from", "jump", "path"}

// AppendRouted appends r's body for the target: compact, with from, jump and path of this
// hop.
func AppendRouted(dst []byte, r *Request, from, server int32) []byte {
	dst = append(dst, '{')
	for _, m := range r.members {
		if slices.Contains(routeMembers, string(m.Key)) {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendQuote(dst, m.Key), ':')
		dst = jsontext.AppendCompact(dst, m.Raw)
	}
	dst = appendInt(dst, "from", from)
	dst = appendInt(dst, "jump", 1)
	dst = append(appendMember(dst, "path"), '"')
	dst = append(strconv.AppendInt(dst, int64(from), 10), '>')
	dst = append(strconv.AppendInt(dst, int64(server), 10), '>')
	return append(dst, '"', '}')
}

// AppendRouteError appends the answer to a request that could not be routed.
func AppendRouteError(dst []byte, server, sender int32, path []byte) []byte {
	dst = append(dst, `{"code":-1`...)
	dst = appendInt(dst, "from", server)
	dst = appendInt(dst, "to", sender)
	dst = appendText(dst, "refer_path", path)
	dst = append(appendMember(dst, "act_path"), '"')
	dst = append(strconv.AppendInt(dst, int64(server), 10), `>"`...)
	return append(appendText(dst, "error", "RouteExException"), '}')
}
