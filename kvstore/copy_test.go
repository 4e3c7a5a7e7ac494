package kvstore

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
)

// copyLog has copies, when it is let.
type copyLog struct {
	fakeLog
	gate   chan struct{} // takes one for each copy that is begun, and each read
	closed chan struct{} // gets one for each that is closed
}

func (l *copyLog) Copy() (kv.Copy, error) {
	<-l.gate
	return &fakeCopy{l}, nil
}

type fakeCopy struct{ log *copyLog }

func (c *fakeCopy) Revision() kv.Revision { return 1 }
func (c *fakeCopy) Time() int64           { return 2 }
func (c *fakeCopy) Close()                { c.log.closed <- struct{}{} }
func (c *fakeCopy) Next(dst []byte) ([]byte, error) {
	<-c.log.gate
	return dst, io.EOF
}

// No one else closes a copy that a hanging disk begins too late.
func TestACopyThatComesTooLateIsClosed(t *testing.T) {
	now := clocktest.NewFake(noon)
	log := &copyLog{gate: make(chan struct{}, 1), closed: make(chan struct{}, 1)}
	s, err := Open(t.Context(), Config{Clock: now}, log)
	require.NoError(t, err)
	late := func(read func() error) {
		t.Helper()
		got := make(chan error, 1)
		waiters := now.Waiters()
		go func() { got <- read() }()
		now.BlockUntil(waiters + 1)
		now.Advance(s.cfg.ReadTimeout)
		require.ErrorIs(t, <-got, codes.Timeout)
	}
	late(func() error {
		_, err := s.Copy(t.Context())
		return err
	})
	log.gate <- struct{}{}
	<-log.closed

	log.gate <- struct{}{}
	c, err := s.Copy(t.Context())
	require.NoError(t, err)
	late(func() error {
		_, err := c.Next(nil)
		return err
	})
	log.gate <- struct{}{}
	c.Close()
	<-log.closed
	require.NoError(t, s.Close())
	_, err = c.Next(nil)
	require.ErrorIs(t, err, codes.Closed)
	_, err = s.Copy(t.Context())
	require.ErrorIs(t, err, codes.Closed)
}
