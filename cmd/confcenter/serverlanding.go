package main

import (
	"context"
	"regexp"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/internal/metric"
	"confcenter/internal/settings"
	"confcenter/storage"
	"confcenter/storage/field"
	"confcenter/storage/landing"
)

// landingOptions are the settings of landing.
type landingOptions struct {
	dsn      dsn
	moved    bool
	lander   bool
	settings string
}

func (o *landingOptions) define(f *pflag.FlagSet) {
	f.Var(&o.dsn, "landing", "SQL database that player storage is landed in: mysql://USER:PASSWORD@HOST:PORT/DATABASE (MariaDB as well), postgres://… or sqlite:PATH; better given as CONFCENTER_LANDING or in the config file than where ps shows it; empty = none, and all fields stay in memory")
	f.BoolVar(&o.moved, "landing-moved", false, "for one start: take the landing database as it is, though it is not the one before, another store lands there, or tables are missing or emptied; or, without --landing, do without one. What is in memory is landed again")
	f.BoolVar(&o.lander, "lander", true, "land in this process; without, other processes do (confcenter landing), and this one only loads from the database what has left memory")
	f.StringVar(&o.settings, "landing-settings", "landing.json", "configuration file with the homo.* settings of landing; a change counts at once")
}

func (o *landingOptions) check(refuse func(format string, args ...any)) {
	if o.dsn == "" {
		return
	}
	db, err := landing.OpenDatabase(string(o.dsn))
	if err != nil {
		refuse("landing: %w", err)
		return
	}
	_ = db.Close() // it has not connected yet
}

// dsn is a flag for the address of a database, whose password is never shown.
type dsn string

var (
	_ pflag.Value     = (*dsn)(nil)
	_ settings.Secret = (*dsn)(nil)
)

// Set takes any text; check judges it.
func (d *dsn) Set(text string) error {
	*d = dsn(text)
	return nil
}

// passwordParameter is how PostgreSQL's drivers take passwords as well.
var passwordParameter = regexp.MustCompile(`([?&](?:ssl)?password=)[^&]*`)

// String hides the password.
func (d *dsn) String() string {
	text := passwordParameter.ReplaceAllString(string(*d), "${1}******")
	scheme, rest, ok := strings.Cut(text, "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return text
	}
	user, _, has := strings.Cut(rest[:at], ":")
	if !has {
		return text
	}
	return scheme + "://" + user + ":******" + rest[at:]
}

// Reveal has the password.
func (d *dsn) Reveal() string { return string(*d) }

// Type is how help shows the flag's argument.
func (d *dsn) Type() string { return "dsn" }

// landed is what lands the player storage of a running server. Its zero value lands nothing.
type landed struct {
	db     *landing.Database // nil: none
	lander *landing.Lander
	follow func() // ends following the configuration
}

// open reads the settings, and does not connect yet.
func (o *landingOptions) open(config *confstore.Store, log zerolog.Logger) (l landed, set storage.Settings, err error) {
	if o.dsn == "" {
		return landed{}, field.Defaults(), nil
	}
	if set, err = o.read(config); err != nil {
		log.Warn().Str("file", o.settings).Msg("the defaults are used for landing: " + err.Error())
	}
	l.db, err = landing.OpenDatabase(string(o.dsn))
	return l, set, err
}

// read returns the defaults if there is no such file, and with an error.
func (o *landingOptions) read(config *confstore.Store) (storage.Settings, error) {
	node := config.Snapshot().Node(o.settings)
	if node == nil || !node.Known() || node.Deleted() {
		return field.Defaults(), nil
	}
	text, ready := node.Contents(true)
	if !ready {
		node.Prepare(true, false)
		text, _ = node.Contents(true)
	}
	return field.ParseSettings(text)
}

// startLanding begins to land, unless others do, and to keep to the configuration.
func (s *state) startLanding(o *landingOptions, config *confstore.Store, log zerolog.Logger) {
	if s.landed.db == nil {
		return
	}
	changed := make(chan struct{}, 1)
	s.landed.follow = config.Follow(func(*confstore.Snapshot, []string) { clock.Nudge(changed) }) // if it is full, it will look anyway
	s.watching.Go(func() {
		for {
			select {
			case <-s.closing:
				return
			case <-changed:
				s.adopt(o, config, log)
			}
		}
	})
	const who = "server"
	if !o.lander {
		// What the server before had claimed, if it was killed, others need not wait for.
		ctx, cancel := context.WithTimeout(context.Background(), lockWait)
		defer cancel()
		if err := s.players.Free(ctx, who); err != nil {
			log.Warn().Msg("claims of a server that landed by itself end with their time: " + err.Error())
		}
		return
	}
	s.landed.lander = landing.Start(landing.Config{Source: landing.Local(s.players), Database: s.landed.db, Prover: landing.Self(), Who: who, Log: log})
}

// adopt puts the settings of the configuration in force, if they are others.
func (s *state) adopt(o *landingOptions, config *confstore.Store, log zerolog.Logger) {
	set, err := o.read(config)
	if err == nil && set == s.players.Settings() {
		return
	}
	if err == nil {
		err = s.players.Set(context.Background(), set)
	}
	if err != nil {
		log.Warn().Str("file", o.settings).Msg("landing keeps to its settings: " + err.Error())
		return
	}
	log.Info().Str("file", o.settings).Int("tables", set.Tables).Int("batch", set.Batch).Dur("delay", set.Delay).Msg("settings of landing have changed")
}

// stop ends landing, before the storage is closed.
func (l *landed) stop() {
	if l.lander != nil {
		l.lander.Close()
	}
}

// close is for after the storage is closed.
func (l *landed) close() error {
	if l.db == nil {
		return nil
	}
	return l.db.Close()
}

// readings are the lander's numbers.
func (l *landed) readings() metric.Readings {
	if l.lander == nil {
		return nil
	}
	return l.lander.Readings()
}
