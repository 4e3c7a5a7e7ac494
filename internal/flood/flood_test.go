package flood

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func TestAFloodComesFromSeveralAddressesOverBothFronts(t *testing.T) {
	tcp, web := listen(t), listen(t)
	f, err := New(tcp.Addr().String(), web.Addr().String(), 100)
	require.NoError(t, err)
	for range 64 {
		require.NoError(t, f.Connect())
	}
	from, said := map[string]int{}, map[string]int{}
	var accepted []net.Conn
	for range 32 {
		for _, l := range []*net.TCPListener{tcp, web} {
			c, err := l.Accept()
			require.NoError(t, err)
			accepted = append(accepted, c)
			from[c.RemoteAddr().(*net.TCPAddr).IP.String()]++
		}
	}
	require.Len(t, from, Sources)
	require.NoError(t, accepted[0].Close()) // silent
	f.Close()
	require.Equal(t, Tally{Begun: 64, Evicted: 1}, f.Tally)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, c := range accepted[1:] {
		all.Go(func() {
			b, _ := io.ReadAll(c) // ends with a reset
			c.Close()
			mu.Lock()
			defer mu.Unlock()
			if len(b) >= protocol.HeaderSize {
				b = b[:protocol.HeaderSize]
			}
			said[string(b)]++
		})
	}
	all.Wait()
	require.Len(t, said, 5, "%v", said)
}

func TestAFloodHoldsAsManyAsItIsTold(t *testing.T) {
	tcp, web := listen(t), listen(t)
	f, err := New(tcp.Addr().String(), web.Addr().String(), 3)
	require.NoError(t, err)
	defer f.Close()
	for range 10 {
		require.NoError(t, f.Connect())
	}
	require.Equal(t, Tally{Begun: 10}, f.Tally)
	_, err = New("localhost:1", web.Addr().String(), 1)
	require.Error(t, err)
}
