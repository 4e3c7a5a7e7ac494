package http

import (
	"errors"
	"sync"
	"time"

	"confcenter/internal/metric"
	"confcenter/internal/roster"
)

// fakeTCP is a TCP side of the test's own.
type fakeTCP struct {
	mu          sync.Mutex
	list        []roster.Client
	stats       metric.Readings
	slow        []metric.Slow
	dead, leave error
}

var errStill = errors.New("event loop 1 has not moved for 6s")

func (f *fakeTCP) Clients(after int32, most int) (list []roster.Client, next int32) {
	for _, c := range f.list {
		switch {
		case c.ID <= after:
		case len(list) == most:
			return list, list[most-1].ID
		default:
			list = append(list, c)
		}
	}
	return list, 0
}

func (f *fakeTCP) Stats() metric.Readings { return f.stats }
func (f *fakeTCP) Slow() []metric.Slow    { return f.slow }

func (f *fakeTCP) Live() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *fakeTCP) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leave
}

func (f *fakeTCP) set(dead, leave error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead, f.leave = dead, leave
}

func newFakeTCP(now time.Time) *fakeTCP {
	return &fakeTCP{
		list: []roster.Client{
			{ID: 2001, Name: "web", Tag: "blue", Address: "127.0.0.1:4", Since: now, Main: "web.json",
				Subscriptions: []roster.Subscription{{File: "a.json", Path: "/k", Told: 7}, {File: "b.json"}}, More: 3, Watches: 2},
			{ID: 2002, Name: "<script>"},
		},
		stats: metric.Readings{
			{Name: "server_connections", N: 3}, {Name: "server_clients", N: 2}, {Name: "server_watches", N: 2},
			{Name: "server_replies_total", N: 8}, {Name: "server_pushes_total", N: 4}, {Name: "server_watch_frames_total", N: 3},
			{Name: "server_limits_met_total", Labels: []metric.Label{{Name: "limit", Value: "input"}}, N: 1},
			{Name: "server_requests_total", Labels: []metric.Label{{Name: "command", Value: "KVGET"}}, N: 6},
			{Name: "server_requests_total", Labels: []metric.Label{{Name: "command", Value: "OTHER"}}, N: 3},
			{Name: "server_request_duration_seconds", Labels: []metric.Label{{Name: "kind", Value: "write"}}, Times: &metric.Times{Count: 4, Sum: 12 * time.Millisecond,
				Buckets: []metric.Bucket{{UpTo: time.Millisecond}, {UpTo: 2 * time.Millisecond, Count: 2}, {UpTo: 4 * time.Millisecond, Count: 1}}}},
		},
		slow: []metric.Slow{{When: now.Add(time.Second), Name: "KVPUT", Duration: 2 * time.Second}},
	}
}
