package player

import (
	"sync"

	"confcenter/player/field"
)

// region is one table, with its names.
type region struct {
	app, region string
	ns          string
}

func (r *region) table() string { return r.ns[len(field.Prefix):] }

// maxRegions is how many tables are remembered; the names of more are made each time.
const maxRegions = 4096

// regions remembers the names of tables, so that entries share them.
type regions struct {
	mu   sync.RWMutex
	byNS map[string]*region // guarded by mu
	met  uint64             // how often there was no room for one; guarded by mu
}

// of returns the region of a namespace of fields; nil if ns is none.
func (all *regions) of(ns string) *region {
	all.mu.RLock()
	r := all.byNS[ns]
	all.mu.RUnlock()
	if r != nil || len(ns) < len(field.Prefix) || ns[:len(field.Prefix)] != field.Prefix {
		return r
	}
	app, reg, ok := field.ParseTable(ns[len(field.Prefix):])
	if !ok {
		return nil
	}
	return all.remember(&region{app: app, region: reg, ns: ns})
}

// named is of for a namespace that an owner has.
func (all *regions) named(ns []byte, o *field.Owner) *region {
	all.mu.RLock()
	r := all.byNS[string(ns)]
	all.mu.RUnlock()
	if r != nil {
		return r
	}
	return all.remember(&region{app: o.App, region: o.Region, ns: string(ns)})
}

func (all *regions) remember(r *region) *region {
	all.mu.Lock()
	defer all.mu.Unlock()
	if known := all.byNS[r.ns]; known != nil {
		return known
	}
	if all.byNS == nil {
		all.byNS = map[string]*region{}
	}
	if len(all.byNS) < maxRegions {
		all.byNS[r.ns] = r
	} else {
		all.met++
	}
	return r
}
