//go:build !race || soak

package client

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

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
