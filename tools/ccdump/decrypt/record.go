package decrypt

import "encoding/binary"

const (
	headerSize = 5
	// maxRecord is the longest record with its header, in bytes, as RFC 5246, 6.2.3, allows.
	maxRecord = headerSize + 16384 + 2048

	typeChange      = 20 // of the cipher
	typeAlert       = 21
	typeHandshake   = 22
	typeApplication = 23

	// searchBudget is how much is decrypted to find out which record comes after a gap, in
	// bytes and for each gap. Beyond it the side is given up.
	searchBudget = 64 << 20
	// attemptCost is what an attempt costs beside its bytes.
	attemptCost = 256
)

// half is what one side sends.
type half struct {
	buf   []byte // part of a record, or of what is searched for one
	msgs  messages
	phase phase
	keys  *keys // of the phase, once they are known

	// gap says that bytes are missing, or could not be decrypted, and that the next record is
	// to be found. gone is how many bytes there were since the last record that was read.
	gap    bool
	reason string
	gone   int64
	budget int

	blind string // why nothing of it can be read any more; empty: it can
}

// phase is how a side's records are to be read.
type phase uint8

const (
	inClear   phase = iota
	handshake       // of TLS 1.3
	traffic
)

// recordAt judges whether a record may begin at b: its whole length if it does, 0 if not,
// and -1 if that is too early to say.
func recordAt(b []byte) int {
	if len(b) < headerSize {
		return -1
	}
	n := headerSize + int(binary.BigEndian.Uint16(b[3:]))
	if b[0] < typeChange || b[0] > typeApplication || b[1] != 3 || n == headerSize || n > maxRecord {
		return 0
	}
	return n
}

// take cuts what a side sends into records.
func (c *Conversation) take(from Side, at int64, b []byte) {
	h := &c.halves[from]
	h.buf = append(h.buf, b...)
	rest := h.buf
	for len(rest) > 0 && h.blind == "" {
		if h.gap {
			if rest = c.search(from, at, rest); h.gap {
				break
			}
			continue
		}
		n := recordAt(rest)
		if n == 0 {
			c.giveUp(from, "no TLS record begins where one must")
			break
		}
		if n < 0 || n > len(rest) {
			break
		}
		c.record(from, at, rest[:n])
		rest = rest[n:]
	}
	if h.blind != "" {
		c.lose(from, at, int64(len(rest)), h.blind)
		rest = nil
	}
	if h.buf = append(h.buf[:0], rest...); len(rest) == 0 {
		h.buf = nil
	}
}

// search looks for a record that can be read, and returns what is to be read next.
func (c *Conversation) search(from Side, at int64, b []byte) []byte {
	h := &c.halves[from]
	for i := range b {
		switch n := recordAt(b[i:]); {
		case n >= 0 && n < c.suite.cover():
			continue
		case n < 0 || i+n > len(b):
			h.gone += int64(i)
			return b[i:]
		default:
			if c.attempt(from, at, b[i:i+n], h.gone+int64(i)) {
				return b[i+n:]
			}
			if h.budget <= 0 {
				c.giveUp(from, h.reason+", and what comes after cannot be decrypted")
				c.lose(from, at, h.gone, h.blind)
				h.gap, h.gone = false, 0
				return b
			}
		}
	}
	h.gone += int64(len(b))
	return nil
}

// attempt reads a record of which it is not known how many came before: at most as many as
// the missing bytes can have been.
func (c *Conversation) attempt(from Side, at int64, record []byte, gone int64) bool {
	h := &c.halves[from]
	for _, later := range []bool{false, true} {
		if h.keys == nil {
			h.keys = c.derive(from, h.phase)
		}
		k := h.keys
		if later {
			k = c.following(from)
		}
		if k == nil || len(record) < k.suite.cover() {
			continue
		}
		cover := k.suite.cover()
		budget := min(h.budget, searchBudget/8) // one record alone does not use it up
		for skipped := int64(0); skipped*int64(cover) <= gone && budget > 0; skipped++ {
			cost := len(record) + attemptCost
			h.budget, budget = h.budget-cost, budget-cost
			text, kind, ok := k.open(c.plain[:0], record, k.seq+uint64(skipped))
			if !ok {
				continue
			}
			c.found(from, at, k, skipped, gone)
			c.plain = text
			c.said(from, at, kind, text)
			return true
		}
	}
	return false
}

