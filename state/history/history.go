package history

import (
	"confcenter/confstore/doclog"
	"confcenter/kv"
)

// Config is what a History is given.
type Config struct{}

// History answers questions about the past of documents. Its methods may wait for a disk: they
// are not for event loops.
type History struct {
	// set at open
	log *doclog.Log
	cfg Config
}

// Open opens the history in store.
func Open(store kv.Archive, cfg Config) *History {
	return &History{log: doclog.Read(store), cfg: cfg}
}
