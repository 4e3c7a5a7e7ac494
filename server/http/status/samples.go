package status

import (
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

// Sampling takes the first sample, and returns a function that takes the others
// until closing is closed.
func (s *Server) Sampling(closing <-chan struct{}) func() {
	ticker := s.Clock.NewTicker(sampleEvery)
	s.samples.Add(s.moment())
	return func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C():
				s.samples.Add(s.moment())
			case <-closing:
				return
			}
		}
	}
}

func (s *Server) moment() moment {
	requests, _ := s.traffic.requests()
	one := moment{At: s.Clock.Now().UnixMilli(), HTTP: requests}
	if s.TCP != nil {
		stats := s.TCP.Stats()
		stats.Fill(&one)
		one.Pushes = pushes(stats)
	}
	return one
}

// Samples is the answer of /v1/status/samples: the samples and what they relate to, the server's
// clock, and its start, when the counters were 0.
type Samples struct {
	Now     int64    `json:"now_ms"`
	Started int64    `json:"started_ms"`
	Samples []moment `json:"samples"`
}

// Samples are those of the last minutes, oldest first.
func (s *Server) Samples() *Samples {
	list := s.samples.Newest(maxSamples)
	slices.Reverse(list)
	return &Samples{s.Clock.Now().UnixMilli(), s.started.UnixMilli(), list}
}
