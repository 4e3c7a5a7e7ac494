package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// presenceTicks is after how many ticks the keeper looks whether all files are there.
const presenceTicks = 10

// presence looks whether the files that the store consists of are still in its directory. The
// system keeps a removed file as long as it is open, so writes to it would seem to succeed
// until the next start.
type presence struct {
	ticks   int
	missing []string // as of the last look; what is missing twice has not just been replaced
}

// look fails if files are gone.
func (a *presence) look(k *keeper) error {
	if _, err := k.cfg.FS.Stat(k.cfg.FS.PathJoin(k.cfg.Dir, markName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is gone: %w", markName, fs.ErrNotExist)
	}
	if a.ticks++; a.ticks < presenceTicks && len(a.missing) == 0 {
		return nil
	}
	a.ticks = 0
	missing, err := k.missing()
	if err != nil {
		return nil // it is the next write that counts
	}
	for _, name := range missing {
		if slices.Contains(a.missing, name) {
			return fmt.Errorf("%s is gone: %w", name, fs.ErrNotExist)
		}
	}
	a.missing = missing
	return nil
}

// missing lists the files of the database that are not in its directory.
func (k *keeper) missing() (names []string, err error) {
	levels, err := k.db.SSTables()
	if err != nil {
		return nil, err
	}
	for _, level := range levels {
		for i := range level {
			names = append(names, fmt.Sprintf("%06d.sst", uint64(level[i].BackingSSTNum)))
		}
	}
	names = append(names, k.fence.writing()...)
	there, err := k.cfg.FS.List(k.cfg.FS.PathJoin(k.cfg.Dir, databaseDir))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{databaseDir}, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(there, name) }), nil
}
