package protocol

import (
	"iter"
	"reflect"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// KVStats is KVSTAT's reply: what the engine tells about itself, with the fields of
// kvstore.Stats, which converts to it. The tags are the members' names.
//
// wide: a message.
type KVStats struct {
	Revision   kv.Revision `json:"revision"` // newest
	Namespaces int64       `json:"namespaces"`
	Keys       int64       `json:"keys"`
	Bytes      int64       `json:"bytes"` // of keys and values
	Leases     int64       `json:"leases"`
	Tokens     int64       `json:"tokens"`

	LogFloor     kv.Revision `json:"log_floor"`     // changes after it can be read back
	HistoryFloor kv.Revision `json:"history_floor"` // versions that ended before it may be gone
	DiskBytes    int64       `json:"disk_bytes"`    // everything on disk
	FreeBytes    int64       `json:"free_bytes"`    // of the file system

	Queue    int64  `json:"queue"`     // transactions waiting
	Commits  uint64 `json:"commits"`   // transactions that changed something
	Groups   uint64 `json:"groups"`    // durable writes they shared
	Failed   uint64 `json:"failed"`    // transactions refused after they were queued
	Busy     uint64 `json:"busy"`      // transactions not taken because the queue was full
	Refused  uint64 `json:"refused"`   // writes refused for want of space or quota
	Replayed uint64 `json:"replayed"`  // transactions answered from their token
	Expired  uint64 `json:"expired"`   // keys ended by their time or lease
	Views    int64  `json:"views"`     // open now
	ViewsCut uint64 `json:"views_cut"` // views ended because they were open for too long
}

// Numbers are the members by name, in the order of the struct. Counters are sent as
// signed numbers: none gets that far.
func (s KVStats) Numbers() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		v := reflect.ValueOf(s)
		for i := range v.NumField() {
			n := v.Field(i).Convert(reflect.TypeFor[int64]()).Int()
			if !yield(v.Type().Field(i).Tag.Get("json"), n) {
				return
			}
		}
	}
}

// AppendKVStats appends KVSTAT's reply.
func AppendKVStats(dst []byte, s KVStats) []byte {
	dst = append(dst, `{"code":0`...)
	for name, n := range s.Numbers() {
		dst = appendNumber(dst, name, n)
	}
	return append(dst, '}')
}

// ParseKVStats reads KVSTAT's reply. What a server does not tell is 0. A refusal is
// a *RefusedError.
func ParseKVStats(body []byte) (s KVStats, err error) {
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
