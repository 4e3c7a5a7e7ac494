package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/kv"
	"confcenter/kvstore"
)

// markVersion is what the mark says of the whole store. It rises when an older build may not use
// it: since 2 a change of documents is one transaction, and older builds would write it in parts;
// since 3 a record of its own may say who made a version, which older builds would leave behind.
const markVersion = 3

// formatVersion is of everything else here: keys, rows, log records. It rises
// when an older build could not read what is written.
const formatVersion = 1

// ownersVersion is of log records and rows of leases that say whose the leases are. Those that do
// not can be read by older builds, and so can a store without access control.
const ownersVersion = 2

// askersVersion is of log records and rows of tokens that say who used the tokens, likewise.
const askersVersion = 3

// marksVersion is of log records and rows of keys that say that a key is a lock, or that it has a
// time to live, likewise: the type of its value has a bit for each.
const (
	marksVersion      = 4
	lives        byte = 0x80
	isLock       byte = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	hasToken byte = 1 << iota
	hasLeases
	hasOwners // of the leases
	hasAsker  // of the token
)

// appendGroup appends the log record of a group that follows revision prev.
// Numbers that are mostly near another one are written as the distance from it.
func appendGroup(dst []byte, prev kv.Revision, group []kvstore.Commit) []byte {
	start := len(dst)
	version := byte(formatVersion)
	switch {
	case slices.ContainsFunc(group, marked):
		version = marksVersion
	case slices.ContainsFunc(group, asked):
		version = askersVersion
	case slices.ContainsFunc(group, owned):
		version = ownersVersion
	}
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(prev))
	dst = binary.AppendUvarint(dst, uint64(len(group)))
	before, ns := kv.Change{Revision: prev}, ""
	for i := range group {
		c := &group[i]
		dst = appendCommitHead(dst, c, &before)
		for j := range c.Events {
			dst = appendEvent(dst, &c.Change, &c.Events[j], &ns)
		}
		for j := range c.Archive {
			dst = appendEvent(dst, &c.Change, &c.Archive[j], &ns)
		}
		if c.Token != nil {
			dst = appendToken(dst, c.Token)
		}
		if asked(*c) {
			dst = appendString(dst, c.Token.Who)
		}
		if len(c.Leases) > 0 {
			dst = binary.AppendUvarint(dst, uint64(len(c.Leases)))
			for _, l := range c.Leases {
				dst = binary.AppendUvarint(dst, uint64(l.ID))
				dst = appendLease(dst, l)
			}
			if owned(*c) {
				for _, l := range c.Leases {
					dst = appendOwner(dst, l.Owner)
				}
			}
		}
		before = c.Change
	}
	return appendSum(dst, start)
}

