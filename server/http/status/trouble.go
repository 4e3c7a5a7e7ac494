package status

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
func (s *Server) troubledStores() []troubledStore {
	var list []troubledStore
	if s.Config != nil {
		list = append(list, troubledStore{"config", s.Config})
	}
	if state, ok := s.State.(troubled); ok {
		list = append(list, troubledStore{"state", state})
	}
	return list
}

// damaged is a store that says what it cannot read any more although writes go on. Damage must be
// cheap and must not wait.
type damaged interface{ Damage() *health.Trouble }

// damage is what the state store cannot read; nil: nothing that is known of.
func (s *Server) damage() *health.Trouble {
	if state, ok := s.State.(damaged); ok {
		return state.Damage()
	}
	return nil
}

// writable is nil, or says why the store takes no writes, where and since when.
func (s *Server) writable(one troubledStore) error {
	trouble := one.Trouble()
	if trouble == nil {
		return nil
	}
	return fmt.Errorf("%w (%s in %s, for %s)", trouble.Err, trouble.Kind, trouble.Dir, s.lasting(trouble).Truncate(time.Second))
}

func (s *Server) lasting(trouble *health.Trouble) time.Duration {
	return max(0, s.Clock.Now().Sub(trouble.Since))
}

// troubleReadings say of each store whether it takes writes.
func (s *Server) troubleReadings() (list metric.Readings) {
	for _, one := range s.troubledStores() {
		store := []metric.Label{{Name: "store", Value: one.name}}
		writable, stalled := int64(1), time.Duration(0)
		if trouble := one.Trouble(); trouble != nil {
			writable = 0
			if trouble.Kind == health.Hanging {
				stalled = s.lasting(trouble)
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

func (s *Server) troubles() []troubleBody {
	list := []troubleBody{}
	add := func(name string, t *health.Trouble) {
		if t != nil {
			list = append(list, troubleBody{Store: name, Kind: t.Kind, Dir: t.Dir, Text: t.Err.Error(), Since: t.Since.UnixMilli(), Restart: t.Restart})
		}
	}
	for _, one := range s.troubledStores() {
		add(one.name, one.Trouble())
	}
	add("state", s.damage())
	return list
}
