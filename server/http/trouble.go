package http

import (
	"fmt"
	"time"

	"confcenter/internal/health"
	"confcenter/internal/metric"
)

// troubled is a store that says why it takes no writes. Trouble must be cheap and must not
// wait.
type troubled interface{ Trouble() *health.Trouble }

// troubledStore is one of our stores, under the name it has for people.
type troubledStore struct {
	name string
	troubled
}

// troubledStores are the stores that can be asked.
func (g *Gateway) troubledStores() []troubledStore {
	var list []troubledStore
	if g.stores.Config != nil {
		list = append(list, troubledStore{"config", g.stores.Config})
	}
	if state, ok := g.stores.State.(troubled); ok {
		list = append(list, troubledStore{"state", state})
	}
	return list
}

// damaged is a store that says what it cannot read any more although writes go on. Damage must be
// cheap and must not wait.
type damaged interface{ Damage() *health.Trouble }

// damage is what the state store cannot read; nil: nothing that is known of.
func (g *Gateway) damage() *health.Trouble {
	if state, ok := g.stores.State.(damaged); ok {
		return state.Damage()
	}
	return nil
}

// writable is nil, or says why the store takes no writes, where and since when.
func (g *Gateway) writable(s troubledStore) error {
	trouble := s.Trouble()
	if trouble == nil {
		return nil
	}
	return fmt.Errorf("%w (%s in %s, for %s)", trouble.Err, trouble.Kind, trouble.Dir, g.lasting(trouble).Truncate(time.Second))
}

func (g *Gateway) lasting(trouble *health.Trouble) time.Duration {
	return max(0, g.clock.Now().Sub(trouble.Since))
}

// troubleReadings say of each store whether it takes writes.
func (g *Gateway) troubleReadings() (list metric.Readings) {
	for _, s := range g.troubledStores() {
		store := []metric.Label{{Name: "store", Value: s.name}}
		writable, stalled := int64(1), time.Duration(0)
		if trouble := s.Trouble(); trouble != nil {
			writable = 0
			if trouble.Kind == health.Hanging {
				stalled = g.lasting(trouble)
			}
		}
		list = append(list,
			metric.Reading{Name: "store_writable", Help: "1 while the store takes all writes, else 0: its disk is full, hangs or has failed.", Labels: store, N: writable},
			metric.Reading{Name: "store_disk_stalled_seconds", Help: "How long the store's disk has not answered.", Labels: store, N: int64(stalled.Seconds())})
	}
	return list
}

// troubleBody is a store's trouble in /v1/status.
type troubleBody struct {
	Store   string      `json:"store"` // config or state
	Kind    health.Kind `json:"kind"`
	Dir     string      `json:"dir"`
	Text    string      `json:"text"`
	Since   int64       `json:"since_ms"`
	Restart bool        `json:"restart"` // only a restart helps
}

func (g *Gateway) troubles() []troubleBody {
	list := []troubleBody{}
	add := func(name string, t *health.Trouble) {
		if t != nil {
			list = append(list, troubleBody{Store: name, Kind: t.Kind, Dir: t.Dir, Text: t.Err.Error(), Since: t.Since.UnixMilli(), Restart: t.Restart})
		}
	}
	for _, s := range g.troubledStores() {
		add(s.name, s.Trouble())
	}
	add("state", g.damage())
	return list
}