// following are the keys that a side may have taken while bytes were missing.
func (c *Conversation) following(from Side) *keys {
	h := &c.halves[from]
	switch {
	case !c.suite.tls13:
		return nil
	case h.phase == traffic && h.keys != nil:
		return h.keys.next()
	case h.phase == handshake:
		return c.derive(from, traffic)
	}
	return nil
}

// found ends a gap: after it comes a record of keys k, so many after the last one.
func (c *Conversation) found(from Side, at int64, k *keys, skipped, gone int64) {
	h := &c.halves[from]
	said := gone - skipped*int64(k.suite.cover())
	switch {
	case c.tls12() && k.seq == 0 && skipped <= 1:
		said = 0 // the end of the handshake
	case k == h.keys && h.phase == handshake, k != h.keys && h.phase == handshake && skipped == 0:
		said = 0 // nothing but the handshake
	case k != h.keys:
		h.phase, said = traffic, max(1, said) // how much of it was the old keys' is not known
	}
	if k != h.keys {
		h.phase = traffic
	}
	h.keys = k
	k.seq += uint64(skipped) + 1
	h.gap, h.gone, h.msgs = false, 0, messages{}
	c.lose(from, at, said, h.reason)
}

// miss notes that bytes at the current place of a side are unknown.
func (c *Conversation) miss(from Side, at, n int64, reason string) {
	h := &c.halves[from]
	gone := int64(len(h.buf)) + n
	h.buf = nil
	switch {
	case h.blind != "":
		c.lose(from, at, gone, h.blind)
	case h.phase == inClear && !c.tls12():
		c.giveUp(from, "the beginning of the TLS connection was not captured whole: it cannot be decrypted")
		c.giveUp(from.other(), h.blind)
	default:
		if !h.gap {
			h.gap, h.reason, h.budget = true, reason, searchBudget
		}
		if h.phase == inClear {
			h.phase = traffic // what is left of the clear part of TLS 1.2 is passed over
		}
		h.gone += gone
	}
}

// giveUp stops reading a side.
func (c *Conversation) giveUp(from Side, why string) {
	h := &c.halves[from]
	if h.blind == "" {
		h.blind, h.msgs = why, messages{}
	}
}

// messages cuts what a handshake says into messages.
type messages struct {
	head []byte // of a message
	left int    // bytes of its body that have not come yet
	body []byte // of a message that is kept
}

const (
	clientHello = 1
	serverHello = 2
	finished    = 20
	keyUpdate   = 24
	// maxHello is the longest hello that is read, in bytes.
	maxHello = 64 << 10
)

// take calls each with every message that ends in b: with its body, if it is a hello.
func (m *messages) take(b []byte, each func(kind byte, body []byte)) {
	for len(b) > 0 {
		if len(m.head) < 4 {
			n := min(4-len(m.head), len(b))
			m.head = append(m.head, b[:n]...)
			if b = b[n:]; len(m.head) < 4 {
				return
			}
			m.left = int(m.head[1])<<16 | int(m.head[2])<<8 | int(m.head[3])
		}
		n := min(m.left, len(b))
		if kind := m.head[0]; (kind == clientHello || kind == serverHello) && len(m.body)+n <= maxHello {
			m.body = append(m.body, b[:n]...)
		}
		m.left -= n
		if b = b[n:]; m.left > 0 {
			return
		}
		kind, body := m.head[0], m.body
		*m = messages{}
		each(kind, body)
	}
}
