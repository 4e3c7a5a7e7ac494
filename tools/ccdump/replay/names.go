package replay

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

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
	kindField    = "field" // version of a field
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
	if cmd.IsStorage() {
		if member == "rev" {
			return kindRevision
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
	if cmd.IsStorage() {
		n.learnVersions(gjson.ParseBytes(old), gjson.ParseBytes(now))
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

// learnVersions learns from the versions in a reply of player storage, and of what was before.
// 0 is for absent everywhere.
func (n *names) learnVersions(was, is gjson.Result) {
	for _, path := range []string{"versions", "prev.versions"} {
		now := is.Get(path).Map()
		for field, version := range was.Get(path).Map() {
			if other, ok := now[field]; ok && version.Raw != "0" && other.Raw != "0" {
				n.learn(kindField, "", []byte(version.Raw), []byte(other.Raw))
			}
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
	dst = n.container(dst, cmd, conn, &r, r.Body())
	return append(dst, r.Tail()...)
}

// container translates an object or array, and those within it.
func (n *names) container(dst []byte, cmd protocol.Command, conn string, r *protocol.Request, text []byte) []byte {
	it := jsontext.Iterate(text)
	brackets := "[]"
	if it.Container() == jsontext.Object {
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	for first := true; it.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		key := ""
		if it.Container() == jsontext.Object {
			key = string(it.Key())
			dst = append(append(dst, it.KeyToken()...), ':')
		}
		dst = n.value(dst, cmd, conn, r, key, jsontext.Member{Raw: it.Raw(), Kind: it.Kind()})
	}
	return append(dst, brackets[1])
}

// value translates the value of a member, or with key "" an element of an array.
func (n *names) value(dst []byte, cmd protocol.Command, conn string, r *protocol.Request, key string, m jsontext.Member) []byte {
	if cmd.IsStorage() && key == "expect" && m.Kind == jsontext.Object {
		return n.versions(dst, m.Raw)
	}
	if kind := kindOf(cmd, key); kind != "" && isNumber(m) {
		if now, ok := n.of[name{kind, scopeOf(kind, conn, r), number(m.Raw)}]; ok {
			return append(dst, strings.Replace(string(m.Raw), number(m.Raw), now, 1)...) // in quotes, if it was
		}
	} else if (m.Kind == jsontext.Object || m.Kind == jsontext.Array) && cmd.IsState() && (key == "" || nested(key)) {
		return n.container(dst, cmd, conn, r, m.Raw)
	}
	return append(dst, m.Raw...)
}

// versions translates an object of versions by the names of fields.
func (n *names) versions(dst, text []byte) []byte {
	dst = append(dst, '{')
	it := jsontext.Iterate(text)
	for first := true; it.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		now, ok := n.of[name{kindField, "", string(it.Raw())}]
		if !ok {
			now = string(it.Raw())
		}
		dst = append(append(append(dst, it.KeyToken()...), ':'), now...)
	}
	return append(dst, '}')
}

// nested lists the members whose objects contain numbers of the store. Values never do.
func nested(key string) bool {
	switch key {
	case "if_fence", "if", "then", "else":
		return true
	}
	return false
}
