package decrypt

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
)

// Side is one side of a connection.
type Side uint8

// The sides.
const (
	Client Side = iota
	Server
)

func (s Side) other() Side { return 1 - s }

// Receiver takes what is said on a connection, by each side in order.
type Receiver interface {
	// Data is called with what a side says; b is valid only during the call.
	Data(from Side, at int64, b []byte)
	// Lost is called for what a side says that cannot be read: about n bytes.
	Lost(from Side, at int64, n int64, reason string)
	// Note is called with what is worth telling of the connection itself; odd if it should not
	// be so.
	Note(from Side, at int64, text string, odd bool)
}

// maxHeld is how much of a connection waits for its keys to be logged, in bytes.
const maxHeld = 256 << 10

const (
	noteNoLog  = "this is TLS: only with --key-log can it be read; docs/debugging.md says how programs write one"
	noteNoKeys = "the key log has no keys of this connection"
	sealed     = "encrypted, and the keys are not known"
)

// Conversation decrypts a connection.
type Conversation struct {
	log *Log // nil: none
	to  Receiver

	halves  [2]half
	client  random
	server  random
	begun   bool // the client's hello was seen
	suite   *suite
	secrets *secrets

	held  []piece // records that wait for keys, of both sides
	bytes int     // in held
	told  bool    // that keys are missing
	plain []byte  // room for what a record says
}

// piece is a record that waits.
type piece struct {
	from   Side
	at     int64
	record []byte
}

// New makes a Conversation. Without a log it says no more than that it is TLS.
func New(log *Log, to Receiver) *Conversation { return &Conversation{log: log, to: to} }

// Hello reports whether the first bytes of a connection, at least 6, are those of TLS, and
// who sends them.
func Hello(b []byte) (from Side, ok bool) {
	if len(b) < 6 || recordAt(b) <= 0 || b[0] != typeHandshake {
		return 0, false
	}
	return Side(b[5] - clientHello), b[5] == clientHello || b[5] == serverHello
}

// Midway reports whether b may begin in the middle of a TLS connection.
func Midway(b []byte) bool { return recordAt(b) > 0 && b[0] == typeApplication }

// Take takes the next bytes of a side.
func (c *Conversation) Take(from Side, at int64, b []byte) {
	c.release()
	c.take(from, at, b)
}

// Missing says that the next n bytes of a side are unknown.
func (c *Conversation) Missing(from Side, at int64, n int64, reason string) {
	c.release()
	if len(c.held) > 0 {
		c.noKeys() // their order would be lost
	}
	c.miss(from, at, n, reason)
}

// End takes it that nothing comes any more, or that there is no room for what waits: it
// counts as lost. The Conversation can go on after that.
func (c *Conversation) End(at int64) {
	c.release()
	if len(c.held) > 0 {
		c.noKeys()
	}
	for from := range c.halves {
		h := &c.halves[from]
		if len(h.buf) > 0 || h.gap {
			gone, reason := h.gone+int64(len(h.buf)), "only part of a record is there"
			if h.gap {
				reason = h.reason
			}
			h.buf, h.gap, h.gone = nil, false, 0
			c.lose(Side(from), at, gone, reason)
			if h.phase == inClear {
				c.giveUp(Side(from), sealed)
				continue
			}
			h.gap, h.reason, h.budget = true, reason, searchBudget
		}
	}
}

// Held is how much memory waits, in bytes.
func (c *Conversation) Held() int {
	return c.bytes + cap(c.halves[0].buf) + cap(c.halves[1].buf)
}

func (c *Conversation) tls12() bool { return c.suite != nil && !c.suite.tls13 }

func (c *Conversation) lose(from Side, at, n int64, reason string) {
	if n > 0 {
		c.to.Lost(from, at, n, reason)
	}
}

// record takes a whole record, or has it wait.
func (c *Conversation) record(from Side, at int64, b []byte) {
	if len(c.held) == 0 && c.read(from, at, b) {
		return
	}
	if from == Client && !c.told {
		c.told = true
		c.to.Note(from, at, noteNoKeys, true)
	}
	c.held = append(c.held, piece{from, at, bytes.Clone(b)})
	if c.bytes += len(b); c.bytes > maxHeld {
		c.noKeys()
	}
}

// release reads what has waited, as far as there are keys for it now.
func (c *Conversation) release() {
	for len(c.held) > 0 {
		p := c.held[0]
		if !c.read(p.from, p.at, p.record) {
			return
		}
		c.bytes -= len(p.record)
		if c.held = c.held[1:]; len(c.held) == 0 {
			c.held = nil
		}
	}
}

// noKeys gives up waiting for keys.
func (c *Conversation) noKeys() {
	for from := range c.halves {
		c.giveUp(Side(from), sealed)
	}
	for _, p := range c.held {
		c.lose(p.from, p.at, int64(len(p.record)), sealed)
	}
	c.held, c.bytes = nil, 0
}

// read reads a record; it returns false if its keys are not known.
func (c *Conversation) read(from Side, at int64, b []byte) bool {
	h := &c.halves[from]
	switch {
	case h.blind != "":
		c.lose(from, at, int64(len(b)), h.blind)
		return true
	case h.gap:
		if !c.attempt(from, at, b, h.gone) {
			h.gone += int64(len(b))
		}
		return true
	case b[0] == typeChange:
		if c.tls12() {
			h.phase, h.keys, h.msgs = traffic, nil, messages{}
		}
		return true
	case h.phase == inClear || (b[0] == typeAlert && !c.tls12()):
		c.said(from, at, b[0], b[headerSize:])
		return true
	case b[0] != typeApplication && !c.tls12():
		return true // it would have to be encrypted
	}
	if h.keys == nil {
		if h.keys = c.derive(from, h.phase); h.keys == nil {
			return false
		}
	}
	text, kind, ok := c.plain[:0], byte(0), false
	if len(b) >= h.keys.suite.cover() {
		text, kind, ok = h.keys.open(text, b, h.keys.seq)
	}
	if !ok {
		h.gap, h.reason, h.gone, h.budget = true, "the keys in the key log do not fit", int64(len(b)), searchBudget
		return true
	}
	h.keys.seq++
	c.plain = text
	c.said(from, at, kind, text)
	return true
}

