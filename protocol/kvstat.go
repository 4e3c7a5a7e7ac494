package protocol

import (
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// KVStats is KVSTAT's reply: what the engine tells about itself, with the fields of
// kvstore.Stats, which converts to it.
//
// wide: a message.
type KVStats struct {
	Revision   kv.Revision // newest
	Namespaces int64
	Keys       int64
	Bytes      int64 // of keys and values
	Leases     int64
	Tokens     int64

	LogFloor     kv.Revision // changes after it can be read back
	HistoryFloor kv.Revision // versions that ended before it may be gone
	DiskBytes    int64       // everything on disk
	FreeBytes    int64       // of the file system

	Queue    int64  // transactions waiting
	Commits  uint64 // transactions that changed something
	Groups   uint64 // durable writes they shared
	Failed   uint64 // transactions refused after they were queued
	Busy     uint64 // transactions not taken because the queue was full
	Refused  uint64 // writes refused for want of space or quota
	Replayed uint64 // transactions answered from their token
	Expired  uint64 // keys ended by their time or lease
	Views    int64  // open now
	ViewsCut uint64 // views ended because they were open for too long
}

// numbers are the members by name, in the order of the struct. Counters are sent
// as signed numbers: none gets that far.
func (s *KVStats) numbers(each func(name string, n int64) int64) {
	signed := func(name string, p *int64) { *p = each(name, *p) }
	revision := func(name string, p *kv.Revision) { *p = kv.Revision(each(name, int64(*p))) }
	counter := func(name string, p *uint64) { *p = uint64(each(name, int64(*p))) }
	revision("revision", &s.Revision)
	signed("namespaces", &s.Namespaces)
	signed("keys", &s.Keys)
	signed("bytes", &s.Bytes)
	signed("leases", &s.Leases)
	signed("tokens", &s.Tokens)
	revision("log_floor", &s.LogFloor)
	revision("history_floor", &s.HistoryFloor)
	signed("disk_bytes", &s.DiskBytes)
	signed("free_bytes", &s.FreeBytes)
	signed("queue", &s.Queue)
	counter("commits", &s.Commits)
	counter("groups", &s.Groups)
	counter("failed", &s.Failed)
	counter("busy", &s.Busy)
	counter("refused", &s.Refused)
	counter("replayed", &s.Replayed)
	counter("expired", &s.Expired)
	signed("views", &s.Views)
	counter("views_cut", &s.ViewsCut)
}

// AppendKVStats appends KVSTAT's reply.
func AppendKVStats(dst []byte, s KVStats) []byte {
	dst = append(dst, `{"code":0`...)
	s.numbers(func(name string, n int64) int64 {
		dst = appendNumber(dst, name, n)
		return n
	})
	return append(dst, '}')
}

// ParseKVStats reads KVSTAT's reply. What a server does not tell is 0. A refusal is
// a *RefusedError.
func ParseKVStats(body []byte) (KVStats, error) {
	var s KVStats
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return s, err
	}
	s.numbers(func(name string, _ int64) int64 {
		m, _ := r.Member(name)
		n, _ := jsontext.Int64(m.Raw)
		return n
	})
	return s, nil
}
