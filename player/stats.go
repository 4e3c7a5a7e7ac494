package player

import (
	"confcenter/kv"
	"confcenter/player/field"
)

// Stats are the figures of what a Storage holds beside the store.
type Stats struct {
	Queries      uint64 `json:"queries" metric:"storage_queries_total" help:"Queries by which owners were loaded from the database."`
	Evicted      uint64 `json:"evicted" metric:"storage_evicted_fields_total" help:"Fields that have left memory because their owners were idle."`
	PurgedFields uint64 `json:"purged_fields" metric:"storage_purged_fields_total" help:"Fields deleted from memory because they were removed long ago."`
	PurgedRows   uint64 `json:"purged_rows" metric:"storage_purged_rows_total" help:"Rows deleted from the database because they were removed long ago."`

	Limits []Limit `json:"limits"`
}

// Limit is a limit beside its use.
type Limit struct {
	Name string `json:"name"`
	Use  int64  `json:"use"`
	Most int64  `json:"most"`
	Met  uint64 `json:"met"` // how often it was in the way since the start
}

// Stats are the present figures.
func (s *Storage) Stats() (got Stats) {
	got.Limits = append(s.lines.limits(), s.pages.limits()...)
	got.Limits = append(got.Limits, s.names.limit())
	if s.cold != nil {
		got.Queries, got.Evicted = s.cold.loads.queries.Load(), s.cold.evicted.Load()
		got.PurgedFields, got.PurgedRows = s.purge.fields.Load(), s.purge.rows.Load()
		got.Limits = append(append(got.Limits, s.cold.loads.limits()...), s.cold.cache.limit(), s.filterLimit())
	}
	return got
}

func (all *lines) limits() []Limit {
	all.mu.Lock()
	defer all.mu.Unlock()
	return []Limit{
		{Name: "waiting_writes", Use: int64(all.waiting), Most: maxWaiting, Met: all.met},
		{Name: "waiting_bytes", Use: int64(all.bytes), Most: maxWaitingBytes, Met: all.metBytes},
	}
}

func (p *pages) limits() []Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []Limit{
		{Name: "pages", Use: int64(len(p.kept)), Most: maxPages, Met: p.met},
		{Name: "page_bytes", Use: p.held, Most: p.pool.Limit() / 2, Met: p.metBytes},
	}
}

func (all *regions) limit() Limit {
	all.mu.RLock()
	defer all.mu.RUnlock()
	return Limit{Name: "tables", Use: int64(len(all.byNS)), Most: maxRegions, Met: all.met}
}

func (l *loads) limits() []Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return []Limit{
		{Name: "loading_queries", Use: int64(l.loaders), Most: maxLoaders, Met: l.metLoaders},
		{Name: "loading_owners", Use: int64(len(l.flights)), Most: maxFlights, Met: l.metFlights},
		{Name: "loading_requests", Use: int64(l.asked), Most: maxLoadAsked, Met: l.metAsked},
	}
}

// limit is that of the cache, which shares it with pages.
func (c *cache) limit() Limit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Limit{Name: "cache_bytes", Use: c.pool.Held(), Most: c.pool.Limit(), Met: c.dropped}
}

// filterLimit is that of the filter. It is never in the way: a full bucket errs more often.
func (s *Storage) filterLimit() Limit {
	limit := Limit{Name: "filter_bytes", Most: (1 + bucketBytes) << bucketBits}
	v := s.store.View()
	defer v.Close()
	_ = each(v, field.Landing, filterPrefix, func(e *kv.Entry) { limit.Use += int64(len(e.Value.Data)) }) // a view of now
	return limit
}
