package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	jsoniter "github.com/json-iterator/go"
	"github.com/spf13/cobra"
)

// format is how results are printed: text for people, json for programs, benchstat for
// the tool of that name.
type format string

const (
	formatText      format = "text"
	formatJSON      format = "json"
	formatBenchstat format = "benchstat"
)

var formats = []string{string(formatText), string(formatJSON), string(formatBenchstat)}

// String, Set and Type make format a flag.
func (f *format) String() string { return string(*f) }

// Type names the value in the help.
func (f *format) Type() string { return "format" }

// Set refuses anything else.
func (f *format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
	}
	*f = format(s)
	return nil
}

func (f *format) bind(cmd *cobra.Command) {
	*f = formatText
	cmd.Flags().VarP(f, "output", "o", "text, json or benchstat")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// print writes v as JSON, or the line for benchstat, or the text.
func (f format) print(w io.Writer, v any, benchstat, text string) (err error) {
	switch f {
	case formatJSON:
		return jsoniter.ConfigCompatibleWithStandardLibrary.NewEncoder(w).Encode(v)
	case formatBenchstat:
		_, err = fmt.Fprintln(w, benchstat)
	default:
		_, err = io.WriteString(w, text)
	}
	return err
}

// result is one measurement.
type result struct {
	// Name says what was measured and how, as a path: get/conns=16/depth=1.
	Name      string     `json:"name"`
	Requests  int64      `json:"requests"`
	Failed    int64      `json:"failed"`
	Seconds   float64    `json:"seconds"`
	PerSecond float64    `json:"per_second"`
	Latency   *latencies `json:"latency_us,omitempty"`
	// Values are further measurements in the order they are printed.
	Values []value `json:"values,omitempty"`

	failure error // the first reply that was not code 0
}

type value struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// latencies are in microseconds.
type latencies struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func quantiles(h *hdrhistogram.Histogram) *latencies {
	at := func(q float64) float64 { return micros(h.ValueAtQuantile(q)) }
	return &latencies{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: micros(h.Max())}
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

func millis(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

func (t *tally) result(name string) result {
	return result{
		Name: name, Requests: t.done, Failed: t.failed, Seconds: t.elapsed().Seconds(),
		PerSecond: t.perSecond(), Latency: quantiles(t.latency), failure: t.err,
	}
}

// print writes r in the format f. The line for benchstat has the form of `go test
// -bench`.
func (r result) print(w io.Writer, f format) error {
	var text, line strings.Builder
	fmt.Fprintln(&text, r.Name)
	fmt.Fprintf(&line, "Benchmark%s %d", benchName(r.Name), max(r.Requests, 1))
	if r.Requests > 0 {
		fmt.Fprintf(&text, "  %-18s %d in %.2f s, %d failed\n", "requests", r.Requests, r.Seconds, r.Failed)
		fmt.Fprintf(&text, "  %-18s %.0f/s\n", "rate", r.PerSecond)
	}
	if r.PerSecond > 0 {
		fmt.Fprintf(&line, " %.2f ns/op %.0f req/s", 1e9/r.PerSecond, r.PerSecond)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&text, "  %-18s p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f µs\n", "latency", l.P50, l.P90, l.P99, l.P999, l.Max)
		fmt.Fprintf(&line, " %.2f p50-µs %.2f p99-µs", l.P50, l.P99)
	}
	for _, v := range r.Values {
		fmt.Fprintf(&text, "  %-18s %.4g %s\n", v.Name, v.Value, v.Unit)
		fmt.Fprintf(&line, " %.6g %s", v.Value, strings.ReplaceAll(v.Name+"-"+v.Unit, " ", "-"))
	}
	return f.print(w, r, line.String(), text.String())
}

// benchName begins with a capital, as benchstat requires, and has no blanks.
func benchName(name string) string {
	name = strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name)
	return strings.ToUpper(name[:1]) + name[1:]
}

// figure is a measurement beside its target.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
	AtMost bool    `json:"at_most"`
	Target float64 `json:"target"`
	// Detail says what the value was computed from.
	Detail string `json:"detail,omitempty"`
}

func (f figure) met() bool {
	if f.AtMost {
		return f.Value <= f.Target
	}
	return f.Value >= f.Target
}

// print writes f in the format out.
func (f figure) print(w io.Writer, out format) error {
	sign, verdict := ">=", "MISSED"
	if f.AtMost {
		sign = "<="
	}
	if f.met() {
		verdict = "ok"
	}
	v := struct {
		figure
		Met bool `json:"met"`
	}{f, f.met()}
	return out.print(w, v, fmt.Sprintf("Benchmark%s 1 %.6g %s", benchName(f.Name), f.Value, cmp.Or(f.Unit, "ratio")),
		fmt.Sprintf("%-50s %9.3f %s %-9.4g %-5s %-6s  %s\n", f.Name, f.Value, sign, f.Target, f.Unit, verdict, f.Detail))
}
