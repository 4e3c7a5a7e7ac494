package http

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/op"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/playerjson"
	"confcenter/protocol"
)

// PlayerStorage is what the gateway needs of player storage: *storage.Storage.
type PlayerStorage interface {
	Load(ctx context.Context, o field.Owner, names []string) ([]field.Field, error)
	GetAll(ctx context.Context, o field.Owner, ask field.Ask) (field.Page, error)
	Do(w *field.Write, done func(*field.Outcome, error))
	Regions() []field.Owner
	Owners(ctx context.Context, app, region, logic, after string, limit int) (list []field.Owner, next string, err error)
	Count(ctx context.Context, app, region, logic string) (int64, error)
	// LandedThrough is the version up to which all of the owner's fields are landed.
	LandedThrough(o field.Owner) int64

	Stats() player.Stats
	Status() []field.TableStatus
	Errors(after field.Ref, limit int) (list []field.ErrorRow, more bool)
	Retry(ctx context.Context, fields []field.Ref) (int, error)
	Drop(ctx context.Context, fields []field.Ref, confirm int64) (int, error)
}

// storageRoot is the root of our own REST API for player storage. An owner is a path of four
// segments, which are percent-encoded and may be anything.
const storageRoot = "/v1/storage"

func (g *Gateway) storageRoutes() []route {
	if g.stores.Storage == nil {
		return nil
	}
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	const place = storageRoot + "/{appId}/{regionId}"
	const owner = place + "/{logicType}/{ownerId}"
	return []route{
		of(protocol.StOwners, route{method: get, pattern: storageRoot, name: "storage.regions", bare: true, handle: g.storageRegions}),
		of(protocol.StOwners, route{method: get, pattern: place, name: "storage.owners", handle: g.storageOwners}),
		of(protocol.StAll, route{method: get, pattern: owner, name: "storage.get", handle: g.storageGet}),
		of(protocol.StUpdate, route{method: patch, pattern: owner, name: "storage.update", bare: true, body: g.cfg.MaxBody, handle: g.storageWrite(field.Update)}),
		of(protocol.StIncr, route{method: post, pattern: owner + "/incr", name: "storage.incr", bare: true, body: g.cfg.MaxBody, handle: g.storageWrite(field.Incr)}),
		of(protocol.StRemove, route{method: post, pattern: owner + "/remove", name: "storage.remove", bare: true, body: g.cfg.MaxBody, handle: g.storageWrite(field.Remove)}),
		of(protocol.StRestore, route{method: post, pattern: owner + "/restore", name: "storage.restore", bare: true, body: g.cfg.MaxBody, handle: g.storageWrite(field.Restore)}),
		of(protocol.StStatus, route{method: get, pattern: landingRoot, name: "landing.status", bare: true, quiet: true, handle: func(w *reply, _ *http.Request) error { return w.sendStruct(g.status.Landing()) }}),
		of(protocol.StErrors, route{method: get, pattern: landingRoot + "/errors", name: "landing.errors", quiet: true, handle: g.landingErrors}),
		of(protocol.StRetry, route{method: post, pattern: landingRoot + "/errors/retry", name: "landing.retry", bare: true, body: g.cfg.MaxBody, handle: g.landingRetry}),
		of(protocol.StDrop, route{method: del, pattern: landingRoot + "/errors", name: "landing.drop", handle: g.landingDrop}),
	}
}

// ownerOf is the owner that the path names.
func ownerOf(r *http.Request) field.Owner {
	return field.Owner{App: r.PathValue("appId"), Region: r.PathValue("regionId"), Logic: r.PathValue("logicType"), ID: r.PathValue("ownerId")}
}

// storageRegions lists the apps and regions that have fields.
func (g *Gateway) storageRegions(w *reply, r *http.Request) error {
	list, size := g.stores.Storage.Regions(), 0
	list = slices.DeleteFunc(list, func(o field.Owner) bool { return !w.May().Sees(op.Owners(policy.Read, o.App, o.Region, "")) })
	for i := range list {
		size += entryOverhead + len(list[i].App) + len(list[i].Region)
	}
	return w.sendLong(size, func(out *kvjson.Writer) {
		out.Open(kvjson.Regions, '[')
		for i := range list {
			out.Element()
			out.Text(kvjson.AppID, list[i].App)
			out.Text(kvjson.RegionID, list[i].Region)
			out.Close('}')
		}
		out.Close(']')
	})
}

// storageOwners lists or counts the owners of an app and region.
func (g *Gateway) storageOwners(w *reply, r *http.Request) error {
	p := parametersOf(r)
	logic, after, limit, count := p.text("logicType"), p.text("after"), p.limit(playerjson.MaxOwners), p.flag("count")
	place := ownerOf(r)
	if err := g.asks(w, p, op.Owners(policy.Read, place.App, place.Region, logic)); err != nil {
		return err
	}
	if count {
		n, err := g.stores.Storage.Count(r.Context(), place.App, place.Region, logic)
		if err != nil {
			return err
		}
		return w.sendCount(n)
	}
	if err := w.take(limit * memory.OwnerCost); err != nil {
		return err
	}
	list, next, err := g.stores.Storage.Owners(r.Context(), place.App, place.Region, logic, after, int(limit))
	if err != nil {
		return err
	}
	out := w.object()
	out.Struct(field.NewOwnerPage(list, next))
	return w.sendObject(&out)
}

