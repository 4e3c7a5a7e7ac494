package flow

import (
	"encoding/json" // for the name of RawMessage, which every edge and user of JSON knows
	"fmt"
	"slices"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Raw is a JSON text. A number keeps all its digits.
type Raw = json.RawMessage

// fromJSON is a JSON text as a value of the store. A whole number of 64 bits is an int.
func fromJSON(raw Raw) (kv.Value, error) {
	kind, err := jsontext.CheckUTF8(raw)
	if err != nil {
		return kv.Value{}, err
	}
	raw = jsontext.AppendCompact(nil, raw)
	v := kv.JSONValue(raw)
	switch kind {
	case jsontext.String:
		v = kv.Value{Type: kv.String, Data: jsontext.Unquote(raw)}
	case jsontext.Bool:
		v.Type = kv.Bool
	case jsontext.Number:
		v.Type = kv.Double
		if _, whole := jsontext.Int64(raw); whole {
			v.Type = kv.Int
		}
	}
	return v, v.Check()
}

// toJSON is a value of the store as JSON.
func toJSON(v kv.Value) Raw {
	if _, err := jsontext.Check(v.Data); err != nil || v.Type == kv.String || v.Type == kv.Bytes { // or nan, inf
		return jsontext.AppendQuote(nil, v.Data)
	}
	return v.Data
}

// text is the value of a key that is a string; "" if it is absent.
func text(e *kv.Entry) string {
	if e == nil {
		return ""
	}
	return string(e.Value.Data)
}

// number is the value of a key that is an int; 0 if it is absent or something else.
func number(e *kv.Entry) int64 {
	if e == nil {
		return 0
	}
	n, _ := e.Value.Int()
	return n
}

// attribute is a field that the layout has for members of some kinds.
type attribute struct {
	name  string
	want  kv.Type // 0: any
	empty kv.Value
	of    []Kind // empty: all
}

// given are the attributes that may be given; what is not given is empty, but there.
var given = []attribute{
	{"descr", kv.String, kv.StringValue(""), nil},
	{"optin", kv.String, kv.StringValue(""), nil},
	{"stags", kv.String, kv.StringValue(""), nil},
	{"atags", kv.String, kv.StringValue(""), nil},
	{"name", kv.String, kv.StringValue(""), []Kind{App, Service, Session, FlowKind, Worker, Scheduler}},
	{"rawcfg", kv.String, kv.StringValue(""), []Kind{App}},
	{"sdkv", kv.String, kv.StringValue(""), []Kind{App}},
	{"func", kv.String, kv.StringValue(""), []Kind{Service, Node}},
	{"index", kv.Int, kv.IntValue(0), []Kind{Service, Session, FlowKind, Node}},
	{"inscount", kv.Int, kv.IntValue(1), []Kind{Service, Node}},
	{"subidx", kv.Int, kv.IntValue(0), []Kind{Service, Node}},
	{"synchz", 0, kv.BoolValue(false), []Kind{Node}},
}

// kept are the fields that only operations write.
var kept = []string{
	"uuid", "ctime", "cstat", "state", "count", "dsize", "atime", "whoac", "oplog", "lock",
	"parent", "sesuid", "appuid", "worker", "claim", "claims", "task", "tasks", "srvs", "sess", "flow", "node",
}

// fields are the values of a member's fields that are given, with the empty ones of those that
// are not. Faults are appended to wrong.
func fields(m Member, in map[string]Raw, wrong []string) (map[string]kv.Value, []string) {
	if len(in) > MaxFields {
		return nil, append(wrong, fmt.Sprintf("%s has %d fields, the limit is %d", m, len(in), MaxFields))
	}
	out := make(map[string]kv.Value, len(given)+len(in))
	for i := range given {
		if a := &given[i]; len(a.of) == 0 || slices.Contains(a.of, m.Kind) {
			out[a.name] = a.empty
		}
	}
	for name, raw := range in {
		v, err := fieldValue(m, name, raw)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		out[name] = v
	}
	return out, wrong
}

// fieldValue is a value for a field of a member.
func fieldValue(m Member, name string, raw Raw) (kv.Value, error) {
	if !plainPart(name, MaxField) {
		return kv.Value{}, fmt.Errorf("%s: %.80q is no name of a field", m, name)
	}
	if slices.Contains(kept, name) {
		return kv.Value{}, fmt.Errorf("%s.%s cannot be given: operations write it", m, name)
	}
	v, err := fromJSON(raw)
	if err != nil {
		return v, fmt.Errorf("%s.%s: %w", m, name, err)
	}
	for i := range given {
		if a := &given[i]; a.name == name && a.want != 0 && a.want != v.Type {
			return v, fmt.Errorf("%s.%s must be of type %s, not %s", m, name, a.want, v.Type)
		}
	}
	return v, nil
}
