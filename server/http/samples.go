package http

import (
	"net/http"
	"slices"
	"time"
)

// Samples of the last minutes, so that a chart shows something as soon as it is
// opened.
const (
	sampleEvery = 2 * time.Second
	maxSamples  = 5*30 + 1 // five minutes
)

// moment is one sample of the counters.
type moment struct {
	At          int64 `json:"at_ms"`
	Connections int64 `json:"connections" metric:"server_connections"`
	Requests    int64 `json:"requests_total" metric:"server_requests_total"`
	HTTP        int64 `json:"http_requests_total"`
	Pushes      int64 `json:"pushes_total"`
}

// sampling takes the first sample, and returns a function that takes the others
// until the gateway ends.
func (g *Gateway) sampling() func() {
	ticker := g.clock.NewTicker(sampleEvery)
	g.samples.Add(g.moment())
	return func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				g.samples.Add(g.moment())
			case <-g.closing:
				return
			}
		}
	}
}

func (g *Gateway) moment() moment {
	requests, _ := g.traffic.requests()
	one := moment{At: g.clock.Now().UnixMilli(), HTTP: requests}
	if g.tcp != nil {
		s := g.tcp.Stats()
		s.Fill(&one)
		one.Pushes = pushes(s)
	}
	return one
}

// statusSamples answers with the samples and what they relate to: the server's
// clock, and its start, when the counters were 0.
func (g *Gateway) statusSamples(w *reply, _ *http.Request) error {
	list := g.samples.Newest(maxSamples)
	slices.Reverse(list)
	return w.sendStruct(&struct {
		Now     int64    `json:"now_ms"`
		Started int64    `json:"started_ms"`
		Samples []moment `json:"samples"`
	}{g.clock.Now().UnixMilli(), g.started.UnixMilli(), list})
}
