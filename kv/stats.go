package kv

import (
	"iter"
	"reflect"
)

// Stats are a store's figures: what it holds now, and counters since it was opened. The
// tags name them in KVSTAT's reply and, for internal/metric, in /metrics.
//
// wide: a list of numbers.
type Stats struct {
	Revision    Revision `json:"revision" metric:"store_revision" help:"Newest revision of the state store."`
	Namespaces  int64    `json:"namespaces" metric:"store_namespaces" help:"Namespaces that have keys."`
	Keys        int64    `json:"keys" metric:"store_keys" help:"Keys of the state store."`
	Bytes       int64    `json:"bytes" metric:"store_bytes" help:"Keys and values of the state store."`
	Memory      int64    `json:"memory" metric:"store_memory_bytes" help:"What keys, values and leases take in memory, with what finds them."`
	MemoryLimit int64    `json:"memory_limit" metric:"store_memory_limit_bytes" help:"What they may take; beyond it only deletes are accepted."`
	Leases      int64    `json:"leases" metric:"store_leases" help:"Leases that have not ended."`
	Tokens      int64    `json:"tokens" metric:"store_tokens" help:"Request tokens that are remembered."`

	LogFloor     Revision `json:"log_floor" metric:"store_log_floor_revision" help:"Changes after it can be read back."`
	HistoryFloor Revision `json:"history_floor" metric:"store_history_floor_revision" help:"Versions that ended before it may be gone."`
	DiskBytes    int64    `json:"disk_bytes" metric:"store_disk_bytes" help:"Space on disk that the state store takes."`
	FreeBytes    int64    `json:"free_bytes" metric:"store_disk_free_bytes" help:"Free space of its file system; below 0 if not known."`

	Queue    int64  `json:"queue" metric:"store_queued_transactions" help:"Transactions that wait to be made durable."`
	Commits  uint64 `json:"commits" metric:"store_commits_total" help:"Transactions that changed something."`
	Groups   uint64 `json:"groups" metric:"store_groups_total" help:"Durable writes that the transactions shared."`
	Failed   uint64 `json:"failed" metric:"store_failed_transactions_total" help:"Transactions refused after they were queued."`
	Busy     uint64 `json:"busy" metric:"store_busy_transactions_total" help:"Transactions not taken because the queue was full."`
	Reserved uint64 `json:"reserved" metric:"store_reserved_transactions_total" help:"Transactions of administrators that the queue took although it was full."`
	Refused  uint64 `json:"refused" metric:"store_refused_writes_total" help:"Writes refused for want of space."`
	Replayed uint64 `json:"replayed" metric:"store_replayed_transactions_total" help:"Transactions answered from their request token."`
	Expired  uint64 `json:"expired" metric:"store_expired_keys_total" help:"Keys ended by their time or their lease."`
	Views    int64  `json:"views" metric:"store_views" help:"Views that are open."`
	ViewsCut uint64 `json:"views_cut" metric:"store_views_cut_total" help:"Views ended because they were open for too long."`
	Panics   uint64 `json:"panics" metric:"store_panics_total" help:"Panics that the state store has survived; the log has each."`
}

// Numbers yields the figures by their names in KVSTAT's reply, in the order of the
// struct. Counters become signed numbers: none gets that far.
func (s Stats) Numbers() iter.Seq2[string, int64] {
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
