package stream

import (
	"bytes"
	"fmt"

	"confcenter/protocol"
)

// half is the bytes that one end of a connection sends.
type half struct {
	order order // of TCP's segments

	// offset is that of the first byte not decoded yet: the beginning of the frame being
	// read, or of buf if there is none.
	offset int64
	buf    []byte // part of a header; of a body, if inBody; of what is hunted through

	inBody bool
	header protocol.Header
	left   int64 // bytes of the body that have not come yet
	holed  bool  // bytes of the body are missing, so that the rest of it is not kept

	hunting bool // for the beginning of a frame
	skipped int64
	reason  string // why it hunts
	foreign bool   // it hunts because of bytes that are no frame
}

// take decodes the next bytes of an end.
func (a *Assembler) take(c *Conn, end uint8, at int64, b []byte) {
	h := &c.ends[end]
	for len(b) > 0 {
		switch {
		case c.tls:
			a.stats.Skipped += int64(len(b))
			return
		case h.hunting:
			b = a.hunt(c, end, at, b)
		case h.inBody:
			b = a.takeBody(c, end, at, b)
		default:
			b = a.takeHeader(c, end, at, b)
		}
	}
}

// takeHeader decodes a header and the body behind it, as far as they are there.
func (a *Assembler) takeHeader(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	b = a.joined(h, b)
	if len(b) < protocol.HeaderSize {
		a.keep(h, b)
		return nil
	}
	header, reason := judge(b)
	if reason != "" {
		if h.offset == 0 && isTLS(b) {
			return a.pass(c, end, at, b)
		}
		h.lose(reason, true)
		return b
	}
	h.inBody, h.header, h.left, h.holed = true, header, int64(header.BodyLen), false
	return a.takeBody(c, end, at, b[protocol.HeaderSize:])
}

// takeBody decodes a body, which is copied only if it arrives in pieces.
func (a *Assembler) takeBody(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	n := int(min(int64(len(b)), h.left))
	h.left -= int64(n)
	if h.left == 0 && len(h.buf) == 0 && !h.holed {
		a.endFrame(c, end, at, b[:min(n, a.cfg.KeepBody)])
		return b[n:]
	}
	if kept := min(n, a.cfg.KeepBody-len(h.buf)); kept > 0 && !h.holed {
		a.keep(h, b[:kept])
	}
	if h.left == 0 {
		a.endFrame(c, end, at, a.letGo(h))
	} else if a.held > a.cfg.Memory {
		a.shrink(c)
	}
	return b[n:]
}

// endFrame emits the frame whose body is complete, or whose last bytes are lost.
func (a *Assembler) endFrame(c *Conn, end uint8, at int64, body []byte) {
	h := &c.ends[end]
	offset, size := h.offset, protocol.HeaderSize+int64(h.header.BodyLen)
	h.offset += size
	h.inBody = false
	if !c.sure {
		c.learn(h.header.Command, end)
	}
	c.Frames++
	a.stats.Frames++
	a.stats.FrameBytes += size
	a.frame = Frame{Header: h.header, At: at, From: c.direction(end), Body: body, Offset: offset}
	a.sink.Frame(c, &a.frame)
}

// keep appends b to buf, which grows with what arrives and not with what a header says.
func (a *Assembler) keep(h *half, b []byte) {
	a.held -= cap(h.buf)
	h.buf = append(h.buf, b...)
	a.held += cap(h.buf)
}

// letGo removes buf and returns it.
func (a *Assembler) letGo(h *half) (buf []byte) {
	buf, h.buf = h.buf, nil
	a.held -= cap(buf)
	return buf
}

// joined is what was kept, if anything, and b behind it.
func (a *Assembler) joined(h *half, b []byte) []byte {
	if len(h.buf) == 0 {
		return b
	}
	return append(a.letGo(h), b...)
}

// learn infers from a command who the client is, on a connection whose beginning was
// not seen.
func (c *Conn) learn(cmd protocol.Command, end uint8) {
	row := protocol.Lookup(cmd.Request())
	if row == nil || (row.Push && row.Role != protocol.Pushed) {
		return // both sides may send it
	}
	server := cmd.IsReply() != (row.Role == protocol.Pushed)
	c.sure = true
	if c.client = end; server {
		c.client = 1 - end
	}
}

// judge reads a header where there must be one; reason says why it is not.
func judge(b []byte) (h protocol.Header, reason string) {
	h, err := protocol.ParseHeader(b)
	switch {
	case err != nil:
		return h, err.Error()
	case h.BodyLen > MaxFrame:
		return h, fmt.Sprintf("body length is %d, more than any frame has", h.BodyLen)
	case b[0] != protocol.Version && !known(h.Command):
		return h, fmt.Sprintf("version is %d and there is no command %v", b[0], h.Command)
	}
	return h, ""
}

func known(c protocol.Command) bool {
	return protocol.Lookup(c.Request()) != nil
}

const reasonTLS = "this is TLS, which ccdump does not read; tshark does, given its keys: see docs/debugging.md"

// isTLS reports whether b begins as a record of TLS does: with one of its four types and a version.
func isTLS(b []byte) bool {
	return len(b) > 2 && b[0] >= 20 && b[0] <= 23 && b[1] == 3 && b[2] <= 4
}

