// Package pebblekv is the embedded engine of the state store: kvstore/replica over
// a log on this machine's disk, which kvstore/pebblekv/disk keeps with Pebble.
package pebblekv

import (
	"context"

	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
)

// Config sets up a store. Only Disk.Dir must be set. Clock, Log and TokenAge of
// Disk are the replica's.
type Config struct {
	Disk    disk.Config
	Replica replica.Config
}

// Open opens the store in cfg.Disk.Dir, which is created if it does not exist, and loads
// it. It fails if another process has it open, if its format is newer than this program,
// or if acknowledged writes are missing from it.
func Open(cfg Config) (*replica.Store, error) {
	return replica.Open(context.Background(), cfg.Replica, newLog(cfg))
}

// log adapts the disk to a replica. It is opened when it is loaded.
type log struct {
	*disk.Disk
	cfg  disk.Config
	tail []replica.Commit // taken by the last Propose, and not asked for yet
}

func newLog(cfg Config) *log {
	d := cfg.Disk
	d.Clock, d.Log, d.TokenAge = cfg.Replica.Clock, cfg.Replica.Log, cfg.Replica.TokenAge
	return &log{cfg: d}
}

// Load implements replica.Log.
func (l *log) Load(_ context.Context, load replica.Loader) (newest kv.Revision, err error) {
	l.Disk, newest, err = disk.Open(l.cfg, load)
	return newest, err
}

// Capabilities implements replica.Log: all of them.
func (l *log) Capabilities() kvstore.Capabilities {
	return kvstore.Everything()
}

// Shared implements replica.Log: the data directory is locked.
func (l *log) Shared() bool { return false }

// Arrived implements replica.Log.
func (l *log) Arrived() <-chan struct{} { return nil }

// Propose implements replica.Log: all or nothing, in one write.
func (l *log) Propose(_ context.Context, group []replica.Commit, _ []replica.Proof) (int, error) {
	if err := l.Append(group); err != nil {
		return 0, err
	}
	l.tail = group
	return len(group), nil
}

// Tail implements replica.Log.
func (l *log) Tail(after kv.Revision) (tail []replica.Commit, through kv.Revision, err error) {
	tail, l.tail = l.tail, nil
	if len(tail) == 0 {
		return nil, after, nil
	}
	return tail, tail[len(tail)-1].Revision, nil
}

// Barrier implements replica.Log.
func (l *log) Barrier(context.Context) (kv.Revision, error) { return l.Newest(), nil }

// Changes implements replica.Log.
func (l *log) Changes(_ context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	return l.Disk.Changes(after, maxBytes)
}

// GetAt implements replica.Log.
func (l *log) GetAt(_ context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error) {
	return l.Disk.GetAt(ns, key, rev)
}

// Versions implements replica.Log.
func (l *log) Versions(_ context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	return l.Disk.Versions(ns, key, before, limit)
}
