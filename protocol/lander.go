package protocol

import (
	"time"

	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/storage/field"
	"confcenter/storage/storagejson"
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
	return readRequest(r, func(m *reader) LanderClaim {
		return LanderClaim{Table: int(m.Count(&m.Top, kvjson.Table)), Who: string(m.Text(&m.Top, kvjson.Who)), Fence: m.fence()}
	})
}

// AppendLanderClaim appends the request of LDCLAIM or LDRELEASE.
func AppendLanderClaim(dst []byte, q LanderClaim) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Table, int64(q.Table))
	w.TextGiven(kvjson.Who, q.Who)
	w.Given(kvjson.Fence, int64(q.Fence))
	return w.End()
}

// AppendLanderClaimed appends LDCLAIM's reply.
func AppendLanderClaimed(dst []byte, c field.Claim) []byte {
	w := replyStart(dst)
	w.Given(kvjson.Fence, int64(c.Fence))
	w.Flag(kvjson.Idle, c.Idle)
	w.TextGiven(kvjson.Holder, c.Holder)
	return w.End()
}

// ParseLanderClaimed reads LDCLAIM's reply. A refusal is a *RefusedError.
func ParseLanderClaimed(body []byte) (field.Claim, error) {
	return parseReply(body, func(m *reader) field.Claim {
		return field.Claim{Fence: m.fence(), Idle: m.Flag(&m.Top, kvjson.Idle), Holder: string(m.Text(&m.Top, kvjson.Holder))}
	})
}

// LanderTake is LDTAKE's request.
type LanderTake struct{ Table, Limit int }

// LanderTake reads LDTAKE's request.
func (r *Request) LanderTake() (LanderTake, error) {
	return readRequest(r, func(m *reader) LanderTake {
		return LanderTake{Table: int(m.Count(&m.Top, kvjson.Table)), Limit: int(m.Count(&m.Top, kvjson.Limit))}
	})
}

// AppendLanderTake appends LDTAKE's request.
func AppendLanderTake(dst []byte, q LanderTake) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Table, int64(q.Table))
	w.Given(kvjson.Limit, int64(q.Limit))
	return w.End()
}

// AppendLanderBatch appends LDTAKE's reply; nil: there is nothing to land.
func AppendLanderBatch(dst []byte, b *field.Batch) []byte {
	w := replyStart(dst)
	if b != nil {
		writeBatch(&w, b)
	}
	return w.End()
}

// ParseLanderBatch reads LDTAKE's reply. A refusal is a *RefusedError.
func ParseLanderBatch(body []byte) (*field.Batch, error) {
	return parseReply(body, func(m *reader) *field.Batch {
		if !m.Top.Has(kvjson.Through) {
			return nil
		}
		b := m.batch()
		return &b
	})
}

// LanderLanded is LDLANDED's request: what was LDTAKE's reply and, without values, what has
// been done.
type LanderLanded struct {
	field.Batch
	Fence  kv.Revision
	Failed []field.Failure
}

// LanderLanded reads LDLANDED's request.
func (r *Request) LanderLanded() (LanderLanded, error) {
	return readRequest(r, func(m *reader) LanderLanded {
		q := LanderLanded{Batch: m.batch(), Fence: m.fence()}
		var o kvjson.Object
		for list := m.Elements(&m.Top, kvjson.Failed, 0); m.Next(&list, &o); {
			q.Failed = append(q.Failed, field.Failure{Table: string(m.Text(&o, kvjson.Table)), Key: string(m.Text(&o, kvjson.Key)), Reason: string(m.Text(&o, kvjson.Reason))})
		}
		return q
	})
}

// AppendLanderLanded appends LDLANDED's request. Values are not sent.
func AppendLanderLanded(dst []byte, q LanderLanded) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Fence, int64(q.Fence))
	writeBatch(&w, &q.Batch)
	w.Open(kvjson.Failed, '[')
	for _, f := range q.Failed {
		w.Element()
		w.Text(kvjson.Table, f.Table)
		w.Text(kvjson.Key, f.Key)
		w.Text(kvjson.Reason, f.Reason)
		w.Close('}')
	}
	w.Close(']')
	return w.End()
}

// LanderVersion reads LDNEWER's request.
func (r *Request) LanderVersion() (int64, error) {
	return readRequest(r, func(m *reader) int64 { return m.Number(&m.Top, kvjson.Version) })
}

