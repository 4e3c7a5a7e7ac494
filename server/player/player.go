// Package player handles the commands of player storage: it answers reads of what is in
// memory at once, has what only the database has loaded away from the loop, and hands
// writes over.
package player

import (
	"context"
	"slices"

	"confcenter/codes"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landops"
	"confcenter/player/playerjson"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
)

// Limits of what the handlers do on the loop; a worker does anything larger.
const (
	loopFields = 256       // fields looked up
	loopBytes  = 128 << 10 // bytes of values encoded
)

// Store is what the handlers need of a *storage.Storage.
type Store interface {
	GetEach(gets []player.Get)
	Load(ctx context.Context, o field.Owner, names []string) ([]field.Field, error)
	GetAll(ctx context.Context, o field.Owner, ask field.Ask) (field.Page, error)
	DoEach(by *player.Caller, calls []*player.Call)
	Owners(ctx context.Context, app, region, logic, after string, limit int) (list []field.Owner, next string, err error)
	Count(ctx context.Context, app, region, logic string) (int64, error)
	landops.Store
}

// Handlers serve player storage.
type Handlers struct {
	// set at open
	store Store
}

// local is what is kept for one loop.
type local struct {
	// loop only
	caller player.Caller  // its Done may be called from any goroutine
	calls  []*player.Call // of the session being served, not handed over yet
	free   []*writing     // for reuse
}

func deskOf(s *gate.Session) *local { return s.Local.Part(gate.OfStorage).(*local) }

// Add makes g serve store; nil: there is none.
func Add(g *gate.Gate, store Store) {
	f := &Handlers{store: store}
	routes := map[protocol.Command]gate.Route{
		protocol.StGet:    {Handle: f.get, Together: func(*gate.Local) gate.Together { return &gets{f: f} }},
		protocol.StAll:    gate.Cold(gate.Tried, protocol.Read[protocol.StorageQuery], f.all),
		protocol.StOwners: gate.Cold(gate.Beside, protocol.Read[protocol.StorageOwnersQuery], f.owners),
	}
	for _, m := range landops.Models(&landops.Landing{Store: store, Most: protocol.MaxFieldBytes}) {
		for place := range m.Operations {
			routes[protocol.OfModel(m.Name, place)] = row(&m.Operations[place], m.Asked)
		}
	}
	for _, row := range protocol.Commands {
		if row.ID.StorageKind() != 0 {
			routes[row.ID] = gate.Route{Handle: f.write, Write: true}
		}
	}
	for cmd, r := range routes {
		r.Reads = cmd == protocol.StGet || cmd == protocol.StAll || cmd == protocol.StOwners
		if r.Strict = true; store == nil {
			r = gate.Absent("this server has no player storage")
		}
		routes[cmd] = r
	}
	g.Add(routes)
	g.Keep(gate.OfStorage, func(d *gate.Local) any { return newLocal(d.Loop) })
	g.HandOver(func(s *gate.Session) { deskOf(s).handOver(s, store) })
}

// get answers an STGET that no run could take: one that is wrong, or asks for a great many
// fields.
func (f *Handlers) get(s *gate.Session, h protocol.Header, _ []byte) bool {
	var q protocol.StorageRead
	if err := s.Local.Req.StorageRead(&q); err != nil {
		s.Refuse(h, err)
		return true
	}
	g := player.Get{App: q.App, Region: q.Region, Logic: q.Logic, ID: q.ID}
	owner := g.Owner()
	err := s.Judge(q.Things(s.Things()))
	if err == nil {
		err = owner.Check()
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	f.load(gate.Tried, s, h, owner, textsOf(q.Names), q.Versions)
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
func (f *Handlers) load(off gate.Off, s *gate.Session, h protocol.Header, owner field.Owner, names []string, versions bool) {
	off(s, h, func(ctx context.Context, dst []byte) ([]byte, error) {
		found, err := f.store.Load(ctx, owner, names)
		if err == nil {
			err = checkSize(found)
		}
		if err != nil {
			return nil, err
		}
		return protocol.AppendStorageFields(dst, found, versions), nil
	})
}

// answer replies with fields that were in memory. A worker encodes many bytes.
func answer(s *gate.Session, h protocol.Header, found []field.Field, versions bool) {
	switch size := sizeOf(found); {
	case size <= loopBytes:
		s.End(protocol.AppendStorageFields(s.Begin(h.Command.Reply(), h.Seq), found, versions))
	case size > protocol.MaxFieldBytes:
		s.Refuse(h, checkSize(found))
	default:
		fields := slices.Clone(found)
		s.Later(h, func(dst []byte) []byte { return protocol.AppendStorageFields(dst, fields, versions) })
	}
}

// all answers with a page of an owner's fields.
func (f *Handlers) all(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.StorageQuery) ([]byte, error) {
	page, err := f.store.GetAll(ctx, q.Owner, q.Ask)
	return protocol.AppendStoragePage(dst, &page, q.Versions), err
}

// owners answers with a page of owners, or how many there are.
func (f *Handlers) owners(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.StorageOwnersQuery) ([]byte, error) {
	if q.CountOnly {
		n, err := f.store.Count(ctx, q.App, q.Region, q.Logic)
		return protocol.AppendReply(dst, &field.Count{Count: n}), err
	}
	if q.Limit == 0 || q.Limit > playerjson.MaxOwners {
		q.Limit = playerjson.MaxOwners
	}
	list, next, err := f.store.Owners(ctx, q.App, q.Region, q.Logic, q.After, q.Limit)
	return protocol.AppendReply(dst, field.NewOwnerPage(list, next)), err
}

// sizeOf is about the size of fields in a reply, without the overhead of encoding.
func sizeOf(fields []field.Field) (n int) {
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value)
	}
	return n
}

// checkSize refuses fields that are too many for one reply.
func checkSize(fields []field.Field) error {
	if n := sizeOf(fields); n > protocol.MaxFieldBytes {
		return codes.Errorf(codes.TooLarge, "the %d fields have %d bytes, the limit of one reply is %d; ask for fewer", len(fields), n, protocol.MaxFieldBytes)
	}
	return nil
}
