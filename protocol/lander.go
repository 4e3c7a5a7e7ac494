package protocol

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// What a lander in a process of its own says: it claims a dirty table, takes batches, writes
// them to the database, and says what has become of them.

// LanderClaim is the request of LDCLAIM and LDRELEASE.
type LanderClaim struct {
	Table int
	Who   string      // LDCLAIM: the lander; no two have the same
	Fence kv.Revision // LDRELEASE: of the claim
}

// LanderClaim reads the request of LDCLAIM or LDRELEASE.
func (r *Request) LanderClaim() (LanderClaim, error) {
	m := storageReader{r: r}
	return LanderClaim{Table: int(m.count("table")), Who: m.text("who"), Fence: kv.Revision(m.number("fence"))}, m.err
}

// AppendLanderClaim appends the request of LDCLAIM or LDRELEASE.
func AppendLanderClaim(dst []byte, q LanderClaim) []byte {
	dst = appendNumber(append(dst, '{'), "table", int64(q.Table))
	if q.Who != "" {
		dst = appendText(dst, "who", q.Who)
	}
	return append(appendGiven(dst, "fence", int64(q.Fence)), '}')
}

// LanderClaimed is LDCLAIM's reply.
type LanderClaimed struct {
	Fence  kv.Revision // not 0: the lander has the table
	Idle   bool        // there is nothing to land
	Holder string      // the lander that has the table
}

// AppendLanderClaimed appends LDCLAIM's reply.
func AppendLanderClaimed(dst []byte, c LanderClaimed) []byte {
	dst = appendFlag(appendGiven(append(dst, `{"code":0`...), "fence", int64(c.Fence)), "idle", c.Idle)
	if c.Holder != "" {
		dst = appendText(dst, "holder", c.Holder)
	}
	return append(dst, '}')
}

// ParseLanderClaimed reads LDCLAIM's reply. A refusal is a *RefusedError.
func ParseLanderClaimed(body []byte) (LanderClaimed, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return LanderClaimed{}, err
	}
	m := storageReader{r: &r}
	return LanderClaimed{Fence: kv.Revision(m.number("fence")), Idle: r.Flag("idle"), Holder: m.text("holder")}, m.err
}

// LanderRow is a row to write. In LDLANDED it has no value.
type LanderRow struct {
	StorageName
	Value                       []byte
	Version                     int64
	Removed                     bool
	RemovedAt, Created, Updated int64 // when, in ms since 1970
	Revision                    kv.Revision
	Noted                       bool // it is in the list of errors
}

// LanderFailure is a row that the database has refused.
type LanderFailure struct{ Table, Key, Reason string }

// LanderBatch is LDTAKE's reply and, without values, what LDLANDED says has been done.
type LanderBatch struct {
	Table, Tables  int
	After, Through kv.Revision
	Rows           []LanderRow
	Count          int // how many rows there were, if only some are told
	More           bool
}

// LanderLanded is LDLANDED's request.
type LanderLanded struct {
	LanderBatch
	Fence  kv.Revision
	Failed []LanderFailure
}

// LanderTake is LDTAKE's request.
type LanderTake struct{ Table, Limit int }

// LanderTake reads LDTAKE's request.
func (r *Request) LanderTake() (LanderTake, error) {
	m := storageReader{r: r}
	return LanderTake{Table: int(m.count("table")), Limit: int(m.count("limit"))}, m.err
}

// AppendLanderTake appends LDTAKE's request.
func AppendLanderTake(dst []byte, q LanderTake) []byte {
	return append(appendGiven(appendNumber(append(dst, '{'), "table", int64(q.Table)), "limit", int64(q.Limit)), '}')
}

// AppendLanderBatch appends LDTAKE's reply; nil: there is nothing to land.
func AppendLanderBatch(dst []byte, b *LanderBatch) []byte {
	dst = append(dst, `{"code":0`...)
	if b != nil {
		dst = appendBatch(dst, b)
	}
	return append(dst, '}')
}

// ParseLanderBatch reads LDTAKE's reply. A refusal is a *RefusedError.
func ParseLanderBatch(body []byte) (*LanderBatch, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return nil, err
	}
	m := storageReader{r: &r}
	if !m.has("through") {
		return nil, nil
	}
	b := m.batch()
	return &b, m.err
}

// LanderLanded reads LDLANDED's request.
func (r *Request) LanderLanded() (LanderLanded, error) {
	m := storageReader{r: r}
	q := LanderLanded{LanderBatch: m.batch(), Fence: kv.Revision(m.number("fence"))}
	for it, _ := m.items("failed", jsontext.Array, 0); it.Next(); {
		q.Failed = append(q.Failed, within(&m, it.Raw(), func(m *storageReader) LanderFailure {
			return LanderFailure{m.text("table"), m.text("key"), m.text("reason")}
		}))
	}
	return q, m.err
}

