// Package storage handles the commands of player storage: it answers reads of what is in
// memory at once, has what only the database has loaded away from the loop, and hands
// writes over.
package storage

import (
	"context"
	"errors"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
	"confcenter/storage/field"
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
	DoEach(by *storage.Caller, calls []*storage.Call)
	Owners(ctx context.Context, app, region, logic, after string, limit int) (list []storage.Owner, next string, err error)
	Count(ctx context.Context, app, region, logic string) (int64, error)
	// what operators need
	Status() []storage.TableStatus
	Errors(after field.Ref, limit int) (list []storage.ErrorRow, more bool)
	Retry(ctx context.Context, fields []field.Ref) (int, error)
	Reland(ctx context.Context, since int64) (int, error)
	Drop(ctx context.Context, fields []field.Ref, confirm int64) (int, error)
	// what landers in processes of their own need
	Settings() storage.Settings
	Claim(ctx context.Context, table int, who string) (storage.Claim, error)
	Release(ctx context.Context, table int, fence kv.Revision) error
	Dirty(ctx context.Context, table, limit int) (*storage.Batch, error)
	Landed(ctx context.Context, fence kv.Revision, b *storage.Batch, failed []storage.Failure) error
	Newer(ctx context.Context, version int64) error
	// what those who fill a table need
	Rescan(ctx context.Context, table string) error
}

// Handlers serve player storage.
type Handlers struct {
	// set at open
	store Store
	life  context.Context // of what is read away from the loop
}

// desk is what is kept for one loop.
type desk struct {
	// loop only
	caller storage.Caller  // its Done may be called from any goroutine
	calls  []*storage.Call // of the session being served, not handed over yet
	free   []*writing      // for reuse
}

func deskOf(s *gate.Session) *desk { return s.Desk.Part(gate.OfStorage).(*desk) }

// Add makes g serve store as long as life lasts; nil: there is none.
func Add(life context.Context, g *gate.Gate, store Store) {
	f := &Handlers{store: store, life: life}
	routes := map[protocol.Command]gate.Route{
		protocol.StGet:    {Handle: f.get, Reads: true, Together: func(*gate.Desk) gate.Together { return &gets{f: f} }},
		protocol.StAll:    named(f, true, (*protocol.Request).StorageQuery, (*protocol.StorageQuery).Things, f.all),
		protocol.StOwners: named(f, false, (*protocol.Request).StorageOwnersQuery, (*protocol.StorageOwnersQuery).Things, f.owners),
		protocol.StStatus: route(works, nothing, f.status),
		protocol.StErrors: route(works, (*protocol.Request).LandingErrorsQuery, f.errors),
		protocol.StRetry:  route(waits, (*protocol.Request).LandingRows, f.retry),
		protocol.StDrop:   route(waits, (*protocol.Request).LandingRows, f.drop),
		protocol.StRescan: route(waits, (*protocol.Request).LandingRescan, f.rescan),

		protocol.LdSettings: route(works, nothing, f.settings),
		protocol.LdClaim:    {Handle: f.claim},
		protocol.LdTake:     route(waits, (*protocol.Request).LanderTake, f.take),
		protocol.LdLanded:   route(waits, (*protocol.Request).LanderLanded, f.landed),
		protocol.LdNewer:    route(waits, (*protocol.Request).LanderVersion, f.newer),
		protocol.LdRelease:  route(waits, (*protocol.Request).LanderClaim, f.release),
	}
	for _, row := range protocol.Commands {
		if row.ID.StorageKind() != 0 {
			routes[row.ID] = gate.Route{Handle: f.write, Write: true}
		}
	}
	for cmd, r := range routes {
		if r.Strict = true; store == nil {
			r = gate.Absent("this server has no player storage")
		}
		routes[cmd] = r
	}
	g.Add(routes)
	g.Keep(gate.OfStorage, func(d *gate.Desk) any { return newDesk(d.Loop) })
	g.HandOver(func(s *gate.Session) { deskOf(s).handOver(s, store) })
}

