package serving

import (
	"errors"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/access/audit"
	"confcenter/access/token"
	"confcenter/cmd/confcenter/datadir"
	"confcenter/confstore"
	"confcenter/internal/memory"
	"confcenter/internal/settings"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/player"
	"confcenter/server"
	"confcenter/server/host"
)

// stateOptions are the settings of the state store.
type stateOptions struct {
	disk.Config
	memory settings.Bytes
}

func (o *stateOptions) define(f *pflag.FlagSet) {
	o.LogBytes, o.HistoryBytes, o.ReserveBytes = 512<<20, 1<<30, 256<<20
	f.Var(&o.memory, "kv-memory", "memory that keys and values of the state store may take; beyond it only deletes are accepted; 0 = its share of --memory, 26 %")
	f.Var((*settings.Bytes)(&o.LogBytes), "kv-log-bytes", "changes kept for watches that were away, in bytes")
	f.DurationVar(&o.LogAge, "kv-log-age", 24*time.Hour, "how long changes are kept for watches that were away")
	f.IntVar(&o.HistoryVersions, "kv-history-versions", 100, "older versions kept per key; -1 = none")
	f.Var((*settings.Bytes)(&o.HistoryBytes), "kv-history-bytes", "older versions kept of all keys together, in bytes")
	f.DurationVar(&o.HistoryAge, "kv-history-age", 7*24*time.Hour, "how long older versions are kept")
	f.Var((*settings.Bytes)(&o.QuotaBytes), "kv-quota", "disk space at which the state store accepts only deletes; 0 = no limit")
	f.Var((*settings.Bytes)(&o.ReserveBytes), "kv-reserve", "free disk space that writes to the state store must leave")
	f.BoolVar(&o.AckBeforeDisk, "kv-ack-before-disk-may-lose-writes", false,
		"acknowledge writes of keys before they are on disk: faster, but a crash of the machine loses the last ones, although their writers were told they succeeded")
	f.BoolVar(&o.AcceptLoss, "kv-accept-loss", false,
		"for one start: serve what is left of a state store that has lost acknowledged writes")
}

// leastReserve is what the database may write, background writes included, before the
// free space is checked again.
var leastReserve = settings.Bytes(64 << 20)

// check reports values that a store cannot run with.
func (o *stateOptions) check(refuse func(format string, args ...any)) {
	for _, size := range []struct {
		name  string
		value settings.Bytes
	}{{"kv-log-bytes", settings.Bytes(o.LogBytes)}, {"kv-history-bytes", settings.Bytes(o.HistoryBytes)}, {"kv-reserve", settings.Bytes(o.ReserveBytes)}} {
		if size.value < 1 {
			refuse("%s = %s: must be above 0", size.name, &size.value)
		}
	}
	if settings.Bytes(o.ReserveBytes) < leastReserve {
		refuse("kv-reserve = %s: must be at least %s, since the store writes tens of MiB at once", (*settings.Bytes)(&o.ReserveBytes), &leastReserve)
	}
	if o.HistoryVersions < -1 || o.HistoryVersions == 0 {
		refuse("kv-history-versions = %d: must be above 0, or -1 for none", o.HistoryVersions)
	}
}

// openEngine opens the state store; --data exists and belongs to this process. lines are those of
// the audit; nil: there is none.
func openEngine(o *Options, budget *memory.Budget, log zerolog.Logger) (store *kvstore.Store, lines *audit.Trail, err error) {
	if o.state.AckBeforeDisk {
		log.Warn().Msg("writes to the state store are acknowledged before they are on disk: a crash of the machine loses some (--kv-ack-before-disk-may-lose-writes)")
	}
	cfg := disk.StoreConfig{Disk: o.state.Config, Engine: kvstore.Config{Store: budget.Store, Tokens: budget.Tokens, Queues: budget.Queues, Log: log}}
	cfg.Disk.Dir, cfg.Disk.Engine = datadir.State(o.data), budget.Engine
	if o.audit.level(o.access.On) != auditOff {
		lines = audit.New(recentAudit)
	}
	cfg.Engine.Trail, cfg.Engine.TrailNotesOnly = lines, o.audit.level(o.access.On) == auditNoKeys
	if store, err = disk.Open(cfg); err != nil {
		return nil, nil, err
	}
	if err := datadir.Mark(o.data); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, lines, nil
}

// serverConfig is what the settings say of a server on an open state store.
func (o *Options) serverConfig(engine *kvstore.Store, lines *audit.Trail, budget *memory.Budget, log zerolog.Logger) server.Config {
	return server.Config{
		State:     engine,
		Documents: confstore.Config{Dir: o.conf, DataDir: o.data},
		Players:   player.Config{Moved: o.landing.Moved},
		Models: host.Config{
			Audit:  o.audit.config(lines),
			Auth:   token.Config{Sessions: o.access.SignIn.limits(), Names: o.audit.names(), Waiting: o.access.Reviews.Keep},
			Secret: o.secret.config(log),
			Review: o.access.Reviews.config(),
		},
		Landing: o.landing.config(),
		Probe:   func() error { return disk.Probe(disk.Config{Dir: datadir.State(o.data)}) },
		Memory:  budget,
		Log:     log,
	}
}
