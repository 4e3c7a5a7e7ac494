// Package plum reads and writes the texts of Plum's API: bodies, entries, events and refusals, as Plum
// and its clients know them. What is asked for is not its business.
package plum

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// The members of bodies of Plum's API: a batch has only the first, an item of it
// the others, and a put the others without the key.
const (
	itemsMember = iota
	keyMember
	valueMember
	typeMember
	ttlMember
	ttlMsMember
)

var names = [...]string{"items", "key", "value", "type", "ttl", "ttl_ms"}

// object is an object of a body, indexed by the constants above. An absent
// member has no key.
type object [len(names)]jsontext.Member

// read reads the object at the beginning of body, which may have the members
// from one constant up to, but not including, another. Like Plum it ignores what
// follows the object, takes null for an empty object, and accepts names in any
// case: what Plum stores must not become an empty value here.
func read(body []byte, from, to int, ignored *Ignored) (o object, err error) {
	var space [4]jsontext.Member
	members, kind, _, err := jsontext.ScanPrefix(space[:0], body)
	switch {
	case err != nil:
		return o, Bad("the body is not valid JSON (%v)", err)
	case kind != jsontext.Object && kind != jsontext.Null:
		return o, Bad("an object is expected, with the members %s, and this is a JSON %s", strings.Join(names[from:to], ", "), kind)
	}
	for i := range members {
		key := members[i].Key
		f := from + slices.IndexFunc(names[from:to], func(name string) bool { return strings.EqualFold(name, string(key)) })
		switch {
		case f < from:
			ignored.add(key)
		case o[f].Key == nil, string(key) == names[f] && string(o[f].Key) != names[f]:
			o[f] = members[i]
		}
	}
	return o, nil
}

// given reports whether a member is present and not null.
func (o *object) given(f int) bool { return o[f].Key != nil && o[f].Kind != jsontext.Null }

// text returns the raw text of a member that must be a string, null or absent.
func (o *object) text(f int) ([]byte, error) {
	switch {
	case !o.given(f):
		return nil, nil
	case o[f].Kind != jsontext.String:
		return nil, Bad("%s must be a string, in quotes, and is a JSON %s", names[f], o[f].Kind)
	}
	return o[f].Raw, nil
}

// put returns the put of a key that the object describes.
func (o *object) put(ns, key string) (kv.Op, error) {
	value, err := o.value()
	if err != nil {
		return kv.Op{}, err
	}
	ttl, err := o.ttl()
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: value, TTL: ttl}, err
}

// value returns a copy of the value. The store checks it against its type.
func (o *object) value() (kv.Value, error) {
	text, err := o.text(valueMember)
	if err != nil {
		return kv.Value{}, err
	}
	typed, err := o.text(typeMember)
	if err != nil {
		return kv.Value{}, err
	}
	value := kv.Value{Type: kv.String, Data: jsontext.AppendUnquote(make([]byte, 0, len(text)), text)}
	if name := jsontext.Unquote(typed); len(name) > 0 {
		if value.Type = typeOf(string(name)); value.Type == 0 {
			return kv.Value{}, errType
		}
	}
	if value.Type == kv.Bytes {
		n, err := base64.StdEncoding.Decode(value.Data, value.Data)
		if err != nil {
			return kv.Value{}, codes.Errorf(codes.BadValue, "the value is not base64, as bytes must be")
		}
		value.Data = value.Data[:n]
	}
	return value, nil
}

// ttl returns the time to live, 0 for none: ttl in seconds, or ttl_ms. Plum has
// neither.
func (o *object) ttl() (time.Duration, error) {
	seconds, err := o.duration(ttlMember, time.Second)
	if err != nil {
		return 0, err
	}
	ttl, err := o.duration(ttlMsMember, time.Millisecond)
	switch {
	case err != nil:
		return 0, err
	case !o.given(ttlMsMember):
		return seconds, nil
	case o.given(ttlMember) && seconds != ttl:
		return 0, codes.Errorf(codes.BadTTL, "ttl and ttl_ms differ: give one of them")
	}
	return ttl, nil
}

