package disk

import (
	"cmp"
	"context"
	"errors"

	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
)

// StoreConfig sets up a store. Only Disk.Dir must be set. Clock, Log and TokenAge of
// Disk are the engine's.
type StoreConfig struct {
	Disk   Config
	Engine kvstore.Config
}

// Open opens the store in cfg.Disk.Dir, which is created if it does not exist, and loads
// it. A directory that can only be read is served and takes no writes. Open fails if another
// process has the directory open, if its format is newer than this program, or if
// acknowledged writes are missing from it.
func Open(cfg StoreConfig) (*kvstore.Store, error) {
	d := cfg.Disk
	d.Clock, d.Log, d.TokenAge = cmp.Or(cfg.Engine.Clock, clock.Real()), cfg.Engine.Log, cfg.Engine.TokenAge
	return kvstore.Open(context.Background(), cfg.Engine, &deferredLog{cfg: d})
}

// deferredLog is a disk that is opened when it is loaded.
type deferredLog struct {
	*Disk // set by Load
	cfg   Config
}

// Load implements kvstore.Log.
func (l *deferredLog) Load(_ context.Context, load kvstore.Loader) (newest kv.Revision, err error) {
	l.Disk, newest, err = OpenLog(l.cfg, load)
	if atomicfile.IsReadOnly(err) {
		cfg := l.cfg
		cfg.ReadOnly = true
		var again error
		if l.Disk, newest, again = OpenLog(cfg, load); again != nil {
			return 0, errors.Join(err, again)
		}
		cfg.Log.Warn().Err(err).Msg("the state store takes no writes: its directory can only be read; restart the server when it can be written")
		err = nil
	}
	return newest, err
}
