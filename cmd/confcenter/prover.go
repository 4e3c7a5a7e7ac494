package main

import (
	"context"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/storage/landing"
)

// prover asks a server for what was written to a database: a landing.Prover.
type prover struct {
	connected *client.Client
	addr      string // of the server
	flag      string // that names the database
}

// Connection implements landing.Prover.
func (p *prover) Connection() any { return p.connected.Lander().Connection() }

// Prove implements landing.Prover.
func (p *prover) Prove(ctx context.Context, db *landing.Database) error {
	o := landing.Proof
	return db.Prove(ctx, func(name string) error {
		err := p.connected.Landing().Rescan(ctx, o.App, o.Region, 0)
		if codes.Of(err) == codes.NotImplemented {
			return codes.Errorf(codes.NotImplemented, "the server at %s would not find the rows in %s: %w", p.addr, db.Name(), err)
		} else if err != nil {
			return err
		}
		found, err := p.connected.StorageOf(o.App, o.Region).Owner(o.Logic, o.ID).GetVersions(ctx, name)
		if err == nil && len(found) == 0 {
			err = codes.Errorf(codes.Conflict, "the server at %s does not load from %s, and would not find the rows: give as %s the database that it was started with", p.addr, db.Name(), p.flag)
		}
		return err
	})
}
