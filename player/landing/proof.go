package landing

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"confcenter/codes"
	"confcenter/player/field"
)

// Proof is whose fields Prove writes. They have a table of their own, which stays, empty:
// several who prove at the same time cannot take it from each other.
var Proof = field.Owner{App: "confcenter", Region: "proof", Logic: "database", ID: "proof"}

// proofValue is what the fields of proofs are.
const proofValue = "\x00é'\\\xff"

// proofTime is after how long the field of a proof is that of a process that was killed.
const proofTime = time.Hour

// Prove writes a field for the Source to look for, which claims to work with the same database, and
// takes it away again.
func (d *Database) Prove(ctx context.Context, look func(name string) error) error {
	now := time.Now().UnixMilli()
	row := field.DirtyRow{Row: field.Row{Owner: Proof, Name: rand.Text() + " é😀", Value: []byte(proofValue), Created: now}} // and not only letters that are the same in all encodings
	w, err := d.Write(ctx, []field.DirtyRow{row})
	for _, f := range w.Failed {
		err = codes.Errorf(codes.Storage, "the database cannot be proved to be the server's: %s", f.Reason)
	}
	if err != nil {
		return err
	}
	err = look(row.Name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_, gone := d.db.ExecContext(ctx, d.dialect.Bind("DELETE FROM "+d.dialect.Quote(d.dialect.Fold(Proof.Table()))+" WHERE primary_key = ? OR create_time < ?"), row.Key(), now-proofTime.Milliseconds())
	return errors.Join(err, d.failure(gone))
}

// Self is the Prover of a Lander whose Source is in this process: what one connection has written
// another one reads.
func Self() Prover { return self{} }

type self struct{}

func (self) Connection() any { return self{} } // it is always the same process

func (self) Prove(ctx context.Context, d *Database) error {
	return d.Prove(ctx, func(name string) error {
		conn, err := d.connect.dial(ctx)
		if err != nil {
			return d.failure(err)
		}
		defer conn.raw.Close()
		key := field.Ref{Owner: Proof, Name: name}.Key()
		rows, err := conn.Query(ctx, "SELECT "+quoteAll(d.dialect, []string{"key", "value"})+" FROM "+d.dialect.Quote(d.dialect.Fold(Proof.Table()))+" WHERE primary_key = ?", key)
		switch {
		case err != nil && d.dialect.Fault(err) != Absent:
			return d.failure(err)
		case len(rows) != 1 || rows[0][0] != name || rows[0][1] != proofValue:
			return codes.Errorf(codes.Conflict, "what one connection has written to %s, another one does not read as it was written, so that nothing would be safe there: look for triggers and rights on the table %s, for a proxy, and for replicas behind it", d.Name(), Proof.Table())
		}
		return nil
	})
}

// Prover tells whether a Source that is another process loads from the Database. If it does
// not, it takes fields for landed, lets them leave memory, and does not find them again.
type Prover interface {
	// Connection is what requests to the Source go by, nil if there is none now. Another one
	// may lead to a process that was started with another database.
	Connection() any
	// Prove fails with codes.Conflict if the Source loads from another database, and with
	// codes.NotImplemented if it has none. Other errors mean that it is not known.
	Prove(ctx context.Context, d *Database) error
}

// elsewhere is the error of a Source that does not load from the Database.
type elsewhere struct{ error }

// Unwrap returns what the Prover said.
func (e elsewhere) Unwrap() error { return e.error }

// proved is what a proof holds for: the connection to the Source, and the connections to the
// database that there were, as a new one may lead to another database.
type proved struct {
	over   any
	opened int64
}

// prove returns nil if the database is proved for the present connections.
func (l *Lander) prove(ctx context.Context) error {
	if l.cfg.Prover == nil {
		return nil
	}
	const often = 3 // a pool that many ask makes new connections all the time
	for range often {
		now := proved{l.cfg.Prover.Connection(), l.cfg.Database.connect.opened.Load()}
		if now.over != nil && now == l.proved {
			return nil
		}
		err := l.cfg.Prover.Prove(ctx, l.cfg.Database)
		if errors.Is(err, codes.Conflict) || errors.Is(err, codes.NotImplemented) {
			err = elsewhere{err}
		}
		if err != nil {
			return err
		}
		l.proved = now
	}
	return nil
}
