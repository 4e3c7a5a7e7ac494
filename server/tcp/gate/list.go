package gate

import (
	"fmt"
	"slices"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// listShare is the part of the memory for peers that one list may take.
const listShare = 4

// List is a long reply, of what there is as many of as peers or people make. A reply is one
// frame, so it is built as a whole, in memory for peers.
type List struct {
	What   string       // it lists, such as 5 clients
	Size   int          // what building it takes, about, in bytes
	Remedy string       // against a list that is too long
	For    memory.Taker // asks for it
}

// Append appends to dst what build does, or the refusal of a list that there is no memory
// for. It may be called from any goroutine.
func (l *List) Append(g *loop.Group, dst []byte, build func(dst []byte) []byte) []byte {
	pool, size := g.Memory, int64(l.Size)
	switch most := pool.Limit() / listShare; {
	case size > most:
		pool.Refuse()
		return protocol.AppendResult(dst, int(codes.TooLarge), fmt.Sprintf("the list of %s has some %d bytes, and the limit is %d: %s", l.What, size, most, l.Remedy))
	case !pool.For(l.For).Take(size):
		return protocol.AppendResult(dst, int(codes.Busy), "there is no memory left for the list; try again later")
	}
	defer pool.Give(size)
	return build(slices.Grow(dst, l.Size))
}
