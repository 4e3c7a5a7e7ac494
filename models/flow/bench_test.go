package flow_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"confcenter/access"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

// filled is a flow of n nodes.
func filled(b *testing.B, n int) *flow.Flow {
	store, ctx := embedded.New(memory.ForTest(b), nil), modeltest.Context(b)
	b.Cleanup(store.Close)
	f := flow.Open(store, flow.Config{})
	if _, err := f.Stage(ctx, nil, &flow.StageAsk{App: "A", TTL: 600_000}); err != nil {
		b.Fatal(err)
	}
	for piece := range slices.Chunk(parts("", n), flow.MaxParts) {
		if _, err := f.Add(ctx, nil, &flow.AddAsk{App: "A", Parts: piece}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := f.Publish(ctx, nil, &flow.PublishAsk{App: "A"}); err != nil {
		b.Fatal(err)
	}
	return f
}

func BenchmarkListTenThousandByStatus(b *testing.B) {
	f := filled(b, 10_000)
	for b.Loop() {
		a, err := f.List(b.Context(), nil, &flow.ListAsk{List: "flow.F.node", Status: "WAITING", Limit: flow.MaxLines})
		if err != nil || len(a.Members) != 10_000 {
			b.Fatal(len(a.Members), err)
		}
	}
}

func BenchmarkTreeOfTenThousand(b *testing.B) {
	f := filled(b, 10_000)
	for b.Loop() {
		if _, err := f.Tree(b.Context(), nil, &flow.TreeAsk{Limit: flow.MaxLines}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSixteenWorkersClaimTenThousand(b *testing.B) {
	const workers, tasks = 16, 10_000
	f := filled(b, tasks)
	ctx, by := b.Context(), &access.Actor{Name: "bench"}
	for i := range workers {
		if _, err := f.Join(ctx, by, &flow.JoinAsk{Key: fmt.Sprint("wokr.W", i), TTL: 3600_000}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		var wg sync.WaitGroup
		var claimed atomic.Int64
		for i := range workers {
			wg.Go(func() {
				for {
					a, err := f.Claim(ctx, by, &flow.ClaimAsk{Worker: fmt.Sprint("wokr.W", i), From: "flow.F"})
					if err != nil {
						b.Error(err)
					}
					if err != nil || a.Key == "" {
						return
					}
					claimed.Add(1)
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		if n := claimed.Load(); n != tasks {
			b.Fatalf("%d tasks were claimed, of %d", n, tasks)
		}
		for i := range workers {
			worker := fmt.Sprint("wokr.W", i)
			if _, err := f.Return(ctx, by, &flow.ReturnAsk{Worker: worker, Force: true}); err != nil {
				b.Fatal(err)
			}
			if _, err := f.Join(ctx, by, &flow.JoinAsk{Key: worker, TTL: 3600_000}); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}
