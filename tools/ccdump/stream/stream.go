package stream

import (
	"cmp"
	"container/list"
	"net/netip"

	"confcenter/protocol"
)

// Config has the limits of an Assembler. The zero value means the defaults.
type Config struct {
	// Ports, if any, are the servers' ports: connections that use none of them are
	// ignored.
	Ports []uint16
	// KeepBody is how much of a body is handed to the sink, in bytes; the rest is
	// only counted. Default 4 MiB, the largest request.
	KeepBody int
	// Memory is how many bytes in all may wait for those before or after them.
	// Default 64 MiB. Beyond it the connections that have been idle longest lose theirs.
	Memory int
	// Conns is how many connections are known at a time. Default 16,384. Beyond it
	// the one that has been idle longest is forgotten.
	Conns int
}

func (c Config) withDefaults() Config {
	c.KeepBody = cmp.Or(c.KeepBody, protocol.MaxBody)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.Conns = cmp.Or(c.Conns, 16384)
	c.KeepBody = min(c.KeepBody, c.Memory/4)
	return c
}

// MaxFrame is the longest plausible body, in bytes: longer than any merged document
// can be.
const MaxFrame = 64 << 20

// Dir says who sends.
type Dir uint8

// The directions.
const (
	FromClient Dir = iota
	FromServer
)

// Other is the opposite direction.
func (d Dir) Other() Dir { return 1 - d }

// String is the arrow of a line: > from the client to the server.
func (d Dir) String() string {
	if d == FromClient {
		return ">"
	}
	return "<"
}

// Conn is a connection.
type Conn struct {
	// ID numbers the connections of a capture from 1.
	ID int
	// Frames is how many frames were found on it.
	Frames int64
	// State belongs to the sink.
	State any
	// EndedBy is who ended it first, if HasEnd.
	EndedBy Dir
	HasEnd  bool

	key      pair
	client   uint8 // which end of key is the client's
	sure     bool  // that it is
	closed   bool
	closedAt int64
	segments int64         // with payload, and one
	tls      bool          // nothing of it can be read
	ends     [2]half       // what each end of key sends
	place    *list.Element // by the last time it moved
}

// Endpoint is the address of one side.
func (c *Conn) Endpoint(of Dir) netip.AddrPort { return c.key[c.client^uint8(of)] }

// Frame is a frame with its place.
type Frame struct {
	protocol.Header
	// At is when its last byte was captured, in ns since 1970.
	At   int64
	From Dir
	// Body is the known beginning of the body. It is valid only during the call.
	Body []byte
	// Offset is the header's place in the bytes of its direction.
	Offset int64
}

// Whole reports whether Body is complete.
func (f *Frame) Whole() bool { return uint64(len(f.Body)) == uint64(f.BodyLen) }

// Skip is a piece of a direction that could not be decoded.
type Skip struct {
	At     int64 // when it was over
	From   Dir
	Offset int64
	Bytes  int64
	Reason string
	// Foreign says that the bytes are there and are not a frame. Lost says that bytes
	// were sent and are unknown. Neither: the connection ended in the middle of a frame.
	Foreign, Lost bool
}

// How says how a connection ended.
type How string

// The ends of a connection.
const (
	Finished  How = "closed"
	Reset     How = "reset"
	Replaced  How = "replaced by a new connection between the same ports"
	Forgotten How = "forgotten: too many connections"
	Open      How = "open at the end of the capture"
)

// endedBy notes who ends the connection, unless it has ended before.
func (c *Conn) endedBy(end uint8) {
	if !c.HasEnd {
		c.EndedBy, c.HasEnd = c.direction(end), true
	}
}

// Sink receives what is found, in the order of time for each connection.
type Sink interface {
	// Opened comes before anything else about c. joined says that its beginning was
	// not captured.
	Opened(c *Conn, at int64, joined bool)
	// Frame is called for each frame.
	Frame(c *Conn, f *Frame)
	// Skipped is called for bytes between frames, or lost.
	Skipped(c *Conn, s *Skip)
	// Closed comes last.
	Closed(c *Conn, at int64, how How)
}

