package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// loose members are compared only by presence and type: times, numbers that the server
// chooses, and texts for people.
var loose = map[string]bool{
	"mtime": true, "updated": true, "expires": true, "left": true, "atime": true, "begin_time": true, "end_time": true,
	"svrid": true, "from": true, "to": true, "lease": true, "fence": true, "rev": true, "create": true, "mod": true, "floor": true, "watch": true,
	"epoch": true, "desc": true, "_ip": true, "clisock": true, "fd": true, "path": true, "act_path": true, "refer_path": true, "error": true,
}

// onlyCode lists the replies of which only the code is compared: logs and counters.
var onlyCode = []protocol.Command{protocol.GetLogr, protocol.KVStat}

// unordered lists the replies whose data has no order.
var unordered = []protocol.Command{protocol.GetCli, protocol.GetWarn, protocol.Hungup}

// fieldObjects are the members of player storage whose members are fields.
var fieldObjects = []string{"fields", "bytes", "values", "versions"}

// compare returns where and how the body of a reply or push differs from the one in the
// capture, "" if it means the same.
func compare(cmd protocol.Command, old, now []byte, exact bool) string {
	if bytes.Equal(old, now) {
		return ""
	}
	was, wasTail, ok := decode(cmd, old)
	is, isTail, isOK := decode(cmd, now)
	if exact || !ok || !isOK {
		return fmt.Sprintf("the body is %s, in the capture %s", shown(now), shown(old))
	}
	if slices.Contains(onlyCode, cmd.Request()) {
		was, is = member(was, "code"), member(is, "code")
	}
	names := cmd.Request() == protocol.GetCfgName && member(was, "code").Type != gjson.Number // its members are names of files
	c := comparison{members: !names, pairs: names, fields: cmd.IsStorage()}
	if slices.Contains(unordered, cmd.Request()) {
		c.unordered = "data"
	}
	if where := c.values("", was, is); where != "" {
		return where
	}
	if !bytes.Equal(wasTail, isTail) {
		return fmt.Sprintf("the octets behind the JSON are %s, in the capture %s", shown(isTail), shown(wasTail))
	}
	return ""
}

func member(v gjson.Result, name string) gjson.Result {
	if !v.IsObject() { // a string may look like one
		return gjson.Result{}
	}
	return v.Get(name)
}

func decode(cmd protocol.Command, body []byte) (v gjson.Result, tail []byte, ok bool) {
	var r protocol.Request
	if parse(cmd, &r, body) != nil {
		return v, nil, false
	}
	v = gjson.ParseBytes(r.Body())
	return v, r.Tail(), v.Exists()
}

// comparison walks two values in step.
type comparison struct {
	members bool // those in loose are compared loosely
	pairs   bool // the second of two numbers is a version, as GETCFGNAME has them
	fields  bool // objects have the names of fields as members, as those of player storage
	numbers bool // all members are compared loosely
	// unordered is the member of the body whose elements have no order.
	unordered string
}

// values returns where and how is differs from was.
func (c *comparison) values(where string, was, is gjson.Result) string {
	switch {
	case was.IsObject() && is.IsObject():
		return c.objects(where, was.Map(), is.Map())
	case was.IsArray() && is.IsArray():
		return c.arrays(where, was.Array(), is.Array())
	case was.Type == is.Type && was.Type != gjson.JSON && was.Str == is.Str && (was.Type == gjson.String || was.Raw == is.Raw):
		return ""
	}
	return fmt.Sprintf("%s is %s, in the capture %s", cmp.Or(where, "the body"), text(is), text(was))
}

func (c *comparison) objects(where string, was, is map[string]gjson.Result) string {
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := strings.TrimPrefix(where+"."+name, ".")
		w, inWas := was[name]
		i, inIs := is[name]
		switch {
		case !inWas:
			return fmt.Sprintf("%s is %s, not there in the capture", at, text(i))
		case !inIs:
			return fmt.Sprintf("%s is not there, in the capture %s", at, text(w))
		case (c.numbers || c.members && loose[name]) && sameType(w, i):
			continue
		}
		// The contents of documents and values are compared exactly.
		deeper := *c
		switch {
		case name == "contents" || name == "value":
			deeper.members = false
		case c.fields && slices.Contains(fieldObjects, name):
			deeper = comparison{numbers: name == "versions"}
		}
		if found := deeper.values(at, w, i); found != "" {
			return found
		}
	}
	return ""
}

func (c *comparison) arrays(where string, was, is []gjson.Result) string {
	if len(was) != len(is) {
		return fmt.Sprintf("%s has %d elements, in the capture %d", cmp.Or(where, "the body"), len(is), len(was))
	}
	if where == c.unordered {
		was, is = sorted(was), sorted(is)
	}
	if c.pairs && len(was) == 2 && sameType(was[1], is[1]) {
		was, is = was[:1], is[:1]
	}
	for i := range was {
		if found := c.values(fmt.Sprintf("%s[%d]", where, i), was[i], is[i]); found != "" {
			return found
		}
	}
	return ""
}

// sameType treats 0 as a type of its own, because it stands for "none".
func sameType(a, b gjson.Result) bool {
	if a.Type == gjson.Number && b.Type == gjson.Number {
		return (a.Raw == "0") == (b.Raw == "0")
	}
	return jsontext.KindOf([]byte(a.Raw)) == jsontext.KindOf([]byte(b.Raw))
}

// sorted orders records by the members that are compared.
func sorted(list []gjson.Result) []gjson.Result {
	return slices.SortedFunc(slices.Values(list), func(a, b gjson.Result) int { return strings.Compare(strict(a), strict(b)) })
}

// strict is a record as text without its loose members.
func strict(v gjson.Result) string {
	if !v.IsObject() {
		return v.Raw
	}
	var kept strings.Builder
	members := v.Map()
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !loose[name] {
			fmt.Fprintf(&kept, "%q:%s,", name, members[name].Raw)
		}
	}
	return kept.String()
}

func text(v gjson.Result) string { return shown(jsontext.AppendCompact(nil, []byte(v.Raw))) }

// maxShown is how much of a value is shown in a difference, in bytes.
const maxShown = 200

func shown(b []byte) string {
	if _, err := jsontext.Check(b); err == nil && len(b) <= maxShown {
		return string(b)
	}
	if len(b) > maxShown {
		return strconv.QuoteToGraphic(string(b[:maxShown])) + "…"
	}
	return strconv.QuoteToGraphic(string(b))
}
