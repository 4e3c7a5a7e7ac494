package server

import (
	"context"
	"time"

	"confcenter/confstore/snapshot"
	"confcenter/internal/clock"
	"confcenter/player/field"
	"confcenter/player/landing"
)

// Landing says where player storage is landed. The zero value lands nothing.
type Landing struct {
	// DSN is the address of the database, for a driver that the program imports; empty: none.
	DSN string
	// Settings is the document with the homo.* settings. A change counts at once.
	Settings string
	// Elsewhere says that other processes land. This one only loads what has left memory.
	Elsewhere bool
}

// openDatabase reads the settings, and does not connect yet.
func (s *Server) openDatabase() (set field.Settings, err error) {
	o := &s.cfg.Landing
	if o.DSN == "" {
		return s.cfg.Players.Settings, nil
	}
	if set, err = s.landingSettings(); err != nil {
		s.cfg.Log.Warn().Str("file", o.Settings).Msg("the defaults are used for landing: " + err.Error())
	}
	s.Landing, err = landing.OpenDatabase(o.DSN)
	return set, err
}

// landingSettings returns the defaults if there is no such document, and with an error.
func (s *Server) landingSettings() (field.Settings, error) {
	node := s.Documents.Snapshot().Node(s.cfg.Landing.Settings)
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

// freeWait bounds the wait for claims of a server before to be given back.
const freeWait = 3 * time.Second

// startLanding begins to land, unless others do, and to keep to the settings.
func (s *Server) startLanding() {
	if s.Landing == nil {
		return
	}
	changed := make(chan struct{}, 1)
	unfollow := s.Documents.Follow(func(*snapshot.Snapshot, []string) { clock.Nudge(changed) }) // if it is full, it will look anyway
	end := s.run(func(closing <-chan struct{}) {
		for {
			select {
			case <-closing:
				return
			case <-changed:
				s.adopt()
			}
		}
	})
	s.Own(func() error {
		unfollow()
		err := end()
		if s.lander != nil {
			s.lander.Close()
		}
		return err
	})
	const who = "server"
	if s.cfg.Landing.Elsewhere {
		// What the server before had claimed, if it was killed, others need not wait for.
		ctx, cancel := context.WithTimeout(context.Background(), freeWait)
		defer cancel()
		if err := s.Players.Free(ctx, who); err != nil {
			s.cfg.Log.Warn().Msg("claims of a server that landed by itself end with their time: " + err.Error())
		}
		return
	}
	s.lander = landing.Start(landing.Config{Source: landing.Local(s.Players), Database: s.Landing, Prover: landing.Self(), Who: who, Log: s.cfg.Log})
}

// adopt puts the settings of the document in force, if they are others.
func (s *Server) adopt() {
	file := s.cfg.Landing.Settings
	set, err := s.landingSettings()
	if err == nil && set == s.Players.Settings() {
		return
	}
	if err == nil {
		err = s.Players.Set(context.Background(), set)
	}
	if err != nil {
		s.cfg.Log.Warn().Str("file", file).Msg("landing keeps to its settings: " + err.Error())
		return
	}
	s.cfg.Log.Info().Str("file", file).Int("tables", set.Tables).Int("batch", set.Batch).Dur("delay", set.Delay).Msg("settings of landing have changed")
}