// appendSum appends the checksum of what dst has from start on.
func appendSum(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

func appendCommitHead(dst []byte, c *kvstore.Commit, before *kv.Change) []byte {
	var flags byte
	if c.Token != nil {
		flags |= hasToken
	}
	if len(c.Leases) > 0 {
		flags |= hasLeases
	}
	if owned(*c) {
		flags |= hasOwners
	}
	if asked(*c) {
		flags |= hasAsker
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(c.Revision-before.Revision))
	dst = binary.AppendVarint(dst, c.Time-before.Time)
	return binary.AppendUvarint(dst, uint64(len(c.Events)+len(c.Archive)))
}

// appendEvent writes the namespace only where it changes: a key is never empty,
// so a leading 0 says that it is the same.
func appendEvent(dst []byte, change *kv.Change, event *kv.Event, ns *string) []byte {
	e := event.Entry
	dst = append(dst, byte(event.Kind))
	if e.NS == *ns {
		dst = append(dst, 0)
	} else {
		dst = appendString(dst, e.NS)
		*ns = e.NS
	}
	dst = appendString(dst, e.Key)
	var distance kv.Revision
	if event.Prev != nil {
		distance = change.Revision - event.Prev.Mod
	}
	dst = binary.AppendUvarint(dst, uint64(distance))
	dst = binary.AppendVarint(dst, int64(change.Revision-e.Create))
	dst = binary.AppendUvarint(dst, uint64(e.Version))
	dst = binary.AppendVarint(dst, e.Updated-change.Time)
	dst = binary.AppendVarint(dst, e.Expires)
	dst = binary.AppendUvarint(dst, uint64(e.Lease))
	return appendBytes(append(dst, typeOf(e)), e.Value.Data)
}

func appendToken(dst []byte, t *kvstore.Token) []byte {
	dst = appendString(dst, t.NS)
	dst = appendString(dst, t.Name)
	dst = append(dst, t.Digest[:]...)
	dst = binary.AppendUvarint(dst, uint64(t.Revision))
	dst = binary.AppendVarint(dst, t.Time)
	return appendBytes(dst, t.Result)
}

// appendTokenRow appends the value of a token's row. One that no one was proved to use says nothing
// of that.
func appendTokenRow(dst []byte, t *kvstore.Token) []byte {
	if t.Who == "" {
		return appendToken(append(dst, formatVersion), t)
	}
	return appendString(appendToken(append(dst, askersVersion), t), t.Who)
}

// asked reports whether a transaction has a token of a known asker.
func asked(c kvstore.Commit) bool { return c.Token != nil && c.Token.Who != "" }

func appendLease(dst []byte, l kvstore.LeaseChange) []byte {
	if l.Ended {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(l.TTL/time.Millisecond)+1)
}

// appendLeaseRow appends the value of a lease's row. One without an owner says nothing of it.
func appendLeaseRow(dst []byte, l kvstore.LeaseChange) []byte {
	if l.Owner == nil {
		return appendLease(append(dst, formatVersion), l)
	}
	return appendOwner(appendLease(append(dst, ownersVersion), l), l.Owner)
}

// owned reports whether any of the leases that a transaction grants has an owner.
func owned(c kvstore.Commit) bool {
	return slices.ContainsFunc(c.Leases, func(l kvstore.LeaseChange) bool { return l.Owner != nil })
}

// appendOwner appends a name, empty for no one, and the groups.
func appendOwner(dst []byte, id *access.Identity) []byte {
	if id == nil {
		return appendString(dst, "")
	}
	dst = binary.AppendUvarint(appendString(dst, id.Name), uint64(len(id.Groups)))
	for _, group := range id.Groups {
		dst = appendString(dst, group)
	}
	return dst
}

// appendEntry appends the value of a row; namespace and key are in the row's key.
func appendEntry(dst []byte, e *kv.Entry) []byte {
	version := byte(formatVersion)
	if marks(e) != 0 {
		version = marksVersion
	}
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(e.Create))
	dst = binary.AppendUvarint(dst, uint64(e.Mod))
	dst = binary.AppendUvarint(dst, uint64(e.Version))
	dst = binary.AppendVarint(dst, e.Updated)
	dst = binary.AppendVarint(dst, e.Expires)
	dst = binary.AppendUvarint(dst, uint64(e.Lease))
	return append(append(dst, typeOf(e)), e.Value.Data...)
}

// typeOf is the type of a value as it is kept, with the marks of its key.
func typeOf(e *kv.Entry) byte { return byte(e.Value.Type) | marks(e) }

func marks(e *kv.Entry) (bits byte) {
	if e.Ends != 0 {
		bits |= lives
	}
	if e.Lock() {
		bits |= isLock
	}
	return bits
}

// typed reads what typeOf says. When a time to live is over is known as a moment only.
func (r *reader) typed(e *kv.Entry) {
	b := r.byte()
	e.SetLock(b&isLock != 0)
	if e.Value.Type = kv.Type(b &^ (lives | isLock)); b&lives != 0 {
		e.Ends = e.Expires
	}
}

