package gateway

import (
	"errors"
	"sync"
	"time"
)

// fakeFleet is a TCP side of the test's own.
type fakeFleet struct {
	mu          sync.Mutex
	list        []Client
	stats       FleetStats
	slow        []Slow
	dead, leave error
}

var errStill = errors.New("event loop 1 has not moved for 6s")

func (f *fakeFleet) Clients() []Client { return f.list }
func (f *fakeFleet) Stats() FleetStats { return f.stats }
func (f *fakeFleet) Slow() []Slow      { return f.slow }

func (f *fakeFleet) Live() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *fakeFleet) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leave
}

func (f *fakeFleet) set(dead, leave error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead, f.leave = dead, leave
}

func newFakeFleet(now time.Time) *fakeFleet {
	return &fakeFleet{
		list: []Client{
			{ID: 2001, Name: "web", Tag: "blue", Address: "127.0.0.1:4", Since: now, Main: "web.json",
				Subscriptions: []Subscription{{File: "a.json", Path: "/k", Told: 7}, {File: "b.json"}}, More: 3, Watches: 2},
			{ID: 2002, Name: "<script>"},
		},
		stats: FleetStats{
			Connections: 3, Clients: 2, Watches: 2, MemoryBytes: 10, Opened: 5, Closed: 2, Requests: 9, Replies: 8, Pushes: 4, WatchFrames: 3,
			LimitsMet: []Count{{"input", 1}}, Commands: []Count{{"KVGET", 6}, {"OTHER", 0}},
			Latency: []Latency{{Kind: "write", Count: 4, Sum: 12 * time.Millisecond,
				Buckets: []Bucket{{time.Millisecond, 0}, {2 * time.Millisecond, 2}, {4 * time.Millisecond, 1}}}},
		},
		slow: []Slow{{When: now.Add(time.Second), Name: "KVPUT", Duration: 2 * time.Second}},
	}
}
