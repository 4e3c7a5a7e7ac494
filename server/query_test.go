package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/protocol"
)

func TestHungupTellsWhenAClientLeft(t *testing.T) {
	s, w := newStoreWire(t, nil)
	time0 := s.srv.cfg.Clock.Now()
	other, _ := addWire(t, s.srv, s.loop)
	other.receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":7,"clitype":1}`)))
	s.srv.cfg.Clock.(*clock.Fake).Advance(90 * time.Second)
	other.hangUp()
	s.receive(protocol.AppendFrame(nil, protocol.Hungup, 1, []byte(`{"op":"get"}`)))
	shown := func(at time.Time) string { return at.Format("2006-01-02 15:04:05") }
	require.Contains(t, w.got.String(), fmt.Sprintf(`"begin_time":"%s","end_time":"%s"`, shown(time0), shown(time0.Add(90*time.Second))))
}
