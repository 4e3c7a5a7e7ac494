package sse

import (
	"net"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/internal/admission"
)

// The kernel would hold megabytes of each answer that no one reads.
func TestTheKernelHoldsLittleOfWhatIsNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted := admission.New(admission.Limits{}).Front(1, 0).Listen(l, zerolog.Nop())
	defer func() { _ = accepted.Close() }()
	peer, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = peer.Close() }()
	c, err := accepted.Accept()
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	unsent := 0
	require.NoError(t, NewConn(c.(*admission.Conn)).raw.Control(func(fd uintptr) { unsent, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT) }))
	require.NoError(t, err)
	require.Equal(t, unsentBytes, unsent)
}
