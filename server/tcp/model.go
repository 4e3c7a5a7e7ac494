package tcp

import (
	"context"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
)

// Add makes g answer for the models. Those that the table of commands
// has, and that are not among them, get codes.NotImplemented.
func Add(g *gate.Gate, models []op.Model) {
	routes := map[protocol.Command]gate.Route{}
	for i := range protocol.Commands {
		if id := protocol.Commands[i].ID; id.Model() != "" {
			routes[id] = gate.Absent("this server has no " + id.Model())
		}
	}
	for i := range models {
		m := &models[i]
		for place := range m.Operations {
			routes[protocol.OfModel(m.Name, place)] = gate.Route{Handle: asks(m, &m.Operations[place]), Strict: true}
		}
	}
	g.Add(routes)
}

// asks handles one operation, away from the loop: it may take long to read the question, and a
// write waits until it is durable. The scanner has read the body.
func asks(m *op.Model, o *op.Operation) gate.Handler {
	return func(s *gate.Session, h protocol.Header, _ []byte) bool {
		room := roomOf(s)
		if err := room.take(int64(len(s.Local.Req.Body()))); err != nil {
			s.Refuse(h, err)
			return true
		}
		body, by, asks, now := slices.Clone(s.Local.Req.Body()), s.Actor(), s.Request.Apart(), s.Loop.Moment()
		gate.Waits(s, h, func(ctx context.Context, dst []byte) ([]byte, error) {
			defer room.give()
			question, err := o.Read(body, room.take)
			if err != nil {
				return nil, err
			}
			answer, err := asks.Ask(ctx, now, m, o, by, question)
			if err != nil {
				return nil, err
			}
			if o.Writes() {
				s.Group().Count.StateWrites.Add(1)
			}
			return protocol.AppendAnswer(dst, answer), nil
		})
		return true
	}
}

// room is what one question takes of the memory for peers.
type room struct {
	pool  *memory.Pool // set at open
	share memory.Share // set at open: of the pool
	held  int64
}

func roomOf(s *gate.Session) *room {
	pool := s.Group().Memory
	return &room{pool: pool, share: pool.For(s.Taker())}
}

// takenFor is after what time a question for which there was no memory is worth asking again.
const takenFor = time.Second

func (r *room) take(n int64) error {
	if !r.share.Take(n) {
		return &codes.Error{Code: codes.Busy, After: takenFor, Text: "there is no memory for the question now; try again later, or ask for less at a time"}
	}
	r.held += n
	return nil
}

func (r *room) give() { r.pool.Give(r.held) }
