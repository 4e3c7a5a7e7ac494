package http

import (
	"encoding/json" // for JSON that is written already
	"net/http"
	"strconv"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/internal/metric"
	"confcenter/kv/kvjson"
	"confcenter/player"
	"confcenter/player/field"
)

// landingRoot is the root of the paths about what is not in the database yet.
const landingRoot = "/v1/landing"

const (
	maxErrors = 500     // refused fields that are listed at a time
	oneError  = 4 << 10 // bytes that one may take, with its reason
)

// landingStatus tells how it stands with each dirty table.
func (g *Gateway) landingStatus(w *reply, _ *http.Request) error {
	return w.sendStruct(g.landingBody())
}

// landingBody is the answer of /v1/landing. There are no tables if nothing is landed.
type landingBody struct {
	Now    int64           `json:"now_ms"`
	Tables json.RawMessage `json:"tables"`
	Memory player.Stats    `json:"memory"`
}

func (g *Gateway) landingBody() *landingBody {
	return &landingBody{Now: g.clock.Now().UnixMilli(), Tables: kvjson.AppendList(nil, kvjson.HTTP, g.stores.Storage.Status()), Memory: g.stores.Storage.Stats()}
}

// landingErrors lists the fields that the database refused.
func (g *Gateway) landingErrors(w *reply, r *http.Request) error {
	p := parametersOf(r)
	after, limit := p.text("after"), p.count("limit")
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
	if limit == 0 || limit > maxErrors {
		limit = maxErrors
	}
	if err := w.room.take(w, min(limit, int64(g.refused()))*oneError); err != nil {
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

// landingReadings are the numbers of player storage, and those of each dirty table.
func (g *Gateway) landingReadings() metric.Readings {
	stats := g.stores.Storage.Stats()
	list := metric.Of(&stats)
	for _, l := range stats.Limits {
		labels := []metric.Label{{Name: "limit", Value: l.Name}}
		list = append(list,
			metric.Reading{Name: "storage_limit_use", Help: "What counts against each limit of player storage.", Labels: labels, N: l.Use},
			metric.Reading{Name: "storage_limit_most", Help: "Each limit of player storage.", Labels: labels, N: l.Most},
			metric.Reading{Name: "storage_limits_met_total", Help: "How often each limit of player storage was in the way.", Labels: labels, N: int64(l.Met)})
	}
	now := g.clock.Now()
	for _, table := range g.stores.Storage.Status() {
		var stats struct {
			Dirty   int64  `metric:"landing_dirty_fields" help:"Fields that the database has not got yet."`
			Age     int64  `metric:"landing_oldest_dirty_seconds" help:"Age of the oldest field that the database has not got yet."`
			Refused int64  `metric:"landing_refused_fields" help:"Fields that the database refused and that are tried again."`
			Dropped int64  `metric:"landing_dropped_fields" help:"Refused fields that an operator has given up."`
			Landed  uint64 `metric:"landing_landed_fields_total" help:"Fields landed, each time they were."`
			Last    int64  `metric:"landing_last_timestamp_seconds" help:"When rows were landed last, in seconds since 1970; 0: not since the start."`
			Rate    int64  `metric:"landing_rows_per_second" help:"Rows landed a second, of the last minute."`
		}
		stats.Dirty, stats.Refused, stats.Dropped = table.Dirty, table.Refused, table.Dropped
		stats.Landed, stats.Last, stats.Rate = table.Landed, table.Last/int64(time.Second/time.Millisecond), table.Rate
		if table.Oldest > 0 {
			stats.Age = int64(now.Sub(time.UnixMilli(table.Oldest)) / time.Second)
		}
		for _, reading := range metric.Of(&stats) {
			reading.Labels = []metric.Label{{Name: "table", Value: strconv.Itoa(table.Table)}}
			list = append(list, reading)
		}
	}
	return list
}
