// Package pebblekv is the embedded engine of the state store: kvstore/replica over
// a log on this machine's disk, which kvstore/pebblekv/disk keeps with Pebble.
package pebblekv

import (
	"cmp"
	"context"

	"confcenter/internal/clock"
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
	*mender
	tail []replica.Commit // taken by the last Propose, and not asked for yet
}

func newLog(cfg Config) *log {
	d := cfg.Disk
	d.Clock, d.Log, d.TokenAge = cmp.Or(cfg.Replica.Clock, clock.Real()), cfg.Replica.Log, cfg.Replica.TokenAge
	return &log{mender: &mender{cfg: d, clock: d.Clock, log: d.Log, arrived: make(chan struct{}, 1), stop: make(chan struct{})}}
}

// Load implements replica.Log.
func (l *log) Load(_ context.Context, load replica.Loader) (kv.Revision, error) {
	return l.mender.open(load)
}

// Capabilities implements replica.Log: all of them.
func (l *log) Capabilities() kvstore.Capabilities {
	return kvstore.Everything()
}

// Shared implements replica.Log: the data directory is locked.
func (l *log) Shared() bool { return false }

// Arrived implements replica.Log: it tells when a disk that had failed is open again.
func (l *log) Arrived() <-chan struct{} { return l.arrived }

// Propose implements replica.Log: all or nothing, in one write.
func (l *log) Propose(_ context.Context, group []replica.Commit, _ []replica.Proof) (int, error) {
	if err := l.disk.Load().Append(group); err != nil {
		return 0, unknown{err}
	}
	l.tail = group
	return len(group), nil
}

// unknown is an error of Append for the replica.
type unknown struct{ error }

func (u unknown) Unwrap() error        { return u.error }
func (u unknown) Is(target error) bool { return target == replica.ErrUnknown }

// Tail implements replica.Log.
func (l *log) Tail(after kv.Revision) (tail []replica.Commit, through kv.Revision, err error) {
	if tail, l.tail = l.tail, nil; len(tail) > 0 {
		return tail, tail[len(tail)-1].Revision, nil
	}
	if l.broken() {
		return l.settle(after)
	}
	return nil, after, nil
}

// Barrier implements replica.Log.
func (l *log) Barrier(context.Context) (kv.Revision, error) { return l.disk.Load().Newest(), nil }
