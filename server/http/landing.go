package http

import (
	"net/http"
	"strings"

	"confcenter/codes"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
)

// landingRoot is the root of the paths about what is not in the database yet.
const landingRoot = "/v1/landing"

const (
	maxErrors = 500     // refused fields that are listed at a time
	oneError  = 4 << 10 // bytes that one may take, with its reason
)

// landingErrors lists the fields that the database refused.
func (g *Gateway) landingErrors(w *reply, r *http.Request) error {
	p := parametersOf(r)
	after, limit := p.text("after"), p.limit(maxErrors)
	var from field.Ref
	if after != "" {
		table, key, _ := strings.Cut(after, "/")
		var ok bool
		if from, ok = field.ParseField(table, key); !ok {
			p.fail(codes.Errorf(codes.BadRequest, "after is %.40q, which is no next of a page before", after))
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if err := w.take(min(limit, int64(g.refused())) * oneError); err != nil {
		return err
	}
	list, more := g.stores.Storage.Errors(from, int(limit))
	out := w.object()
	out.Struct(&field.ErrorPage{Errors: list, More: more && len(list) > 0})
	if more && len(list) > 0 {
		last := list[len(list)-1].Ref()
		out.Text(kvjson.Next, last.Owner.Table()+"/"+last.Key())
	}
	return w.sendObject(&out)
}

// refused is how many fields the database has refused.
func (g *Gateway) refused() (n int64) {
	for _, table := range g.stores.Storage.Status() {
		n += table.Refused + table.Dropped
	}
	return n
}

// landingRetry has refused fields landed again: those of the body, or all.
func (g *Gateway) landingRetry(w *reply, r *http.Request) error {
	m, err := w.readObject(r, kvjson.HTTP)
	if err != nil {
		return err
	}
	var refused field.Refused
	kvjson.ReadStruct(&m.Reader, &refused)
	if err := m.End(); err != nil {
		return err
	}
	n, err := g.stores.Storage.Retry(r.Context(), refused.Rows)
	if err != nil {
		return err
	}
	return w.sendCount(int64(n))
}

// landingDrop gives up landing one refused field, or all.
func (g *Gateway) landingDrop(w *reply, r *http.Request) error {
	p := parametersOf(r)
	confirm := p.count("confirm")
	all := len(p.values) == 0
	one := field.Ref{Owner: field.Owner{App: p.textOr("appId"), Region: p.textOr("regionId"), Logic: p.text("logicType"), ID: p.text("ownerId")}, Name: p.text("name")}
	if err := p.end(); err != nil {
		return err
	}
	var fields []field.Ref
	if !all {
		if one.Owner.Logic == "" || one.Owner.ID == "" || one.Name == "" {
			return codes.Errorf(codes.BadRequest, "a field needs logicType, ownerId and name; give none of them to name all")
		}
		fields = append(fields, one)
	}
	n, err := g.stores.Storage.Drop(r.Context(), fields, confirm)
	if err != nil {
		return err
	}
	return w.sendCount(int64(n))
}

// textOr is the id that there is if none is given.
func (p *parameters) textOr(name string) string {
	if p.has(name) {
		return p.text(name)
	}
	return field.DefaultID
}

func (w *reply) sendCount(n int64) error {
	out := w.object()
	out.Number(kvjson.Count, n)
	return w.sendObject(&out)
}
