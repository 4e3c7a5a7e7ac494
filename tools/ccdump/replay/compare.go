package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// loose members are compared by their presence and type only: times, numbers that the
// server chooses, and texts for people.
var loose = map[string]bool{
	"mtime": true, "updated": true, "expires": true, "left": true, "atime": true, "begin_time": true, "end_time": true,
	"svrid": true, "from": true, "to": true, "lease": true, "fence": true, "rev": true, "create": true, "mod": true, "floor": true, "watch": true,
	"epoch": true, "desc": true, "_ip": true, "clisock": true, "fd": true, "path": true, "act_path": true, "refer_path": true, "error": true,
}

// onlyCode are the replies of which only the code is compared: logs and counters.
var onlyCode = []protocol.Command{protocol.GetLogr, protocol.KVStat}

// unordered are the replies whose data has no order.
var unordered = []protocol.Command{protocol.GetCli, protocol.GetWarn, protocol.Hungup}

// compare returns where the body of a reply or push is another than in the capture;
// "" if it means the same.
func compare(cmd protocol.Command, old, now []byte, exact bool) string {
	if bytes.Equal(old, now) {
		return ""
	}
	if exact {
		return fmt.Sprintf("the body is %s, in the capture %s", shown(now), shown(old))
	}
	was, wasTail, ok := decode(cmd, old)
	is, isTail, isOK := decode(cmd, now)
	if !ok || !isOK {
		return fmt.Sprintf("the body is %s, in the capture %s", shown(now), shown(old))
	}
	if slices.Contains(onlyCode, cmd.Request()) {
		was, is = member(was, "code"), member(is, "code")
	}
	_, isResult := member(was, "code").(json.Number)
	names := cmd.Request() == protocol.GetCfgName && !isResult // its members are names of files
	c := comparison{members: !names, pairs: names}
	if slices.Contains(unordered, cmd.Request()) {
		sortData(was)
		sortData(is)
	}
	if where := c.values("", was, is); where != "" {
		return where
	}
	if !bytes.Equal(wasTail, isTail) {
		return fmt.Sprintf("the octets behind the JSON are %s, in the capture %s", shown(isTail), shown(wasTail))
	}
	return ""
}

func member(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

// decode makes values of a body; numbers stay text.
func decode(cmd protocol.Command, body []byte) (v any, tail []byte, ok bool) {
	var r protocol.Request
	if parse(cmd, &r, body) != nil {
		return nil, nil, false
	}
	d := json.NewDecoder(bytes.NewReader(r.Body()))
	d.UseNumber()
	return v, r.Tail(), d.Decode(&v) == nil
}

// comparison walks through two values.
type comparison struct {
	members bool // those in loose are compared loosely
	pairs   bool // the second of two numbers is a version, as GETCFGNAME has them
}

// values returns where and how is differs from was.
func (c *comparison) values(where string, was, is any) string {
	switch w := was.(type) {
	case map[string]any:
		if i, ok := is.(map[string]any); ok {
			return c.objects(where, w, i)
		}
	case []any:
		if i, ok := is.([]any); ok {
			return c.arrays(where, w, i)
		}
	default:
		if was == is {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, in the capture %s", place(where), text(is), text(was))
}

func (c *comparison) objects(where string, was, is map[string]any) string {
	for _, name := range sortedNames(was, is) {
		at := strings.TrimPrefix(where+"."+name, ".")
		w, inWas := was[name]
		i, inIs := is[name]
		switch {
		case !inWas:
			return fmt.Sprintf("%s is %s, not there in the capture", at, text(i))
		case !inIs:
			return fmt.Sprintf("%s is not there, in the capture %s", at, text(w))
		case c.members && loose[name] && sameType(w, i):
			continue
		}
		// What a document or value contains is compared exactly.
		deeper := *c
		if name == "contents" || name == "value" {
			deeper.members = false
		}
		if found := deeper.values(at, w, i); found != "" {
			return found
		}
	}
	return ""
}

func (c *comparison) arrays(where string, was, is []any) string {
	if len(was) != len(is) {
		return fmt.Sprintf("%s has %d elements, in the capture %d", place(where), len(is), len(was))
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

// sameType takes 0 for a type of its own: it says that there is none.
func sameType(a, b any) bool {
	an, aIsNumber := a.(json.Number)
	bn, bIsNumber := b.(json.Number)
	if aIsNumber && bIsNumber {
		return (an == "0") == (bn == "0")
	}
	return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b)
}

func sortedNames(a, b map[string]any) []string {
	var names []string
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, twice := a[name]; !twice {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sortData orders an array of objects by what is compared of them.
func sortData(v any) {
	data, _ := member(v, "data").([]any)
	slices.SortFunc(data, func(a, b any) int { return strings.Compare(strict(a), strict(b)) })
}

// strict is a record as text without its loose members.
func strict(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return text(v)
	}
	kept := map[string]any{}
	for name, value := range m {
		if !loose[name] {
			kept[name] = value
		}
	}
	return text(kept)
}

func place(where string) string {
	if where == "" {
		return "the body"
	}
	return where
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	return shown(b)
}

// maxShown is how much of a value a difference shows, in bytes.
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
