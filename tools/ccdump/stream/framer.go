package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

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

// huntWindow is how much is searched at once for a frame that begins across segments,
// in bytes.
const huntWindow = 32 << 10

// take decodes the next bytes of an end.
func (a *Assembler) take(c *Conn, end uint8, at int64, b []byte) {
	h := &c.ends[end]
	for len(b) > 0 {
		switch {
		case h.hunting:
			b = a.hunt(c, end, at, b)
		case h.inBody:
			b = a.takeBody(c, end, at, b)
		case len(h.buf) > 0:
			b = a.takeHeader(c, end, at, b)
		default:
			b = a.takeFrames(c, end, at, b)
		}
	}
}

// takeFrames decodes the frames that are whole in b, and leaves the rest to the next
// turn or to buf.
func (a *Assembler) takeFrames(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	for len(b) >= protocol.HeaderSize {
		header, reason := judge(b)
		if reason != "" {
			if h.offset == 0 && c.secures(a, end, at, b) {
				c.arrive(a, end, at, b)
				return nil
			}
			h.lose(reason, true)
			return b
		}
		total := protocol.HeaderSize + int(header.BodyLen)
		if len(b) < total {
			h.begin(header)
			return b[protocol.HeaderSize:]
		}
		offset := h.offset
		h.offset += int64(total)
		a.emit(c, end, at, header, b[protocol.HeaderSize:protocol.HeaderSize+min(int(header.BodyLen), a.cfg.KeepBody)], offset)
		b = b[total:]
	}
	if len(b) > 0 {
		a.keep(h, b)
	}
	return nil
}

// takeHeader completes a header that arrived in pieces.
func (a *Assembler) takeHeader(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	n := min(protocol.HeaderSize-len(h.buf), len(b))
	a.keep(h, b[:n])
	b = b[n:]
	if len(h.buf) < protocol.HeaderSize {
		return b
	}
	header, reason := judge(h.buf)
	if reason != "" {
		if h.offset == 0 && c.secures(a, end, at, h.buf) {
			c.arrive(a, end, at, a.letGo(h))
			c.arrive(a, end, at, b)
			return nil
		}
		h.lose(reason, true)
		return b
	}
	a.letGo(h)
	h.begin(header)
	if h.left == 0 {
		a.endFrame(c, end, at)
	}
	return b
}

// begin starts the body of a frame.
func (h *half) begin(header protocol.Header) {
	h.inBody, h.header, h.left, h.holed = true, header, int64(header.BodyLen), false
}

// takeBody collects a body that arrived in pieces.
func (a *Assembler) takeBody(c *Conn, end uint8, at int64, b []byte) []byte {
	h := &c.ends[end]
	n := int(min(int64(len(b)), h.left))
	if kept := min(n, a.cfg.KeepBody-len(h.buf)); kept > 0 && !h.holed {
		a.keep(h, b[:kept])
	}
	h.left -= int64(n)
	if h.left == 0 {
		a.endFrame(c, end, at)
	} else if a.held > a.cfg.Memory {
		a.shrink(c)
	}
	return b[n:]
}

// endFrame emits the frame whose body is complete, or whose last bytes are lost.
func (a *Assembler) endFrame(c *Conn, end uint8, at int64) {
	h := &c.ends[end]
	offset := h.offset
	h.offset += protocol.HeaderSize + int64(h.header.BodyLen)
	h.inBody = false
	a.emit(c, end, at, h.header, a.letGo(h), offset)
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

func (a *Assembler) emit(c *Conn, end uint8, at int64, header protocol.Header, body []byte, offset int64) {
	if !c.sure {
		c.learn(header.Command, end)
	}
	c.Frames++
	a.stats.Frames++
	a.stats.FrameBytes += protocol.HeaderSize + int64(header.BodyLen)
	a.frame = Frame{Header: header, At: at, From: c.direction(end), Body: body, Offset: offset}
	a.sink.Frame(c, &a.frame)
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
	window, rest := b, []byte(nil)
	if len(h.buf) > 0 {
		n := min(len(b), huntWindow)
		a.keep(h, b[:n])
		window, rest = h.buf, b[n:]
	}
	i, found := findFrame(window)
	h.offset += int64(i)
	h.skipped += int64(i)
	old := a.letGo(h)
	if !found {
		a.keep(h, window[i:])
		return rest
	}
	a.endHunt(c, end, at)
	if old == nil {
		return window[i:]
	}
	// The rest of the window goes first; that does not return here with anything in
	// buf.
	a.take(c, end, at, old[i:])
	return rest
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
		switch plausible(window[i:]) {
		case yes:
			return i, true
		case perhaps:
			return i, false
		}
	}
}

type verdict uint8

const (
	no verdict = iota
	perhaps
	yes
)

// plausible is stricter than judge, because bytes may look like a header by chance: the
// command must be in the table, the body must begin as bodies do, and if its end is
// there the next header must follow.
func plausible(b []byte) verdict {
	if len(b) < protocol.HeaderSize {
		return perhaps
	}
	h, reason := judge(b)
	if reason != "" || !known(h.Command) {
		return no
	}
	if h.BodyLen == 0 {
		if !mayBeEmpty(h.Command) {
			return no
		}
	} else if len(b) == protocol.HeaderSize {
		return perhaps
	} else if bytes.IndexByte([]byte("{[1ofn \t\r\n"), b[protocol.HeaderSize]) < 0 {
		return no
	}
	if behind := protocol.HeaderSize + int(h.BodyLen); len(b) >= behind+2 {
		if b[behind+1] != protocol.HeaderSize {
			return no
		}
		if len(b) >= behind+protocol.HeaderSize && binary.BigEndian.Uint32(b[behind+2:]) > MaxFrame {
			return no
		}
	}
	return yes
}

var emptyBodies = []protocol.Command{
	protocol.KeepAlive, protocol.KeepAlive.Reply(), protocol.GetCfgName, protocol.Testing.Reply(),
	protocol.SvrRegister, protocol.SvrSearch, protocol.SvrShow, protocol.SvrStat,
}

func mayBeEmpty(c protocol.Command) bool { return slices.Contains(emptyBodies, c) }

// lose takes it that n bytes at the current place of a direction are unknown.
func (a *Assembler) lose(c *Conn, end uint8, at, n int64, reason string) {
	if n <= 0 {
		return
	}
	h := &c.ends[end]
	if h.inBody {
		inside := min(n, h.left)
		a.report(c, end, at, h.offset+protocol.HeaderSize+int64(h.header.BodyLen)-h.left, inside, reason, true)
		h.left, h.holed = h.left-inside, true
		if n -= inside; h.left == 0 {
			a.endFrame(c, end, at)
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
