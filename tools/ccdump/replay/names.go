package replay

import (
	"cmp"
	"slices"
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
	t := translation{n, cmd, conn, &r}
	return append(t.container(dst, r.Body(), ""), r.Tail()...)
}

// translation is that of one request, on a connection.
type translation struct {
	*names
	cmd     protocol.Command
	conn    string
	request *protocol.Request
}

// container translates an object or array, and those within it. If all is not empty, it is the kind
// of all numbers in it.
func (t *translation) container(dst, text []byte, all string) []byte {
	it := jsontext.Iterate(text)
	brackets, object := "[]", it.Container() == jsontext.Object
	if object {
		brackets = "{}"
	}
	dst = append(dst, brackets[0])
	for first := true; it.Next(); first = false {
		if !first {
			dst = append(dst, ',')
		}
		key := ""
		if object {
			key = string(it.Key())
			dst = append(append(dst, it.KeyToken()...), ':')
		}
		kind := cmp.Or(all, kindOf(t.cmd, key))
		switch m := (jsontext.Member{Raw: it.Raw(), Kind: it.Kind()}); {
		case kind != "" && isNumber(m):
			old := number(m.Raw)
			now := cmp.Or(t.of[name{kind, scopeOf(kind, t.conn, t.request), old}], old)
			dst = append(dst, strings.Replace(string(m.Raw), old, now, 1)...) // in quotes, if it was
		case t.cmd.IsStorage() && key == "expect" && m.Kind == jsontext.Object:
			dst = t.container(dst, m.Raw, kindField)
		case t.cmd.IsState() && (key == "" || nested(key)) && (m.Kind == jsontext.Object || m.Kind == jsontext.Array):
			dst = t.container(dst, m.Raw, "")
		default:
			dst = append(dst, m.Raw...)
		}
	}
	return append(dst, brackets[1])
}

// nested lists the members whose objects contain numbers of the store. Values never do.
func nested(key string) bool {
	return slices.Contains([]string{"if_fence", "if", "then", "else"}, key)
}
