//go:build !race || soak

package connection

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is a peer that announces much and sends little.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	e.n--
	return len(p) / 2, nil
}

func TestReadBodyAllocatesAsItComes(t *testing.T) {
	peer := &endless{n: 3}
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			peer.n = 3
			_, err := readBody(peer, 1<<30)
			require.ErrorIs(b, err, io.ErrUnexpectedEOF)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2*firstChunk))
}
