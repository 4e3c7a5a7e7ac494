package disk

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// logger receives the database's messages. Its informational ones are of no interest to
// the operator of a server.
type logger struct{ *log }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.cfg.Log.Error().Msg("database: " + fmt.Sprintf(format, args...))
}

// Fatalf is called after a failed write of the database's log. It must not return.
func (l logger) Fatalf(format string, args ...any) {
	_ = l.fail(fmt.Errorf(format, args...))
}

func (d *database) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			d.cfg.Log.Error().Err(err).Msg("the database failed in the background and will try again")
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			d.cfg.Log.Error().Err(info.Details).Str("file", info.Path).Msg("a file of the store is damaged; restore the data directory from a copy")
		},
	}
}