// AppendLanderVersion appends LDNEWER's request.
func AppendLanderVersion(dst []byte, version int64) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Version, version)
	return w.End()
}

// AppendLanderSettings appends LDSETTINGS's reply: the settings that landers go by.
func AppendLanderSettings(dst []byte, s field.Settings) []byte {
	w := replyStart(dst)
	w.Number(kvjson.Tables, int64(s.Tables))
	w.Text(kvjson.Prefix, s.Prefix)
	w.Text(kvjson.SavingSuffix, s.SavingSuffix)
	w.Text(kvjson.ErrorSuffix, s.ErrorSuffix)
	w.Number(kvjson.LockTime, s.LockTime.Milliseconds())
	w.Number(kvjson.Delay, s.Delay.Milliseconds())
	w.Number(kvjson.Batch, int64(s.Batch))
	return w.End()
}

// ParseLanderSettings reads LDSETTINGS's reply. A refusal is a *RefusedError.
func ParseLanderSettings(body []byte) (field.Settings, error) {
	return parseReply(body, func(m *reader) field.Settings {
		o := &m.Top
		return field.Settings{
			Tables: int(m.Count(o, kvjson.Tables)), Prefix: string(m.Text(o, kvjson.Prefix)), SavingSuffix: string(m.Text(o, kvjson.SavingSuffix)), ErrorSuffix: string(m.Text(o, kvjson.ErrorSuffix)),
			LockTime: time.Duration(m.Number(o, kvjson.LockTime)) * time.Millisecond, Delay: time.Duration(m.Number(o, kvjson.Delay)) * time.Millisecond, Batch: int(m.Count(o, kvjson.Batch)),
		}
	})
}

func (m *reader) fence() kv.Revision { return kv.Revision(m.Number(&m.Top, kvjson.Fence)) }

func (m *reader) batch() field.Batch {
	top := &m.Top
	b := field.Batch{
		Table: int(m.Count(top, kvjson.Table)), Tables: int(m.Count(top, kvjson.Tables)), After: kv.Revision(m.Number(top, kvjson.After)), Through: kv.Revision(m.Number(top, kvjson.Through)),
		Count: int(m.Count(top, kvjson.Count)), More: m.Flag(top, kvjson.More),
	}
	var o kvjson.Object
	for list := m.Elements(top, kvjson.Rows, 0); m.Next(&list, &o); {
		b.Rows = append(b.Rows, m.dirtyRow(&o))
	}
	return b
}

func writeBatch(w *kvjson.Writer, b *field.Batch) {
	w.Number(kvjson.Table, int64(b.Table))
	w.Number(kvjson.Tables, int64(b.Tables))
	w.Number(kvjson.After, int64(b.After))
	w.Number(kvjson.Through, int64(b.Through))
	w.Given(kvjson.Count, int64(b.Count))
	w.Flag(kvjson.More, b.More)
	w.Open(kvjson.Rows, '[')
	for i := range b.Rows {
		writeDirtyRow(w, &b.Rows[i])
	}
	w.Close(']')
}

func writeDirtyRow(w *kvjson.Writer, r *field.DirtyRow) {
	w.Element()
	storagejson.WriteRef(w, field.Ref{Owner: r.Owner, Name: r.Name})
	storagejson.WriteValue(w, r.Value)
	w.Given(kvjson.Version, r.Version)
	w.Flag(kvjson.Removed, r.Removed)
	w.Given(kvjson.RemovedAt, r.RemovedAt)
	w.Given(kvjson.Created, r.Created)
	w.Given(kvjson.Updated, r.Updated)
	w.Number(kvjson.Rev, int64(r.Revision))
	w.Flag(kvjson.Noted, r.Noted)
	w.Close('}')
}

func (m *reader) dirtyRow(o *kvjson.Object) field.DirtyRow {
	name := storagejson.ReadRef(&m.Reader, o)
	return field.DirtyRow{
		Row: field.Row{
			Owner: name.Owner, Name: name.Name, Value: storagejson.ReadValue(&m.Reader, o), Version: m.Number(o, kvjson.Version), Removed: m.Flag(o, kvjson.Removed),
			RemovedAt: m.Number(o, kvjson.RemovedAt), Created: m.Number(o, kvjson.Created), Updated: m.Number(o, kvjson.Updated),
		},
		Revision: kv.Revision(m.Number(o, kvjson.Rev)), Noted: m.Flag(o, kvjson.Noted),
	}
}
