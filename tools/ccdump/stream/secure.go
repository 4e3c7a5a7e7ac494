package stream

import "confcenter/tools/ccdump/decrypt"

// reasonLate is said of TLS connections whose beginning was not captured.
const reasonLate = "this is TLS that began before the capture did: it cannot be decrypted. Have the program connect again"

// arrive takes the next bytes of an end as they are on the wire.
func (c *Conn) arrive(a *Assembler, end uint8, at int64, b []byte) {
	if c.secure == nil {
		a.take(c, end, at, b)
		return
	}
	before := c.secure.Held()
	c.secure.Take(decrypt.Side(c.direction(end)), at, b)
	a.held += c.secure.Held() - before
	if a.held > a.cfg.Memory {
		a.shrink(c)
	}
}

// miss records that n bytes of an end are not known as they are on the wire.
func (c *Conn) miss(a *Assembler, end uint8, at, n int64, reason string) {
	if n <= 0 {
		return
	}
	a.stats.Lost += n
	if c.secure == nil {
		a.lose(c, end, at, n, reason)
		return
	}
	before := c.secure.Held()
	c.secure.Missing(decrypt.Side(c.direction(end)), at, n, reason)
	a.held += c.secure.Held() - before
}

// endSecure takes it that nothing comes any more for what waits to be decrypted.
func (c *Conn) endSecure(a *Assembler, at int64) {
	if c.secure == nil {
		return
	}
	before := c.secure.Held()
	c.secure.End(at)
	a.held += c.secure.Held() - before
}

// secures reports whether the first bytes of an end are those of TLS, and takes the
// connection for that from then on.
func (c *Conn) secures(a *Assembler, end uint8, at int64, b []byte) bool {
	from, hello := decrypt.Hello(b)
	late := !hello && decrypt.Midway(b)
	if !hello && !late {
		return false
	}
	if hello {
		c.client, c.sure = end^uint8(from), true
	}
	a.stats.Secure++
	to := &plain{a, c}
	c.secure = decrypt.New(a.cfg.Keys, to)
	if late {
		to.Note(decrypt.Side(c.direction(end)), at, reasonLate, true)
	}
	return true
}

// plain receives what is said on a TLS connection.
type plain struct {
	a *Assembler
	c *Conn
}

func (p *plain) end(from decrypt.Side) uint8 { return p.c.client ^ uint8(from) }

// Data implements decrypt.Receiver.
func (p *plain) Data(from decrypt.Side, at int64, b []byte) { p.a.take(p.c, p.end(from), at, b) }

// Lost implements decrypt.Receiver.
func (p *plain) Lost(from decrypt.Side, at, n int64, reason string) {
	p.a.lose(p.c, p.end(from), at, n, reason)
}

// Note implements decrypt.Receiver.
func (p *plain) Note(from decrypt.Side, at int64, text string, odd bool) {
	p.a.sink.Noted(p.c, at, Dir(from), text, odd)
}