// pass gives up on a connection, which begins with b and is TLS.
func (a *Assembler) pass(c *Conn, end uint8, at int64, b []byte) []byte {
	c.tls = true
	a.stats.TLS++
	a.tell(c, &Skip{At: at, From: c.direction(end), Bytes: int64(len(b)), Reason: reasonTLS, Foreign: true})
	return nil
}

// lose starts to hunt for a frame, because the bytes are not one (foreign) or because
// some are missing.
func (h *half) lose(reason string, foreign bool) {
	if !h.hunting {
		h.hunting, h.reason, h.foreign, h.skipped = true, reason, foreign, 0
	}
}

var frameMagic = []byte{protocol.Version, protocol.HeaderSize}

// hunt searches for the next place where a frame plausibly begins.
func (a *Assembler) hunt(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	b = a.joined(h, b)
	i, found := findFrame(b)
	h.offset += int64(i)
	h.skipped += int64(i)
	if !found {
		a.keep(h, b[i:])
		return nil
	}
	a.endHunt(c, end, at)
	return b[i:]
}

// endHunt reports what was skipped.
func (a *Assembler) endHunt(c *Conn, end uint8, at int64) {
	h := &c.ends[end]
	h.hunting = false
	if h.skipped > 0 {
		a.tell(c, &Skip{At: at, From: c.direction(end), Offset: h.offset - h.skipped, Bytes: h.skipped, Reason: h.reason, Foreign: h.foreign, Lost: !h.foreign})
	}
	h.skipped = 0
}

func (a *Assembler) report(c *Conn, end uint8, at, offset, n int64, reason string, lost bool) {
	a.tell(c, &Skip{At: at, From: c.direction(end), Offset: offset, Bytes: n, Reason: reason, Lost: lost})
}

func (a *Assembler) tell(c *Conn, s *Skip) {
	a.stats.Skipped += s.Bytes
	a.sink.Skipped(c, s)
}

// findFrame returns where in window a frame plausibly begins, or else from where on it
// is too early to say.
func findFrame(window []byte) (at int, found bool) {
	for i := 0; ; i++ {
		next := bytes.Index(window[i:], frameMagic)
		if next < 0 {
			if n := len(window); n > 0 && window[n-1] == protocol.Version {
				return n - 1, false
			}
			return len(window), false
		}
		i += next
		if yes, early := plausible(window[i:]); yes || early {
			return i, yes
		}
	}
}

// plausible is stricter than judge, because bytes may look like a header by chance: the
// command must be in the table, the body must begin as bodies do, and if its end is
// there the next header must follow. early says that too little is there to tell.
func plausible(b []byte) (yes, early bool) {
	if len(b) < protocol.HeaderSize {
		return false, true
	}
	h, reason := judge(b)
	if reason != "" || !known(h.Command) {
		return false, false
	}
	if h.BodyLen > 0 && len(b) == protocol.HeaderSize {
		return false, true
	}
	if h.BodyLen > 0 && bytes.IndexByte([]byte("{[1ofn \t\r\n"), b[protocol.HeaderSize]) < 0 {
		return false, false
	}
	next := b[min(len(b), protocol.HeaderSize+int(h.BodyLen)):]
	if len(next) >= protocol.HeaderSize {
		_, reason = judge(next)
		return reason == "", false
	}
	return len(next) < 2 || next[1] == protocol.HeaderSize, false
}

// lose takes it that n bytes at the current place of a direction are unknown.
func (a *Assembler) lose(c *Conn, end uint8, at, n int64, reason string) {
	if n <= 0 {
		return
	}
	a.stats.Lost += n
	if c.tls {
		return
	}
	h := &c.ends[end]
	if h.inBody {
		inside := min(n, h.left)
		a.report(c, end, at, h.offset+protocol.HeaderSize+int64(h.header.BodyLen)-h.left, inside, reason, true)
		h.left, h.holed = h.left-inside, true
		if n -= inside; h.left == 0 {
			a.endFrame(c, end, at, a.letGo(h))
		}
		if n == 0 {
			return
		}
	}
	h.lose(reason, false)
	gone := int64(len(h.buf)) + n
	a.letGo(h)
	h.offset += gone
	h.skipped += gone
}

// endOfBytes reports what is left when no more bytes will come.
func (a *Assembler) endOfBytes(c *Conn, end uint8, at int64) {
	h := &c.ends[end]
	switch n := int64(len(h.buf)); {
	case h.inBody:
		got := int64(h.header.BodyLen) - h.left
		reason := fmt.Sprintf("%v seq=%d %dB ends here: %d of the body's bytes are missing", h.header.Command, h.header.Seq, h.header.BodyLen, h.left)
		a.report(c, end, at, h.offset, protocol.HeaderSize+got, reason, false)
		h.inBody = false
	case h.hunting:
		h.skipped += n
		h.offset += n
		a.endHunt(c, end, at)
	case n > 0:
		a.report(c, end, at, h.offset, n, fmt.Sprintf("%d bytes of a header", n), false)
	}
	a.letGo(h)
}

// drop discards what an end has of a body.
func (a *Assembler) drop(c *Conn, end uint8) {
	h := &c.ends[end]
	if h.inBody && len(h.buf) > 0 {
		a.report(c, end, a.at, h.offset+protocol.HeaderSize, int64(len(h.buf)), fmt.Sprintf("more than %d MiB waited for other packets", a.cfg.Memory>>20), true)
		h.holed = true
		a.letGo(h)
	}
}