func (o *object) duration(f int, unit time.Duration) (time.Duration, error) {
	if !o.given(f) {
		return 0, nil
	}
	raw := o[f].Raw
	if o[f].Kind == jsontext.String {
		raw = jsontext.Unquote(raw)
	}
	n, ok := jsontext.Int64(raw)
	if most := int64(kv.MaxTTL / unit); !ok || n < 1 || n > most {
		return 0, codes.Errorf(codes.BadTTL, "%s must be a whole number from 1 to %d; leave it out for a key that stays", names[f], most)
	}
	return time.Duration(n) * unit, nil
}

// ReadPut reads the put of a key.
func ReadPut(body []byte, ns, key string) (put kv.Op, ignored Ignored, err error) {
	members, err := read(body, valueMember, len(names), &ignored)
	if err == nil {
		put, err = members.put(ns, key)
	}
	return put, ignored, err
}

// ReadBatch reads the puts of a batch, all of them or none.
func ReadBatch(body []byte, ns string) (ops []kv.Op, ignored Ignored, err error) {
	batch, err := read(body, itemsMember, keyMember, &ignored)
	switch {
	case err != nil:
		return nil, nil, err
	case !batch.given(itemsMember):
		return nil, nil, errItems
	case batch[itemsMember].Kind != jsontext.Array:
		return nil, nil, Bad("items must be an array of objects, and is a JSON %s", batch[itemsMember].Kind)
	}
	for it := jsontext.Iterate(batch[itemsMember].Raw); it.Next(); {
		if len(ops) == kv.MaxOps {
			return nil, nil, codes.Errorf(codes.TooManyOps, "the batch has more than %d items; send several", kv.MaxOps)
		}
		item, err := read(it.Raw(), keyMember, len(names), &ignored)
		if err != nil {
			return nil, nil, err
		}
		key, err := item.text(keyMember)
		if err != nil {
			return nil, nil, err
		}
		op, err := item.put(ns, string(jsontext.Unquote(key)))
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, op)
	}
	switch {
	case slices.ContainsFunc(ops, func(op kv.Op) bool { return op.Key == "" }):
		return nil, nil, errItemKey
	case len(ops) == 0:
		return nil, nil, errItems
	}
	return ops, ignored, nil
}

// Ignored are the names of unknown members. Plum accepts any, so none may be
// refused; the reply names them, because a client with a misspelt member would
// otherwise believe that it took effect. Plum's clients look only at the status.
type Ignored []string

// Bounds of what a reply says about ignored members.
const (
	maxIgnored     = 16
	maxIgnoredName = 64
)

func (list *Ignored) add(key []byte) {
	name := strings.ToValidUTF8(string(key[:min(len(key), maxIgnoredName)]), "")
	if len(*list) < maxIgnored && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// append appends the member that lists them, if there are any.
func (list Ignored) append(b []byte) []byte {
	begin := `,"ignored":[`
	for _, name := range list {
		b = AppendText(append(b, begin...), name)
		begin = ","
	}
	if len(list) > 0 {
		b = append(b, ']')
	}
	return b
}

// Error is a refusal with Plum's status and text.
type Error struct {
	Status int
	Text   string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap has it count as a fault of the request, not of the server.
func (e *Error) Unwrap() error { return codes.BadRequest }

var (
	errItems   = &Error{http.StatusBadRequest, "items required"}
	errItemKey = &Error{http.StatusBadRequest, "key required"}
	errType    = &Error{http.StatusBadRequest, "invalid type (must be string|int|double|bool|bytes)"}
)

// Bad is what Plum calls a bad request, with what is wrong and what to do.
func Bad(format string, args ...any) error {
	return &Error{http.StatusBadRequest, "bad request: " + fmt.Sprintf(format, args...)}
}