// marked reports whether a transaction writes keys that are locks or have a time to live.
func marked(c kvstore.Commit) bool {
	return slices.ContainsFunc(c.Events, func(e kv.Event) bool { return marks(e.Entry) != 0 })
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// group is a log record read back.
type group struct {
	prev    kv.Revision // the newest revision before it
	commits []kvstore.Commit
	prevs   []kv.Revision // for each event the revision that made the version before it; 0: none
}

func (g *group) last() kv.Revision { return g.commits[len(g.commits)-1].Revision }

// decodeGroup decodes a log record. The result does not refer to data.
func decodeGroup(data []byte) (*group, error) {
	const sum = 4
	if len(data) < sum {
		return nil, fmt.Errorf("log record of %d bytes", len(data))
	}
	body := data[:len(data)-sum]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(data[len(body):]) {
		return nil, fmt.Errorf("log record with a wrong checksum")
	}
	r := &reader{rest: body}
	r.version()
	g := &group{prev: kv.Revision(r.uvarint())}
	before := kv.Change{Revision: g.prev}
	count := r.count(4)
	if count == 0 {
		r.fail("no transactions")
	}
	g.commits = make([]kvstore.Commit, 0, count)
	for range count {
		c := r.commit(g, &before)
		if r.err != nil {
			break
		}
		g.commits = append(g.commits, c)
		before = c.Change
	}
	return g, r.end("log record")
}

// reader decodes a record. The first error sticks.
type reader struct {
	rest []byte
	ns   string // of the event before
	err  error
}

func (r *reader) commit(g *group, before *kv.Change) kvstore.Commit {
	var c kvstore.Commit
	flags := r.byte()
	if flags&^(hasToken|hasLeases|hasOwners|hasAsker) != 0 {
		r.fail("parts that this version does not know")
	}
	c.Revision = before.Revision + kv.Revision(r.uvarint())
	if c.Revision <= before.Revision {
		r.fail("revisions that do not rise")
	}
	c.Time = before.Time + r.varint()
	if n := r.count(11); n > 0 {
		c.Events = make([]kv.Event, 0, n)
		entries := make([]kv.Entry, n)
		for i := range n {
			event := kv.Event{Entry: &entries[i]}
			prev := r.event(&c.Change, &event)
			if kv.Archived(event.Entry.NS) {
				c.Archive = append(c.Archive, event)
				continue
			}
			c.Events, g.prevs = append(c.Events, event), append(g.prevs, prev)
		}
	}
	if flags&hasToken != 0 {
		c.Token = r.token()
		if flags&hasAsker != 0 {
			c.Token.Who = r.string()
		}
	}
	if flags&hasLeases != 0 {
		n := r.count(2)
		c.Leases = make([]kvstore.LeaseChange, n)
		for i := range n {
			id := kv.LeaseID(r.uvarint())
			c.Leases[i] = r.lease(id)
		}
		for i := range c.Leases {
			if flags&hasOwners != 0 {
				c.Leases[i].Owner = r.owner()
			}
		}
	}
	return c
}

func (r *reader) event(change *kv.Change, event *kv.Event) (prev kv.Revision) {
	e := event.Entry
	event.Kind = kv.EventKind(r.byte())
	if ns := r.string(); ns != "" {
		r.ns = ns
	}
	e.NS, e.Key = r.ns, r.string()
	if e.NS == "" || e.Key == "" {
		r.fail("an event without a name")
	}
	if distance := r.uvarint(); distance != 0 {
		prev = change.Revision - kv.Revision(distance)
	}
	e.Create = change.Revision - kv.Revision(r.varint())
	e.Mod = change.Revision
	e.Version = int64(r.uvarint())
	e.Updated = change.Time + r.varint()
	e.Expires = r.varint()
	e.Lease = kv.LeaseID(r.uvarint())
	r.typed(e)
	e.Value.Data = r.bytes()
	if e.Value.Data == nil && e.Value.Type != 0 {
		e.Value.Data = []byte{} // as it was written: empty, not missing
	}
	return prev
}

func (r *reader) token() *kvstore.Token {
	t := &kvstore.Token{NS: r.string(), Name: r.string()}
	copy(t.Digest[:], r.take(len(t.Digest)))
	t.Revision = kv.Revision(r.uvarint())
	t.Time = r.varint()
	t.Result = r.bytes()
	return t
}

func (r *reader) lease(id kv.LeaseID) kvstore.LeaseChange {
	ms := r.uvarint()
	if ms == 0 {
		return kvstore.LeaseChange{ID: id, Ended: true}
	}
	return kvstore.LeaseChange{ID: id, TTL: time.Duration(ms-1) * time.Millisecond}
}

func (r *reader) owner() *access.Identity {
	name := r.string()
	if name == "" {
		return nil
	}
	id := &access.Identity{Name: name}
	if n := r.count(1); n > 0 {
		id.Groups = make([]string, n)
	}
	for i := range id.Groups {
		id.Groups[i] = r.string()
	}
	return id
}

// decodeEntry reads the value of a row into e. The entry's bytes are a copy.
func decodeEntry(e *kv.Entry, data []byte) error {
	r := &reader{rest: data}
	r.version()
	e.Create = kv.Revision(r.uvarint())
	e.Mod = kv.Revision(r.uvarint())
	e.Version = int64(r.uvarint())
	e.Updated = r.varint()
	e.Expires = r.varint()
	e.Lease = kv.LeaseID(r.uvarint())
	r.typed(e)
	if r.err != nil {
		return r.end("entry")
	}
	if e.Value.Data = append([]byte(nil), r.rest...); e.Value.Data == nil && e.Value.Type != 0 {
		e.Value.Data = []byte{}
	}
	return nil
}

func (r *reader) version() byte {
	v := r.byte()
	if (v < formatVersion || v > marksVersion) && r.err == nil {
		r.err = fmt.Errorf("its format is %d, this version reads up to %d", v, marksVersion)
	}
	return v
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s", why)
	}
	r.rest = nil
}

// end returns the first error, also if something is left to read.
func (r *reader) end(what string) error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.rest))
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.fail("ends too early")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	b := r.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail("a number is cut")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("a number is cut")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads the number of items that follow, each of which has at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.fail("a count beyond the end")
		return 0
	}
	return int(n)
}

func (r *reader) span() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail("ends too early")
		return nil
	}
	return r.take(int(n))
}

func (r *reader) bytes() []byte  { return append([]byte(nil), r.span()...) }
func (r *reader) string() string { return string(r.span()) }