// Stats counts what an Assembler has seen.
type Stats struct {
	Segments    int64 `json:"segments"`
	Ignored     int64 `json:"ignored"`     // of other ports, or of connections that were over
	Retransmits int64 `json:"retransmits"` // payload that was there already
	OutOfOrder  int64 `json:"out_of_order"`
	Lost        int64 `json:"lost"` // bytes the capture does not have
	Conns       int64 `json:"connections"`
	TLS         int64 `json:"tls"` // of these
	Frames      int64 `json:"frames"`
	FrameBytes  int64 `json:"frame_bytes"`
	Skipped     int64 `json:"skipped"` // bytes that were no frames
}

// Assembler reassembles connections.
type Assembler struct {
	cfg   Config
	sink  Sink
	stats Stats

	conns map[pair]*Conn
	// *Conn, the one that has not moved for longest first
	ring list.List
	at   int64 // of the latest segment
	held int   // bytes of room for what waits

	frame Frame // handed to the sink
}

// New makes an Assembler.
func New(cfg Config, sink Sink) *Assembler {
	return &Assembler{cfg: cfg.withDefaults(), sink: sink, conns: map[pair]*Conn{}}
}

// Stats returns the counts so far.
func (a *Assembler) Stats() Stats { return a.stats }

// pair is a connection's two ends, the one with the smaller port first.
type pair [2]netip.AddrPort

// pairOf also says which end is src.
func pairOf(src, dst netip.AddrPort) (p pair, end uint8) {
	if cmp.Or(cmp.Compare(dst.Port(), src.Port()), dst.Addr().Compare(src.Addr())) < 0 {
		return pair{dst, src}, 1
	}
	return pair{src, dst}, 0
}

// open adds a connection. client is the end of key that began it, as far as is known.
func (a *Assembler) open(key pair, client uint8, sure, joined bool, at int64) *Conn {
	if len(a.conns) >= a.cfg.Conns {
		a.forget(a.ring.Front().Value.(*Conn), a.at, Forgotten)
	}
	a.stats.Conns++
	c := &Conn{ID: int(a.stats.Conns), key: key, client: client, sure: sure, segments: 1}
	a.conns[key] = c
	c.place = a.ring.PushBack(c)
	a.sink.Opened(c, at, joined)
	return c
}

// forget removes c altogether.
func (a *Assembler) forget(c *Conn, at int64, how How) {
	a.finish(c, at, how)
	a.ring.Remove(c.place)
	delete(a.conns, c.key)
}

// finish tells the sink that c is over; c stays known, so that stragglers do not look
// like a new connection.
func (a *Assembler) finish(c *Conn, at int64, how How) {
	if c.closed {
		return
	}
	a.giveUpAll(c, at)
	for end := range c.ends {
		a.endOfBytes(c, uint8(end), at)
	}
	c.closed, c.closedAt = true, at
	a.sink.Closed(c, at, how)
	c.State = nil
}

// Finish ends all connections that are still open.
func (a *Assembler) Finish() {
	for a.ring.Len() > 0 {
		a.forget(a.ring.Front().Value.(*Conn), a.at, Open)
	}
}

// direction is whose bytes end sends.
func (c *Conn) direction(end uint8) Dir { return Dir(end ^ c.client) }

// shrink discards what waits on the connections that have been idle longest, until a
// quarter of the memory is free again. It spares busy, the current one.
func (a *Assembler) shrink(busy *Conn) {
	for e := a.ring.Front(); e != nil && a.held > a.cfg.Memory/4*3; e = e.Next() {
		c := e.Value.(*Conn)
		if c == busy || c.closed {
			continue
		}
		a.giveUpAll(c, a.at)
		for end := range c.ends {
			a.drop(c, uint8(end))
		}
	}
}
