package datadir

import (
	"context"
	"errors"
	"math"
	"time"

	"confcenter/confstore/doclog"
	"confcenter/internal/clock"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
)

// Renumber begins the versions of all files again, and tells how many documents there are, and their version.
func Renumber(ctx context.Context, dir string) (documents int, served int32, err error) {
	taken, err := Idle(dir)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	// Nothing is given up here because of its age or number: that is for the server's settings.
	const years = 100 * 365 * 24 * time.Hour
	store, err := pebblekv.Open(pebblekv.StoreConfig{Disk: disk.Config{
		Dir: State(dir), LogBytes: math.MaxInt64, LogAge: years, HistoryVersions: math.MaxInt32, HistoryBytes: math.MaxInt64, HistoryAge: years, TokenAge: years,
	}})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := doclog.Open(ctx, store, "")
	if err != nil {
		return 0, 0, err
	}
	served = int32(clock.Real().Now().Unix())
	documents, err = log.Renumber(ctx, served)
	return documents, served, err
}
