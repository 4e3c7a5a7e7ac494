package client

import (
	"context"

	"confcenter/kv"
	"confcenter/protocol"
)

// Lander is the server's side of landing, for a lander in a process of its own: see package
// storage/landing, which writes to databases.
type Lander struct{ c *Client }

// Lander returns what a lander needs. Nothing is sent.
func (c *Client) Lander() *Lander { return &Lander{c} }

// Settings are those that landers go by.
func (l *Lander) Settings(ctx context.Context) (protocol.LanderSettings, error) {
	set, err := ask(ctx, l.c, protocol.LdSettings, append(begin(protocol.LdSettings), "{}"...), protocol.ParseLanderSettings)
	return set, during(err, "landing settings")
}

// Claim asks for a dirty table, or renews the claim of the same lander. It may be sent twice.
func (l *Lander) Claim(ctx context.Context, table int, who string) (protocol.LanderClaimed, error) {
	frame := protocol.AppendLanderClaim(begin(protocol.LdClaim), protocol.LanderClaim{Table: table, Who: who})
	claimed, err := ask(ctx, l.c, protocol.LdClaim, frame, protocol.ParseLanderClaimed)
	return claimed, during(err, "claim of dirty table %d", table)
}

// Release gives a claim back.
func (l *Lander) Release(ctx context.Context, table int, fence kv.Revision) error {
	return l.tell(ctx, protocol.LdRelease, protocol.AppendLanderClaim(begin(protocol.LdRelease), protocol.LanderClaim{Table: table, Fence: fence}))
}

// Take returns the next batch of a dirty table, about limit rows (0: the settings'), fewer if
// they are long; nil if there is nothing to land.
func (l *Lander) Take(ctx context.Context, table, limit int) (*protocol.LanderBatch, error) {
	frame := protocol.AppendLanderTake(begin(protocol.LdTake), protocol.LanderTake{Table: table, Limit: limit})
	b, err := ask(ctx, l.c, protocol.LdTake, frame, protocol.ParseLanderBatch)
	return b, during(err, "batch of dirty table %d", table)
}

// Landed says what has become of a batch. Of its rows only those that are Noted, and those
// that failed, need to be there; if others are missing, Count says how many there were. If the
// connection breaks it is sent again: the second time it may fail with codes.Conflict, although
// the first has taken effect.
func (l *Lander) Landed(ctx context.Context, done protocol.LanderLanded) error {
	for i := range done.Rows {
		done.Rows[i].Value = nil
	}
	return l.tell(ctx, protocol.LdLanded, protocol.AppendLanderLanded(begin(protocol.LdLanded), done))
}

// Newer says that the database has a row with that version or a later one. The batch has to be
// taken again.
func (l *Lander) Newer(ctx context.Context, version int64) error {
	return l.tell(ctx, protocol.LdNewer, protocol.AppendLanderVersion(begin(protocol.LdNewer), version))
}

func (l *Lander) tell(ctx context.Context, cmd protocol.Command, frame []byte) error {
	_, err := ask(ctx, l.c, cmd, frame, func(body []byte) (protocol.Result, error) {
		res, err := protocol.ParseResult(body)
		if err == nil && res.Code != 0 {
			err = &protocol.RefusedError{Result: res}
		}
		return res, err
	})
	return during(err, "%v", cmd)
}
