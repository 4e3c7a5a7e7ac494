package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var someResult = result{
	Name: "get/conns=16/depth=1", Requests: 1000, Seconds: 0.5, PerSecond: 2000,
	Latency: &latencies{P50: 1.5, P90: 2, P99: 3, P999: 4, Max: 5},
	Values:  []value{{"first push p50", 1.25, "ms"}},
}

func printed(t *testing.T, print func(*bytes.Buffer) error) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, print(&out))
	return out.String()
}

func TestResultFormats(t *testing.T) {
	text := printed(t, func(w *bytes.Buffer) error { return someResult.print(w, formatText) })
	require.Contains(t, text, "2000/s")
	require.Contains(t, text, "p99 3.0")
	require.Contains(t, text, "1.25 ms")

	var back result
	require.NoError(t, json.Unmarshal([]byte(printed(t, func(w *bytes.Buffer) error { return someResult.print(w, formatJSON) })), &back))
	require.Equal(t, someResult, back)

	line := printed(t, func(w *bytes.Buffer) error { return someResult.print(w, formatBenchstat) })
	require.Equal(t, "BenchmarkGet/conns=16/depth=1 1000 500000.00 ns/op 2000 req/s 1.50 p50-µs 3.00 p99-µs 1.25 first-push-p50-ms\n", line)
	// Name, count, then pairs of a number and a unit.
	require.Regexp(t, regexp.MustCompile(`^Benchmark[A-Z]\S* \d+( [0-9.e+-]+ \S+)+\n$`), line)
}

func TestFigures(t *testing.T) {
	tests := []struct {
		figure  figure
		met     bool
		verdict string
	}{
		{figure{Name: "rate", Value: 0.85, Target: 0.85}, true, ">= 0.85"},
		{figure{Name: "rate", Value: 0.84, Target: 0.85}, false, "MISSED"},
		{figure{Name: "time", Value: 8, Target: 8, AtMost: true, Unit: "ms"}, true, "<= 8"},
		{figure{Name: "time", Value: 8.1, Target: 8, AtMost: true, Unit: "ms"}, false, "MISSED"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.met, tt.figure.met())
		require.Contains(t, printed(t, func(w *bytes.Buffer) error { return tt.figure.print(w, formatText) }), tt.verdict)
		var back map[string]any
		require.NoError(t, json.Unmarshal([]byte(printed(t, func(w *bytes.Buffer) error { return tt.figure.print(w, formatJSON) })), &back))
		require.Equal(t, tt.met, back["met"])
		require.Regexp(t, regexp.MustCompile(`^Benchmark[A-Z]\S* 1 \S+ \S+\n$`),
			printed(t, func(w *bytes.Buffer) error { return tt.figure.print(w, formatBenchstat) }))
	}
}

func TestFiguresHaveBenchstatNames(t *testing.T) {
	f := figure{Name: "client's p99, of ceiling", Value: 0.5}
	require.Equal(t, "BenchmarkClients-p99-of-ceiling 1 0.5 ratio\n", printed(t, func(w *bytes.Buffer) error { return f.print(w, formatBenchstat) }))
}

func TestProgressIsSilentWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "x")
	p.during(testLoop(t), time.Second)
	p.tick(0)
	p.Describe("y")
	p.to(0.5)
	p.clear()
	p.done()
	require.Empty(t, out.String())
}

func TestFormatFlag(t *testing.T) {
	var f format
	require.NoError(t, f.Set("json"))
	require.Equal(t, "json", f.String())
	require.Error(t, f.Set("yaml"))
	require.Equal(t, formatJSON, f)
}