// AppendLanderLanded appends LDLANDED's request. Values are not sent.
func AppendLanderLanded(dst []byte, q LanderLanded) []byte {
	dst = appendBatch(appendNumber(append(dst, '{'), "fence", int64(q.Fence)), &q.LanderBatch)
	dst = append(appendMember(dst, "failed"), '[')
	for i, f := range q.Failed {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(appendText(appendText(append(dst, '{'), "table", f.Table), "key", f.Key), "reason", f.Reason), '}')
	}
	return append(dst, "]}"...)
}

// LanderVersion reads LDNEWER's request.
func (r *Request) LanderVersion() (int64, error) {
	m := storageReader{r: r}
	return m.number("version"), m.err
}

// AppendLanderVersion appends LDNEWER's request.
func AppendLanderVersion(dst []byte, version int64) []byte {
	return append(appendNumber(append(dst, '{'), "version", version), '}')
}

// LanderSettings is LDSETTINGS's reply: the settings that landers go by.
type LanderSettings struct {
	Tables                            int
	Prefix, SavingSuffix, ErrorSuffix string
	LockTime, Delay                   int64 // ms
	Batch                             int
}

// AppendLanderSettings appends LDSETTINGS's reply.
func AppendLanderSettings(dst []byte, s LanderSettings) []byte {
	dst = appendNumber(append(dst, `{"code":0`...), "tables", int64(s.Tables))
	dst = appendText(appendText(appendText(dst, "prefix", s.Prefix), "saving_suffix", s.SavingSuffix), "error_suffix", s.ErrorSuffix)
	return append(appendNumber(appendNumber(appendNumber(dst, "lock_time", s.LockTime), "delay", s.Delay), "batch", int64(s.Batch)), '}')
}

// ParseLanderSettings reads LDSETTINGS's reply. A refusal is a *RefusedError.
func ParseLanderSettings(body []byte) (LanderSettings, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return LanderSettings{}, err
	}
	m := storageReader{r: &r}
	return LanderSettings{
		Tables: int(m.count("tables")), Prefix: m.text("prefix"), SavingSuffix: m.text("saving_suffix"), ErrorSuffix: m.text("error_suffix"),
		LockTime: m.number("lock_time"), Delay: m.number("delay"), Batch: int(m.count("batch")),
	}, m.err
}

func (m *storageReader) batch() LanderBatch {
	b := LanderBatch{
		Table: int(m.count("table")), Tables: int(m.count("tables")), After: kv.Revision(m.number("after")), Through: kv.Revision(m.number("through")),
		Count: int(m.count("count")), More: m.r.Flag("more"),
	}
	for it, _ := m.items("rows", jsontext.Array, 0); it.Next(); {
		b.Rows = append(b.Rows, within(m, it.Raw(), (*storageReader).landerRow))
	}
	return b
}

func appendBatch(dst []byte, b *LanderBatch) []byte {
	dst = appendNumber(appendNumber(dst, "table", int64(b.Table)), "tables", int64(b.Tables))
	dst = appendNumber(appendNumber(dst, "after", int64(b.After)), "through", int64(b.Through))
	dst = append(appendMember(appendFlag(appendGiven(dst, "count", int64(b.Count)), "more", b.More), "rows"), '[')
	for i := range b.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLanderRow(dst, &b.Rows[i])
	}
	return append(dst, ']')
}

func appendLanderRow(dst []byte, r *LanderRow) []byte {
	dst = appendRow(append(dst, '{'), r.StorageName)
	switch {
	case r.Value == nil:
	case utf8.Valid(r.Value) && bytes.IndexByte(r.Value, 0) < 0: // a NUL takes 6 bytes in a text
		dst = appendText(dst, "value", r.Value)
	default:
		dst = append(base64.StdEncoding.AppendEncode(append(appendMember(dst, "bytes"), '"'), r.Value), '"')
	}
	dst = appendFlag(appendGiven(dst, "version", r.Version), "removed", r.Removed)
	dst = appendGiven(appendGiven(appendGiven(dst, "removed_at", r.RemovedAt), "created", r.Created), "updated", r.Updated)
	return append(appendFlag(appendNumber(dst, "rev", int64(r.Revision)), "noted", r.Noted), '}')
}

func (m *storageReader) landerRow() LanderRow {
	r := LanderRow{
		StorageName: m.row(), Version: m.number("version"), Removed: m.r.Flag("removed"), RemovedAt: m.number("removed_at"), Created: m.number("created"), Updated: m.number("updated"),
		Revision: kv.Revision(m.number("rev")), Noted: m.r.Flag("noted"),
	}
	switch octets, ok := m.member("bytes"); {
	case m.has("value"):
		r.Value = append([]byte{}, m.text("value")...)
	case ok:
		var err error
		if r.Value, err = base64.StdEncoding.Strict().AppendDecode([]byte{}, jsontext.Unquote(octets.Raw)); err != nil {
			m.fail(codes.Errorf(codes.BadValue, "bytes of field %.40q is not base64", r.Name))
		}
	}
	return r
}