// route is that of a command that is answered away from the loop: by those who work, or by
// those who may have to wait. read reads the request; what it returns must not refer to it.
// answer appends the reply.
func route[Q any](by func(*gate.Session, protocol.Header, func([]byte) []byte), read func(*protocol.Request) (Q, error), answer func(dst []byte, q Q) ([]byte, error)) gate.Route {
	return gate.Route{Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
		q, err := read(&s.Desk.Req)
		if err != nil {
			s.Refuse(h, err)
			return true
		}
		by(s, h, func(dst []byte) []byte {
			body, err := answer(dst, q)
			if err != nil {
				return s.AppendRefusal(dst, h, err)
			}
			return body
		})
		return true
	}}
}

// named is a route for a request about some of the fields of a table. It is answered beside others; tries
// says that memory may do.
func named[Q any](f *Handlers, tries bool, read func(*protocol.Request) (Q, error), about func(*Q, []op.Thing) []op.Thing, answer func(ctx context.Context, dst []byte, q Q) ([]byte, error)) gate.Route {
	return gate.Route{Reads: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
		q, err := read(&s.Desk.Req)
		if err == nil {
			err = s.Judge(about(&q, s.Things()))
		}
		if err != nil {
			s.Refuse(h, err)
			return true
		}
		f.beside(s, h, tries, func(ctx context.Context, dst []byte) ([]byte, error) { return answer(ctx, dst, q) })
		return true
	}}
}

// beside answers a request that may have to wait for the database, beside others. With tries it
// is first tried by one who does not wait.
func (f *Handlers) beside(s *gate.Session, h protocol.Header, tries bool, answer func(ctx context.Context, dst []byte) ([]byte, error)) {
	by := func(ctx context.Context) func(dst []byte) []byte {
		return func(dst []byte) []byte {
			body, err := answer(ctx, dst)
			if err != nil && ctx == impatient && errors.Is(err, context.Canceled) {
				return nil
			} else if err != nil {
				return s.AppendRefusal(dst, h, err)
			}
			return body
		}
	}
	if tries {
		loop.Beside(&s.Conn, h, by(impatient), by(f.life))
	} else {
		loop.Beside(&s.Conn, h, nil, by(f.life))
	}
}

// impatient is the context of one who does not wait.
var impatient = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func works(s *gate.Session, h protocol.Header, body func([]byte) []byte) { s.Later(h, body) }

func waits(s *gate.Session, h protocol.Header, body func([]byte) []byte) {
	loop.AwaitDisk(&s.Conn, h, body)
}

// none is what requests without members say.
type none struct{}

func nothing(*protocol.Request) (none, error) { return none{}, nil }

// get answers an STGET that no run could take: one that is wrong, or asks for a great many
// fields.
func (f *Handlers) get(s *gate.Session, h protocol.Header, _ []byte) bool {
	var q protocol.StorageRead
	if err := s.Desk.Req.StorageRead(&q); err != nil {
		s.Refuse(h, err)
		return true
	}
	g := storage.Get{App: q.App, Region: q.Region, Logic: q.Logic, ID: q.ID}
	owner := g.Owner()
	err := s.Judge(q.Things(s.Things()))
	if err == nil {
		err = owner.Check()
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	f.load(s, h, true, owner, textsOf(q.Names), q.Versions)
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
func (f *Handlers) load(s *gate.Session, h protocol.Header, tries bool, owner storage.Owner, names []string, versions bool) {
	f.beside(s, h, tries, func(ctx context.Context, dst []byte) ([]byte, error) {
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
func answer(s *gate.Session, h protocol.Header, found []storage.Field, versions bool) {
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
func (f *Handlers) all(ctx context.Context, dst []byte, q protocol.StorageQuery) ([]byte, error) {
	page, err := f.store.GetAll(ctx, q.Owner, q.Ask)
	return protocol.AppendStoragePage(dst, &page, q.Versions), err
}

// owners answers with a page of owners, or how many there are.
func (f *Handlers) owners(ctx context.Context, dst []byte, q protocol.StorageOwnersQuery) ([]byte, error) {
	if q.CountOnly {
		n, err := f.store.Count(ctx, q.App, q.Region, q.Logic)
		return protocol.AppendStorageCount(dst, n), err
	}
	list, next, err := f.store.Owners(ctx, q.App, q.Region, q.Logic, q.After, q.Limit)
	return protocol.AppendStorageOwners(dst, list, next), err
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
