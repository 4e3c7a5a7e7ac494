package http

import (
	"bytes"
	"net/http"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
	"confcenter/internal/metric"
	"confcenter/server/http/sse"
)

// auditRoutes are those of the audit that do not follow from its table.
func (g *Gateway) auditRoutes() []route {
	return []route{{method: http.MethodGet, pattern: "/v1/audit", name: "audit.stream", right: access.AuditWatch, stream: true, handle: g.auditStream}}
}

// auditStream sends the lines of the audit as server-sent events: those from now on, those behind
// the line with the number in after, or those that a reader that returns has missed. Each has its
// number in its id. Lines that were removed for their age, or are of other data, are told of.
func (g *Gateway) auditStream(w *reply, r *http.Request) error {
	if g.stores.Audit == nil {
		return codes.Errorf(codes.NotImplemented, "this server keeps no audit; start it with --audit all")
	}
	p := parametersOf(r)
	s := &auditTeller{audit: g.stores.Audit, filter: audit.Filter{Kind: p.text("kind"), Who: p.text("who"), What: p.text("what"), Outcome: p.text("outcome")}}
	s.at = g.stores.Audit.Figures().Seq
	if p.has("after") {
		s.at = p.count("after")
	}
	last, given, valid := g.sse.IDs.Last(r, p.text("last"))
	if err := p.end(); err != nil {
		return err
	}
	if err := s.filter.Check(); err != nil {
		return err
	}
	news, stop, err := g.stores.Audit.Follow()
	if err != nil {
		return err
	}
	defer stop()
	s.Stream = g.sse.Begin(w, connOf(r), func() { s.lines = nil }, func() int64 { return int64(len(s.lines)) }) // lines can be read again
	defer s.Close()
	switch {
	case given && valid && last <= g.stores.Audit.Figures().Seq:
		s.at = last
	case given:
		s.at = 0
		s.Event("reset", sse.NoID, sse.NoData)
	}
	return s.Run(r.Context(), news, func() (bool, error) { return s.more(r) }, func() {
		s.ID(s.at)
		s.Buf = append(s.Buf, '\n')
	})
}

// auditTeller writes one stream.
type auditTeller struct {
	*sse.Stream
	audit  *audit.Audit
	filter audit.Filter
	at     int64  // the newest line that was told or passed over
	lines  []byte // what comes behind it, as far as it was read
}

// more puts in some of what is new, and reports whether there was anything.
func (s *auditTeller) more(r *http.Request) (bool, error) {
	if len(s.lines) == 0 {
		s.Turn.End() // it may have to wait for the disk
		block, err := s.audit.Read(r.Context(), s.at)
		s.Turn.Begin()
		if err != nil || len(block.Lines) == 0 {
			return false, err
		}
		s.take(block.First, block.Lines)
	}
	for len(s.lines) > 0 && len(s.Buf) < sse.Chunk {
		line, rest, _ := bytes.Cut(s.lines, []byte("\n"))
		l, wanted, err := s.filter.Match(s.at, line)
		if err != nil {
			return false, err
		}
		if s.at, s.lines = l.Seq, rest; wanted {
			s.Event("line", l.Seq, func(dst []byte) []byte { return append(dst, line...) })
		}
	}
	return true, nil
}

// take goes on with what was read, and tells of lines before it that were removed.
func (s *auditTeller) take(first int64, lines []byte) {
	if first > s.at+1 {
		s.Event("gap", sse.NoID, func(dst []byte) []byte {
			return append(appendNumber(appendNumber(dst, `{"from":`, s.at+1), `,"to":`, first-1), '}')
		})
	}
	s.at, s.lines = first-1, lines
}

// auditReadings are the numbers of the audit.
func (g *Gateway) auditReadings() metric.Readings {
	f := g.stores.Audit.Figures()
	list := metric.Of(&struct {
		Lines  uint64 `metric:"audit_lines_total" help:"Lines that were written to the audit."`
		Bytes  uint64 `metric:"audit_bytes_total" help:"Bytes of these."`
		Pruned uint64 `metric:"audit_pruned_total" help:"Lines that were removed because they were too old or too many."`
		Early  uint64 `metric:"audit_pruned_early_total" help:"Those of them that were not too old, but too many."`
		Lost   uint64 `metric:"audit_lost_total" help:"Events that came faster than they could be noted; a line says how many."`
	}{f.Lines, f.Bytes, f.Pruned, f.Early, f.Lost})
	for _, e := range f.Exports {
		sink := []metric.Label{{Name: "sink", Value: e.Name}}
		list = append(list, metric.Reading{Name: "audit_export_lag", Help: "Lines of the audit that a file or syslog has not got yet.", Labels: sink, N: e.Lag},
			metric.Reading{Name: "audit_export_failed_total", Help: "Attempts to write lines there that failed.", Labels: sink, N: int64(e.Failed)})
	}
	return list
}
