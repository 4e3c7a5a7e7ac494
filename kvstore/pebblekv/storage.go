package pebblekv

import (
	"confcenter/kv"
	"confcenter/kvstore/pebblekv/disk"
)

// storage is what the store needs of its disk; *disk.Disk is the real one, tests
// have one that fails on request.
type storage interface {
	// Append makes a group durable and keeps it, with all it refers to. Only the
	// committer calls it, and never again after it has failed.
	Append(group []disk.Commit) error
	// Writable is asked for every transaction that writes: it must be cheap.
	Writable(deletesOnly bool) error

	// These may be called from any goroutine and may see what Append has made
	// durable before readers of the store see it.
	Changes(after kv.Revision, maxBytes int) ([]kv.Change, error)
	GetAt(ns, key string, rev kv.Revision) (*kv.Entry, error)
	History(ns, key string, before kv.Revision, limit int) (kv.Versions, error)
	Stats() disk.Stats
	// DropTokens says that the tokens of transactions up to rev are forgotten.
	DropTokens(rev kv.Revision)

	Close() error
}

// opener opens a storage, telling load what is stored.
type opener func(load disk.Loader) (storage, kv.Revision, error)
