package serving

import (
	"confcenter/internal/settings"
	"confcenter/player/landing"
	"confcenter/server"
)

// landingOptions are the settings of landing.
type landingOptions struct {
	Dsn      settings.DSN `flag:"landing" doc:"SQL database that player storage is landed in: mysql://USER:PASSWORD@HOST:PORT/DATABASE (MariaDB as well), postgres://… or sqlite:PATH; better given as CONFCENTER_LANDING or in the config file than where ps shows it; empty = none, and all fields stay in memory"`
	Moved    bool         `flag:"landing-moved" doc:"for one start: take the landing database as it is, though it is not the one before, another store lands there, or tables are missing or emptied; or, without --landing, do without one. What is in memory is landed again"`
	Lander   bool         `flag:"lander" default:"true" doc:"land in this process; without, other processes do (confcenter landing), and this one only loads from the database what has left memory"`
	Settings string       `flag:"landing-settings" default:"landing.json" doc:"configuration file with the homo.* settings of landing; a change counts at once"`
}

func (o *landingOptions) check(refuse func(format string, args ...any)) {
	if o.Dsn == "" {
		return
	}
	db, err := landing.OpenDatabase(string(o.Dsn))
	if err != nil {
		refuse("landing: %w", err)
		return
	}
	_ = db.Close() // it has not connected yet
}

func (o *landingOptions) config() server.Landing {
	return server.Landing{DSN: string(o.Dsn), Settings: o.Settings, Elsewhere: !o.Lander}
}
