package talk

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"confcenter/protocol"
	"confcenter/tools/ccdump/stream"
)

const (
	// maxPushed is how many files and keys have a count of their pushes.
	maxPushed = 10000
	// maxExamples is how many unanswered requests and skipped pieces are named.
	maxExamples = 20
	// others is the name under which everything beyond a limit is counted.
	others = "(others)"

	maxLatency = int64(10 * time.Minute / time.Microsecond)
)

// Summary adds a capture up.
type Summary struct {
	Silent      int64 // connections without a frame
	First, Last int64 // of the frames, ns since 1970

	rows    map[protocol.Command]*row
	pushes  map[string]int64
	Missing []Missing
	Skips   []Skipped
}

// row is one command's counts.
type row struct {
	CommandCount
	latency *hdrhistogram.Histogram // in µs
}

// Missing is a request that was never answered.
type Missing struct {
	Time    string `json:"time"`
	Conn    int    `json:"conn"`
	Name    string `json:"svrname,omitempty"`
	Command string `json:"command"`
	Seq     uint16 `json:"seq"`
	Subject string `json:"subject,omitempty"`
}

// Skipped is a piece that could not be decoded.
type Skipped struct {
	Conn   int    `json:"conn"`
	From   string `json:"from"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

// NewSummary makes an empty one.
func NewSummary() *Summary {
	return &Summary{rows: map[protocol.Command]*row{}, pushes: map[string]int64{}}
}

// unknown is the row of all commands that are not in the table.
const unknown protocol.Command = 0

func (s *Summary) row(c protocol.Command) *row {
	id := c.Request()
	if protocol.Lookup(id) == nil {
		id = unknown
	}
	r := s.rows[id]
	if r == nil {
		r = &row{CommandCount: CommandCount{Command: id.String()}}
		if id == unknown {
			r.Command = "(unknown)"
		}
		s.rows[id] = r
	}
	return r
}

func (s *Summary) seen(at int64) {
	if s.First == 0 || at < s.First {
		s.First = at
	}
	s.Last = max(s.Last, at)
}

func (s *Summary) request(f *stream.Frame, push bool, about []string) {
	s.seen(f.At)
	r := s.row(f.Command)
	size := protocol.HeaderSize + int64(f.BodyLen)
	if !push {
		r.Requests++
		r.RequestBytes += size
		return
	}
	r.Pushes++
	r.PushBytes += size
	for _, name := range about {
		if _, ok := s.pushes[name]; !ok && len(s.pushes) >= maxPushed {
			name = others
		}
		s.pushes[name]++
	}
}

func (s *Summary) reply(l *Line) {
	s.seen(l.At)
	r := s.row(l.Frame.Command)
	r.Replies++
	r.ReplyBytes += protocol.HeaderSize + int64(l.Frame.BodyLen)
	if l.HasCode && l.Code != 0 {
		r.Refused++
	}
	if !l.Answered {
		r.Strays++
		return
	}
	if r.latency == nil {
		r.latency = hdrhistogram.New(1, maxLatency, 3)
	}
	_ = r.latency.RecordValue(min(max(1, l.Latency.Microseconds()), maxLatency))
}

func (s *Summary) unanswered(c *stream.Conn, who *speaker, w *waiting) {
	s.row(w.cmd).Unanswered++
	if len(s.Missing) < maxExamples {
		s.Missing = append(s.Missing, Missing{
			Time: time.Unix(0, w.at).UTC().Format(time.RFC3339Nano), Conn: c.ID, Name: who.name,
			Command: w.cmd.String(), Seq: w.seq, Subject: w.subject,
		})
	}
}

func (s *Summary) skipped(c *stream.Conn, skip *stream.Skip) {
	if len(s.Skips) < maxExamples {
		s.Skips = append(s.Skips, Skipped{Conn: c.ID, From: dirName(skip.From), Offset: skip.Offset, Bytes: skip.Bytes, Reason: skip.Reason})
	}
}

// CommandCount is the traffic of one command.
type CommandCount struct {
	Command      string   `json:"command"`
	Requests     int64    `json:"requests"`
	RequestBytes int64    `json:"request_bytes"`
	Replies      int64    `json:"replies"`
	ReplyBytes   int64    `json:"reply_bytes"`
	Refused      int64    `json:"refused"`
	Unanswered   int64    `json:"unanswered"`
	Strays       int64    `json:"strays"`
	Pushes       int64    `json:"pushes"`
	PushBytes    int64    `json:"push_bytes"`
	Latency      *Latency `json:"latency_us,omitempty"`
}

// Latency is in µs.
type Latency struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// Commands returns the commands in the order of their ids.
func (s *Summary) Commands() (list []CommandCount) {
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		c := s.rows[id].CommandCount
		if h := s.rows[id].latency; h != nil {
			c.Latency = &Latency{P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90), P99: h.ValueAtQuantile(99), Max: h.Max()}
		}
		list = append(list, c)
	}
	return list
}

// PushCount says how often a file or key was pushed.
type PushCount struct {
	Subject string `json:"subject"`
	Pushes  int64  `json:"pushes"`
}

// Pushes returns the files and keys, the most often pushed first.
func (s *Summary) Pushes() []PushCount {
	list := make([]PushCount, 0, len(s.pushes))
	for name, n := range s.pushes {
		list = append(list, PushCount{name, n})
	}
	slices.SortFunc(list, func(a, b PushCount) int {
		return cmp.Or(cmp.Compare(b.Pushes, a.Pushes), strings.Compare(a.Subject, b.Subject))
	})
	return list
}
