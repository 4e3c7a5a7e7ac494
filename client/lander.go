package client

import (
	"context"

	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/storage/field"
)

// Lander is the server's side of landing, for a lander in a process of its own: it is a Source
// of package storage/landing, which writes to databases.
type Lander struct{ c *Client }

// Lander returns what a lander needs. Nothing is sent.
func (c *Client) Lander() *Lander { return &Lander{c} }

// Connection identifies, by ==, the connection that requests go by; nil: there is none now.
// Another one may lead to a server that was started anew, with another database.
func (l *Lander) Connection() any {
	if sess, _ := l.c.state(); sess != nil {
		return sess
	}
	return nil
}

// Settings are those that landers go by.
func (l *Lander) Settings(ctx context.Context) (field.Settings, error) {
	set, err := say[field.Settings](ctx, l.c, protocol.LdSettings, &field.Nothing{})
	return set, during(err, "landing settings")
}

// Claim asks for a dirty table, or renews the claim of the same lander. It may be sent twice.
func (l *Lander) Claim(ctx context.Context, table int, who string) (field.Claim, error) {
	claimed, err := say[field.Claim](ctx, l.c, protocol.LdClaim, &field.ClaimAsk{Table: table, Who: who})
	return claimed, during(err, "claim of dirty table %d", table)
}

// Release gives a claim back.
func (l *Lander) Release(ctx context.Context, table int, fence kv.Revision) error {
	return tell(ctx, l.c, protocol.LdRelease, &field.ReleaseAsk{Table: table, Fence: fence})
}

// Dirty returns the next batch of a dirty table, about limit rows (0: the settings'), fewer if
// they are long; nil if there is nothing to land.
func (l *Lander) Dirty(ctx context.Context, table, limit int) (*field.Batch, error) {
	taken, err := say[field.Taken](ctx, l.c, protocol.LdTake, &field.TakeAsk{Table: table, Limit: limit})
	return taken.Batch, during(err, "batch of dirty table %d", table)
}

// Landed says what has become of a batch: its rows are in the database, except those that
// failed. Of the rows it sends those that the server asks for. If the connection breaks it is
// sent again: the second time it may fail with codes.Conflict, although the first has taken
// effect.
func (l *Lander) Landed(ctx context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error {
	done := &field.LandedAsk{Batch: *b, Fence: fence, Failed: failed}
	done.Rows, done.Count = nil, max(b.Count, len(b.Rows))
	refused := make(map[field.Failure]bool, len(failed))
	for _, f := range failed {
		refused[field.Failure{Table: f.Table, Key: f.Key}] = true
	}
	for _, row := range b.Rows {
		if row.Noted || len(refused) > 0 && refused[field.Failure{Table: row.Table(), Key: row.Key()}] {
			row.Value = nil
			done.Rows = append(done.Rows, row)
		}
	}
	return tell(ctx, l.c, protocol.LdLanded, done)
}

// Newer says that the database has a row with that version or a later one. The batch has to be
// taken again.
func (l *Lander) Newer(ctx context.Context, version int64) error {
	return tell(ctx, l.c, protocol.LdNewer, &field.NewerAsk{Version: version})
}
