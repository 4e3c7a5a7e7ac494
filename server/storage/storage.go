// Package storage handles the commands of player storage: it answers reads of what is in
// memory at once, has what only the database has loaded away from the loop, and hands
// writes over.
package storage

import (
	"context"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// Limits of what the handlers do on the loop; a worker does anything larger.
const (
	loopFields = 256       // fields looked up
	loopBytes  = 128 << 10 // bytes of values encoded
)

// Store is what the handlers need of a *storage.Storage.
type Store interface {
	GetEach(gets []storage.Get)
	Load(ctx context.Context, o storage.Owner, names []string) ([]storage.Field, error)
	GetAll(ctx context.Context, o storage.Owner, ask storage.Ask) (storage.Page, error)
	Do(w *storage.Write, done func(*storage.Outcome, error))
	Owners(ctx context.Context, app, region, logic, after string, limit int) (list []storage.Owner, next string, err error)
	Count(ctx context.Context, app, region, logic string) (int64, error)
	Landing
	Lander
	Rescanner
}

// Handlers serve player storage.
type Handlers struct {
	// set at open
	store Store
	life  context.Context // of what is read away from the loop
}

// desk is what is kept for one loop.
type desk struct {
	completed // any goroutine

	// loop only
	gets   getRun
	ahead  foreseen
	run    *getRun // the one being answered
	fields []protocol.StorageField
	free   []*writing // for reuse
}

func deskOf(s *gate.Session) *desk { return s.Desk.Part(gate.OfStorage).(*desk) }

// Add makes g serve store as long as life lasts; nil: there is none.
func Add(life context.Context, g *gate.Gate, store Store) {
	f := &Handlers{store: store, life: life}
	routes := map[protocol.Command]gate.Route{
		protocol.StGet:    {Handle: f.get, Ahead: f.lookAhead, Answer: f.answerAhead},
		protocol.StAll:    {Handle: f.all},
		protocol.StOwners: {Handle: f.owners},
		protocol.StStatus: {Handle: f.status},
		protocol.StErrors: {Handle: f.errors},
		protocol.StRetry:  {Handle: f.retry},
		protocol.StDrop:   {Handle: f.drop},
		protocol.StRescan: {Handle: f.rescan},

		protocol.LdSettings: {Handle: f.settings},
		protocol.LdClaim:    {Handle: f.claim},
		protocol.LdTake:     {Handle: f.take},
		protocol.LdLanded:   {Handle: f.landed},
		protocol.LdNewer:    {Handle: f.newer},
		protocol.LdRelease:  {Handle: f.release},
	}
	for _, row := range protocol.Commands {
		if row.ID.ChangesFields() {
			routes[row.ID] = gate.Route{Handle: f.write, Write: true}
		}
	}
	for cmd, r := range routes {
		if r.Strict = true; store == nil {
			r = gate.Route{Handle: none, Raw: true}
		}
		routes[cmd] = r
	}
	g.Add(routes)
	if store != nil {
		g.LookAhead(f)
	}
	g.Keep(gate.OfStorage, func(d *gate.Desk) any { return &desk{completed: completed{loop: d.Loop}} })
}

// none answers where there is no player storage.
func none(s *gate.Session, h protocol.Header, _ []byte) bool {
	s.Result(h, int(codes.NotImplemented), "this server has no player storage")
	return true
}

// get answers an STGET that no run could take: one that is wrong, or asks for a great many
// fields.
func (f *Handlers) get(s *gate.Session, h protocol.Header, _ []byte) bool {
	var q protocol.StorageRead
	if err := s.Desk.Req.StorageRead(&q); err != nil {
		s.RefuseState(h, err)
		return true
	}
	g := storage.Get{App: q.App, Region: q.Region, Logic: q.Logic, ID: q.ID}
	owner := g.Owner()
	if err := owner.Check(); err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.load(s, h, owner, textsOf(q.Names), q.Versions)
	return true
}

func textsOf(names [][]byte) []string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return texts
}

// load answers with fields that may have to be read from the database, or are many.
func (f *Handlers) load(s *gate.Session, h protocol.Header, owner storage.Owner, names []string, versions bool) {
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		found, err := f.store.Load(f.life, owner, names)
		if err == nil {
			err = checkSize(found)
		}
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		return protocol.AppendStorageFields(dst, appendWire(nil, found), versions)
	})
}

// answer replies with fields that were in memory. A worker encodes many bytes.
func (d *desk) answer(s *gate.Session, h protocol.Header, found []storage.Field, versions bool) {
	d.fields = appendWire(d.fields[:0], found)
	switch size := sizeOf(found); {
	case size <= loopBytes:
		s.End(protocol.AppendStorageFields(s.Begin(h.Command.Reply(), h.Seq), d.fields, versions))
	case size > protocol.MaxFieldBytes:
		s.RefuseState(h, checkSize(found))
	default:
		fields := append([]protocol.StorageField(nil), d.fields...)
		s.Later(h, func(dst []byte) []byte { return protocol.AppendStorageFields(dst, fields, versions) })
	}
	clear(d.fields) // values are not kept
}

// all answers with a page of an owner's fields.
func (f *Handlers) all(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.StorageQuery()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		page, err := f.store.GetAll(f.life, storage.Owner(q.Owner), storage.Ask{After: q.After, Limit: q.Limit, Revision: q.Rev})
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		out := protocol.StoragePage{Fields: appendWire(nil, page.Fields), Rev: page.Revision}
		if n := len(page.Fields); page.More && n > 0 {
			out.Next = page.Fields[n-1].Name
		}
		return protocol.AppendStoragePage(dst, out, q.Versions)
	})
	return true
}

// owners answers with a page of owners, or how many there are.
func (f *Handlers) owners(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.StorageOwnersQuery()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		if q.CountOnly {
			n, err := f.store.Count(f.life, q.App, q.Region, q.Logic)
			return appendCount(s, dst, h, n, err)
		}
		list, next, err := f.store.Owners(f.life, q.App, q.Region, q.Logic, q.After, q.Limit)
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		page := protocol.StorageOwners{Owners: make([]protocol.StorageOwner, len(list)), Next: next}
		for i, o := range list {
			page.Owners[i] = protocol.StorageOwner(o)
		}
		return protocol.AppendStorageOwners(dst, page)
	})
	return true
}

// appendWire appends fields as messages have them.
func appendWire(dst []protocol.StorageField, fields []storage.Field) []protocol.StorageField {
	for i := range fields {
		dst = append(dst, protocol.StorageField{Name: fields[i].Name, Value: fields[i].Value, Version: fields[i].Version})
	}
	return dst
}

// sizeOf is about the size of fields in a reply, without the overhead of encoding.
func sizeOf(fields []storage.Field) (n int) {
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value)
	}
	return n
}

// checkSize refuses fields that are too many for one reply.
func checkSize(fields []storage.Field) error {
	if n := sizeOf(fields); n > protocol.MaxFieldBytes {
		return codes.Errorf(codes.TooLarge, "the %d fields have %d bytes, the limit of one reply is %d; ask for fewer", len(fields), n, protocol.MaxFieldBytes)
	}
	return nil
}
