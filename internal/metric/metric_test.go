package metric

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type revision int64

func TestFieldsAreReadByTheirTags(t *testing.T) {
	var counts struct {
		Asked  atomic.Uint64 `metric:"asked_total" help:"Asked."`
		Open   atomic.Int64  `metric:"open" help:"Open now."`
		Idle   atomic.Uint64 `metric:"limits_total" label:"limit=idle" help:"Limits met."`
		Stall  atomic.Uint64 `metric:"limits_total" label:"limit=stall"`
		newest revision      `metric:"revision" help:"Newest."`
		hidden atomic.Bool
	}
	counts.Asked.Add(3)
	counts.Open.Add(-1)
	counts.Idle.Add(4)
	counts.Stall.Add(5)
	counts.newest = 1 << 60
	counts.hidden.Store(true)
	list := Of(&counts)
	require.Equal(t, Readings{
		{Name: "asked_total", Help: "Asked.", N: 3},
		{Name: "open", Help: "Open now.", N: -1},
		{Name: "limits_total", Help: "Limits met.", Labels: []Label{{"limit", "idle"}}, N: 4},
		{Name: "limits_total", Help: "Limits met.", Labels: []Label{{"limit", "stall"}}, N: 5},
		{Name: "revision", Help: "Newest.", N: 1 << 60},
	}, list)
	require.EqualValues(t, 9, list.Get("limits_total"))
	require.EqualValues(t, 5, list.Get("limits_total", "stall"))
	require.Panics(t, func() { list.Get("ask_total") })
	require.Panics(t, func() { list.Get("limits_total", "patience") })

	shown := struct {
		Revision int64 `metric:"revision"`
		Limits   int   `metric:"limits_total"`
		Absent   int   `metric:"absent"`
		Own      int
	}{Absent: 1, Own: 2}
	list.Fill(&shown)
	require.Equal(t, []any{int64(1 << 60), 9, 1, 2}, []any{shown.Revision, shown.Limits, shown.Absent, shown.Own})
}

func TestWhatIsNoNumberIsAFaultOfTheDeclaration(t *testing.T) {
	require.Panics(t, func() {
		Of(&struct {
			Name string `metric:"name"`
		}{})
	})
}

func TestQuantiles(t *testing.T) {
	var h Histogram
	var l Times
	require.Zero(t, l.Quantile(0.5))
	l.Add(new(Histogram))
	require.Zero(t, l.Quantile(0.5))
	require.Zero(t, l.Mean())
	for i := range 50 {
		h.Add(time.Duration(2*i)*100*time.Microsecond, 2) // 0 to 10 ms
	}
	h.Add(time.Hour, 1)
	l.Add(&h)
	require.EqualValues(t, 101, l.Count)
	require.InDelta(t, 5.0, l.Quantile(0.5).Seconds()*1000, 0.2)
	require.InDelta(t, 9.9, l.Quantile(0.98).Seconds()*1000, 0.3)
	require.Equal(t, 10*time.Second, l.Quantile(1), "beyond the last bucket")
	require.InDelta(t, 35.6, l.Mean().Seconds(), 0.1)
}