// storageGet reads the named fields of an owner, or a page of all.
func (g *Gateway) storageGet(w *reply, r *http.Request) error {
	p, owner := parametersOf(r), ownerOf(r)
	names := p.names()
	ask := field.Ask{After: p.text("after"), Limit: int(min(p.count("limit"), kv.MaxList)), Revision: kv.Revision(p.count("revision"))}
	versions, dirty := p.flag("versions"), p.flag("dirty")
	if names != nil && (ask != field.Ask{}) {
		p.fail(codes.Errorf(codes.BadRequest, "names excludes after, limit and revision, which are for all fields"))
	}
	if err := g.asks(w, p, op.Owner(policy.Read, owner.App, owner.Region, owner.Logic, owner.ID)); err != nil {
		return err
	}
	if names != nil {
		fields, err := g.stores.Storage.Load(r.Context(), owner, names)
		if err != nil {
			return err
		}
		return g.sendFields(w, owner, field.Page{Fields: fields}, false, versions, dirty)
	}
	page, err := g.stores.Storage.GetAll(r.Context(), owner, ask)
	if err != nil {
		return err
	}
	return g.sendFields(w, owner, page, true, versions, dirty)
}

// sendFields answers with fields. Those of a page have a revision, which is 0 of a new store.
func (g *Gateway) sendFields(w *reply, owner field.Owner, page field.Page, paged, versions, dirty bool) error {
	size := playerjson.SizeOf(page.Fields)
	if size > maxReadBack {
		return codes.Errorf(codes.TooLarge, "these fields have %d bytes as JSON and the limit of one reply is %d; name fewer at a time", size, maxReadBack)
	}
	return w.sendLong(size, func(out *kvjson.Writer) {
		if paged {
			playerjson.WritePage(out, &page, versions)
			out.Number(kvjson.Revision, int64(page.Revision))
		} else {
			playerjson.WriteFields(out, page.Fields, versions)
		}
		if dirty {
			playerjson.WriteDirty(out, page.Fields, g.stores.Storage.LandedThrough(owner))
		}
	})
}

// names are the parameters names, separated by commas, and name, which may be given many
// times and have commas; nil if neither is there.
func (p *parameters) names() []string {
	list := p.values["name"]
	delete(p.values, "name")
	if p.has("names") {
		list = append(list, strings.Split(p.text("names"), ",")...)
	}
	if len(list) > field.MaxFields {
		p.fail(codes.Errorf(codes.TooManyOps, "%d fields are named, the limit is %d", len(list), field.MaxFields))
	}
	return list
}

// storageWrite changes fields of an owner.
func (g *Gateway) storageWrite(kind field.Kind) handler {
	return func(w *reply, r *http.Request) error {
		m, err := w.readObject(r, kvjson.HTTP)
		if err != nil {
			return err
		}
		by, err := w.actor(r)
		if err != nil {
			return err
		}
		write := &field.Write{Owner: ownerOf(r), Kind: kind, Actor: by}
		playerjson.ReadWrite(&m.Reader, write)
		if err := m.End(); err != nil {
			return err
		}
		if err := g.judge(w, op.Fields(w.Things(), write)); err != nil {
			return err
		}
		if err := w.take(costOf(write)); err != nil {
			return err
		}
		out, err := g.change(r, write)
		if err != nil {
			return err
		}
		return w.sendLong(playerjson.SizeOf(out.Fields)+playerjson.SizeOf(out.Prev), func(body *kvjson.Writer) {
			playerjson.WriteOutcome(body, kind, out, write.WantPrev)
		})
	}
}

// costOf is about what a write takes.
func costOf(write *field.Write) int64 {
	size := memory.WaiterCost * (len(write.Fields) + len(write.Deltas) + len(write.Names) + len(write.Expect))
	for i := range write.Fields {
		size += len(write.Fields[i].Name) + len(write.Fields[i].Value)
	}
	return int64(size)
}

// change returns when the write is durable or has failed. It does not wait any longer when
// the peer is gone or the gateway ends, because a write may wait for a database that is down;
// it stands either way.
func (g *Gateway) change(r *http.Request, write *field.Write) (*field.Outcome, error) {
	late := codes.Errorf(codes.Timeout, "no one waits for the answer any more; whether fields have changed is not known")
	return kv.Await(r.Context(), late, func(done func(*field.Outcome, error)) error {
		g.stores.Storage.Do(write, done)
		return nil
	})
}