// derive makes the keys of a side in a phase, nil if they are not in the log.
func (c *Conversation) derive(from Side, in phase) *keys {
	if c.suite == nil || c.log == nil {
		return nil
	}
	c.secrets = c.log.find(c.client)
	kind := master
	switch {
	case c.suite.tls13 && in == handshake:
		kind = clientHandshake + label(from)
	case c.suite.tls13:
		kind = clientTraffic + label(from)
	}
	if c.secrets == nil || len(c.secrets[kind]) == 0 {
		return nil
	}
	if kind == master {
		return c.suite.fromMaster(c.secrets[kind], c.client, c.server, from)
	}
	return c.suite.from(c.secrets[kind])
}

// said takes what a record says.
func (c *Conversation) said(from Side, at int64, kind byte, text []byte) {
	h := &c.halves[from]
	switch kind {
	case typeApplication:
		if h.phase == inClear { // early data, which no server of ours asks for
			c.lose(from, at, int64(len(text)), sealed)
			return
		}
		c.to.Data(from, at, text)
	case typeAlert:
		if len(text) == 2 && text[1] != 0 { // 0: it says no more
			c.to.Note(from, at, "alert of "+tls.AlertError(text[1]).Error(), true)
		}
	case typeHandshake:
		if h.phase == traffic && c.tls12() {
			return
		}
		h.msgs.take(text, func(kind byte, body []byte) { c.message(from, at, kind, body) })
	}
}

// message follows the handshake.
func (c *Conversation) message(from Side, at int64, kind byte, body []byte) {
	h := &c.halves[from]
	switch {
	case kind == clientHello && from == Client && h.phase == inClear:
		if len(body) < 2+len(c.client) {
			c.giveUp(Client, sealed)
			return
		}
		copy(c.client[:], body[2:])
		if !c.begun && c.log == nil {
			c.to.Note(from, at, noteNoLog, true)
		}
		c.begun = true
	case kind == serverHello && from == Server && h.phase == inClear:
		c.agreed(at, body)
	case kind == finished && h.phase == handshake:
		h.phase, h.keys = traffic, nil
	case kind == keyUpdate && h.phase == traffic && h.keys != nil && c.suite.tls13:
		h.keys = h.keys.next()
	}
}

// retry is the random of a server that asks for another hello, by RFC 8446, 4.1.3.
var retry = []byte("\xCF\x21\xAD\x74\xE5\x9A\x61\x11\xBE\x1D\x8C\x02\x1E\x65\xB8\x91\xC2\xA2\x11\x16\x7A\xBB\x8C\x5E\x07\x9E\x09\xE2\xC8\xA8\x33\x9C")

// agreed reads the server's hello.
func (c *Conversation) agreed(at int64, body []byte) {
	hello, ok := parseServerHello(body)
	if ok && bytes.Equal(hello.random[:], retry) {
		return
	}
	text, s := "", suites[hello.suite]
	switch {
	case !ok:
		text = "the server's TLS hello cannot be understood"
	case s == nil || s.tls13 != (hello.version == tls.VersionTLS13):
		text = fmt.Sprintf("%s with %s cannot be decrypted here", tls.VersionName(hello.version), tls.CipherSuiteName(hello.suite))
	case !c.begun:
		text = "the beginning of the TLS connection was not captured whole: it cannot be decrypted"
	}
	if text != "" {
		c.to.Note(Server, at, text, true)
		c.noKeys()
		return
	}
	resumed := ""
	if hello.resumed {
		resumed = ", resumed"
	}
	c.to.Note(Server, at, tls.VersionName(hello.version)+" with "+tls.CipherSuiteName(hello.suite)+resumed, false)
	if c.suite, c.server = s, hello.random; s.tls13 {
		c.halves[Client].phase, c.halves[Server].phase = handshake, handshake
	}
	if c.log == nil {
		c.noKeys()
	}
}

// agreement is a server's hello.
type agreement struct {
	version, suite uint16
	random         random
	resumed        bool // as TLS 1.3 says it
}

const (
	extensionPSK      = 41
	extensionVersions = 43
)

func parseServerHello(b []byte) (a agreement, ok bool) {
	if len(b) < 2+len(a.random)+1 {
		return a, false
	}
	a.version = binary.BigEndian.Uint16(b)
	copy(a.random[:], b[2:])
	b = b[2+len(a.random):]
	session := 1 + int(b[0])
	if len(b) < session+3 {
		return a, false
	}
	a.suite = binary.BigEndian.Uint16(b[session:])
	if b = b[session+3:]; len(b) < 2 {
		return a, true
	}
	for b = b[2:]; len(b) >= 4; {
		kind, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if b = b[4:]; len(b) < n {
			return a, false
		}
		switch {
		case kind == extensionVersions && n == 2:
			a.version = binary.BigEndian.Uint16(b)
		case kind == extensionPSK:
			a.resumed = true
		}
		b = b[n:]
	}
	return a, true
}
