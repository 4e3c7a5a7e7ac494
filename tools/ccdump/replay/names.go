package replay

import (
	"cmp"
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// names translates numbers that servers choose: 2001 in the capture may be 2003 now.
type names struct {
	of map[name]string
}

// name is a number in the capture. Its scope separates what is numbered separately: the
// file of a version, the connection of a watch.
type name struct {
	kind, scope, old string
}

// maxNames bounds how many numbers are remembered.
const maxNames = 1 << 18

// The kinds of numbers.
const (
	kindClient   = "client"
	kindRevision = "revision" // leases and fences are revisions, too
	kindVersion  = "version"  // mtime of a file
	kindWatch    = "watch"
)

// kindOf says what a member of a request or reply names, "" if it is not translated.
func kindOf(cmd protocol.Command, member string) string {
	if cmd.IsState() {
		switch member {
		case "rev", "min_rev", "if_mod", "before", "from", "lease", "fence", "create", "mod", "floor":
			return kindRevision
		case "watch":
			return kindWatch
		}
		return ""
	}
	switch member {
	case "svrid", "to", "from":
		return kindClient
	case "gt_mtime", "if_mtime":
		return kindVersion
	case "mtime":
		if cmd.Request() != protocol.SetConfig || cmd.IsReply() {
			return kindVersion
		}
	}
	return ""
}

func (n *names) learn(kind, scope string, old, now []byte) {
	if n.of == nil {
		n.of = map[name]string{}
	}
	if len(n.of) < maxNames {
		n.of[name{kind, scope, number(old)}] = number(now)
	}
}

// number strips the quotes that a number may have.
func number(raw []byte) string { return strings.Trim(string(raw), `"`) }

// scopeOf is the scope of a number in a body.
func scopeOf(kind, conn string, r *protocol.Request) string {
	switch kind {
	case kindVersion:
		file := cmp.Or(string(r.Text("file_pattern")), string(r.Text("filename")))
		return strings.TrimSuffix(file, ".json")
	case kindWatch:
		return conn
	}
	return ""
}

// learnFrom learns which number stands for which, from a captured reply or push and the
// one that came in its place.
func (n *names) learnFrom(cmd protocol.Command, conn string, about *protocol.Request, old, now []byte) {
	var was, is protocol.Request
	if parse(cmd, &was, old) != nil || parse(cmd, &is, now) != nil {
		return
	}
	for _, m := range was.Members() {
		kind := kindOf(cmd, string(m.Key))
		if kind == "" {
			continue
		}
		if other, ok := is.Member(string(m.Key)); ok && isNumber(m) && isNumber(other) {
			n.learn(kind, scopeOf(kind, conn, about), m.Raw, other.Raw)
		}
	}
}

func isNumber(m jsontext.Member) bool {
	if m.Kind != jsontext.Number && m.Kind != jsontext.String {
		return false
	}
	_, err := strconv.ParseInt(number(m.Raw), 10, 64)
	return err == nil
}

// parse parses a body of either family.
func parse(cmd protocol.Command, r *protocol.Request, body []byte) error {
	if cmd.IsState() {
		return r.ParseTailed(body)
	}
	return r.Parse(body)
}

// translate appends the body of a request with its numbers replaced by the server's. A
// body that is not an object stays as it is.
func (n *names) translate(dst []byte, cmd protocol.Command, conn string, body []byte) []byte {
	var r protocol.Request
	if len(n.of) == 0 || parse(cmd, &r, body) != nil || !r.IsObject() {
		return append(dst, body...)
	}
	dst = n.object(dst, cmd, conn, &r, r.Body())
	return append(dst, r.Tail()...)
}

// object translates an object and the objects within it.
func (n *names) object(dst []byte, cmd protocol.Command, conn string, r *protocol.Request, text []byte) []byte {
	dst = append(dst, '{')
	first := true
	jsontext.EachMember(text, func(key, raw []byte, kind jsontext.Kind) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jsontext.AppendQuote(dst, key), ':')
		dst = n.value(dst, cmd, conn, r, string(key), jsontext.Member{Key: key, Raw: raw, Kind: kind})
		return true
	})
	return append(dst, '}')
}

func (n *names) value(dst []byte, cmd protocol.Command, conn string, r *protocol.Request, key string, m jsontext.Member) []byte {
	if kind := kindOf(cmd, key); kind != "" && isNumber(m) {
		if now, ok := n.of[name{kind, scopeOf(kind, conn, r), number(m.Raw)}]; ok {
			if m.Kind == jsontext.String {
				return append(append(append(dst, '"'), now...), '"')
			}
			return append(dst, now...)
		}
		return append(dst, m.Raw...)
	}
	switch {
	case !cmd.IsState() || !nested(key):
		return append(dst, m.Raw...)
	case m.Kind == jsontext.Object:
		return n.object(dst, cmd, conn, r, m.Raw)
	case m.Kind == jsontext.Array:
		dst = append(dst, '[')
		first := true
		jsontext.EachElement(m.Raw, func(raw []byte, kind jsontext.Kind) bool {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if kind == jsontext.Object {
				dst = n.object(dst, cmd, conn, r, raw)
			} else {
				dst = append(dst, raw...)
			}
			return true
		})
		return append(dst, ']')
	}
	return append(dst, m.Raw...)
}

// nested lists the members whose objects contain numbers of the store. Values never do.
func nested(key string) bool {
	switch key {
	case "if_fence", "if", "then", "else":
		return true
	}
	return false
}
