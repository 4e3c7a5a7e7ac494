package player

import (
	"context"

	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
)

// row is the route of an operation of a table.
func row(o *op.Operation, asked any) gate.Route {
	off := gate.Waits
	if o.Memory {
		off = gate.Works
	}
	return gate.Route{Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
		question := o.Ask()
		if err := s.Local.Req.Into(question); err != nil {
			s.Refuse(h, err)
			return true
		}
		holds, by := gate.HeldBy(s, gate.OfStorage), s.Actor()
		off(s, h, func(ctx context.Context, dst []byte) ([]byte, error) {
			answer, err := o.Do(op.Holding(ctx, holds.OnEnd), asked, by, question)
			if err != nil {
				return nil, err
			}
			return protocol.AppendReply(dst, answer), nil
		})
		return true
	}}
}
