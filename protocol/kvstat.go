package protocol

import (
	"reflect"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// AppendKVStats appends KVSTAT's reply.
func AppendKVStats(dst []byte, s kv.Stats) []byte {
	dst = append(dst, `{"code":0`...)
	for name, n := range s.Numbers() {
		dst = appendNumber(dst, name, n)
	}
	return append(dst, '}')
}

// ParseKVStats reads KVSTAT's reply. Numbers that a server does not send are 0. A refusal
// is a *RefusedError.
func ParseKVStats(body []byte) (s kv.Stats, err error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return s, err
	}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		m, _ := r.Member(v.Type().Field(i).Tag.Get("json"))
		n, _ := jsontext.Int64(m.Raw)
		v.Field(i).Set(reflect.ValueOf(n).Convert(v.Field(i).Type()))
	}
	return s, nil
}
