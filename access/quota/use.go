package quota

import (
	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/kv"
)

// Measure tells what a store has.
type Measure interface {
	// StockOf is what a namespace has.
	StockOf(ns string) kv.Stock
	// LeasesOf is how many leases an identity has, by its name.
	LeasesOf(name string) int
}

// MeasureBy has [Book.Use] and [Book.UseOf] tell what m does.
func (b *Book) MeasureBy(m Measure) {
	if b != nil {
		b.measure.Store(&m)
	}
}

// Use is how much there is of one thing that can be limited.
type Use struct {
	Limit policy.Limit
	N     int64  // how much there is; of what is limited by the second: 0
	Most  int64  // 0: any amount
	By    string // the quota that says so; empty: none
}

// Use tells what an identity has, and may have.
func (b *Book) Use(id *access.Identity) []Use {
	n := [policy.Limits]int64{}
	b.mu.Lock()
	for _, a := range b.accounts {
		if a.who.Name == id.Name {
			n[policy.Connections] += a.connections.Load()
			n[policy.Watches] += a.watches.Load()
		}
	}
	b.mu.Unlock()
	if m := b.measure.Load(); m != nil {
		n[policy.Leases] = int64((*m).LeasesOf(id.Name))
	}
	return uses(policy.OfIdentity(), n, b.rules.Load().Quota(id))
}

// UseOf tells what a namespace has, and may have.
func (b *Book) UseOf(ns string) []Use {
	n := [policy.Limits]int64{}
	b.mu.Lock()
	if s := b.spaces[ns]; s != nil {
		n[policy.Watches] = s.watches.Load()
	}
	b.mu.Unlock()
	if m := b.measure.Load(); m != nil {
		held := (*m).StockOf(ns)
		n[policy.Keys], n[policy.Size], n[policy.Leases] = held.Keys, held.Bytes, held.Leased
	}
	c, _, _ := placeOf(ns)
	return uses(policy.OfNamespace(c), n, quotaOf(b.rules.Load(), ns))
}

func uses(limits []policy.Limit, n [policy.Limits]int64, q *policy.Quota) (list []Use) {
	for _, limit := range limits {
		use := Use{Limit: limit, N: n[limit]}
		if q != nil {
			use.Most, use.By = q.Most[limit], q.By[limit]
		}
		list = append(list, use)
	}
	return list
}
