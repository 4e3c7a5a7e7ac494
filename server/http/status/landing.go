package status

import (
	"encoding/json" // for JSON that is written already
	"strconv"
	"time"

	"confcenter/internal/metric"
	"confcenter/kv/kvjson"
	"confcenter/player"
)

// Landing is the answer of /v1/landing. There are no tables if nothing is landed.
type Landing struct {
	Now    int64           `json:"now_ms"`
	Tables json.RawMessage `json:"tables"`
	Memory player.Stats    `json:"memory"`
}

// Landing is how it stands with each dirty table.
func (s *Server) Landing() *Landing {
	return &Landing{Now: s.Clock.Now().UnixMilli(), Tables: kvjson.AppendList(nil, kvjson.HTTP, s.Storage.Status()), Memory: s.Storage.Stats()}
}

// landingReadings are the numbers of player storage, and those of each dirty table.
func (s *Server) landingReadings() metric.Readings {
	stats := s.Storage.Stats()
	list := metric.Of(&stats)
	for _, l := range stats.Limits {
		labels := []metric.Label{{Name: "limit", Value: l.Name}}
		list = append(list,
			metric.Reading{Name: "storage_limit_use", Help: "What counts against each limit of player storage.", Labels: labels, N: l.Use},
			metric.Reading{Name: "storage_limit_most", Help: "Each limit of player storage.", Labels: labels, N: l.Most},
			metric.Reading{Name: "storage_limits_met_total", Help: "How often each limit of player storage was in the way.", Labels: labels, N: int64(l.Met)})
	}
	now := s.Clock.Now()
	for _, table := range s.Storage.Status() {
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
