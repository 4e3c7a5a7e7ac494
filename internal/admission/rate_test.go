package admission

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/internal/memory"
)

func TestNobodyIsMeteredByDefault(t *testing.T) {
	p, _ := visit(t, New(Limits{PerAddress: 5}).Front(8, memory.TCPCost), there)
	require.Nil(t, p.Meter)
}

func TestAConnectionMaySendASecondsWorthAtOnceAndThenItsRate(t *testing.T) {
	l := New(Limits{Rate: Rate{Requests: 10}})
	p, _ := visit(t, l.Front(8, memory.TCPCost), here)
	now := time.Unix(1_000_000, 0)
	for range 10 {
		require.NoError(t, p.Meter.Take(now, 1<<30))
	}
	err := p.Meter.Take(now, 0)
	require.Equal(t, codes.Busy, codes.Of(err))
	require.Equal(t, 100*time.Millisecond, codes.RetryAfter(err))
	require.ErrorContains(t, err, "this connection may send 10 requests per second")
	require.Error(t, p.Meter.Take(now.Add(99*time.Millisecond), 0), "what is refused costs nothing, and brings nothing")
	require.NoError(t, p.Meter.Take(now.Add(100*time.Millisecond), 0))
	require.Error(t, p.Meter.Take(now.Add(100*time.Millisecond), 0))
	require.Error(t, p.Meter.Take(now.Add(-time.Hour), 0), "a clock may be set back")
	require.NoError(t, p.Meter.Take(now.Add(200*time.Millisecond), 0))
	require.EqualValues(t, 4, l.Count.Rate.Load())
	other, _ := visit(t, l.Front(8, memory.TCPCost), here)
	require.NoError(t, other.Meter.Take(now, 0))
}

// A request that is larger than what may be sent per second is not refused for ever.
func TestALargeRequestIsPaidForAfterwards(t *testing.T) {
	p, _ := visit(t, New(Limits{Rate: Rate{Bytes: 1000}}).Front(8, memory.TCPCost), here)
	now := time.Unix(1_000_000, 0)
	require.NoError(t, p.Meter.Take(now, 5000))
	require.Equal(t, 4100*time.Millisecond, codes.RetryAfter(p.Meter.Take(now, 100)))
	require.Equal(t, 5*time.Second, codes.RetryAfter(p.Meter.Take(now, 1<<40)))
	p.Meter.Charge(now, 0, 1000)
	require.Error(t, p.Meter.Take(now.Add(5*time.Second), 5000))
	require.NoError(t, p.Meter.Take(now.Add(6*time.Second), 5000))
}

// Lengths are what a peer says they are.
func TestNobodyWaitsForEverOrGainsByBoasting(t *testing.T) {
	p, _ := visit(t, New(Limits{Rate: Rate{Requests: 1, Bytes: 1}}).Front(8, memory.TCPCost), here)
	now := time.Unix(1_000_000, 0)
	for range 3 {
		p.Meter.Charge(now, math.MaxInt64, math.MaxInt64)
		require.Equal(t, longestDebt, codes.RetryAfter(p.Meter.Take(now, math.MaxInt64)))
	}
	require.NoError(t, p.Meter.Take(now.Add(longestDebt), 1))
}

func TestAnAddressSharesWhatItMaySend(t *testing.T) {
	l := New(Limits{AddressRate: Rate{Requests: 4}, Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	tcp, web := l.Front(8, memory.TCPCost), l.Front(8, memory.TCPCost)
	now := time.Unix(1_000_000, 0)
	one, _ := visit(t, tcp, there)
	two, _ := visit(t, web, there)
	for range 2 {
		require.NoError(t, one.Meter.Take(now, 0))
		require.NoError(t, two.Meter.Take(now, 0))
	}
	require.ErrorContains(t, one.Meter.Take(now, 0), "this address may send 4 requests per second")
	require.Error(t, two.Meter.Take(now, 0))
	one.Leave()
	two.Leave()
	again, _ := visit(t, tcp, there)
	require.Error(t, again.Meter.Take(now, 0), "coming back does not help")
	require.EqualValues(t, 3, l.Count.AddressRate.Load())
	other, _ := visit(t, tcp, netip.MustParseAddr("192.0.2.8"))
	require.NoError(t, other.Meter.Take(now, 0))
	exempt, _ := visit(t, tcp, here)
	require.Nil(t, exempt.Meter)
}

// Whatever is sent when: no more passes than the rate, and who waits as long as told passes.
func TestNoMorePassesThanTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate{Requests: rapid.Int64Range(1, 100).Draw(t, "requests"), Bytes: rapid.Int64Range(100, 10_000).Draw(t, "bytes")}
		place, err := New(Limits{Rate: rate}).Front(8, memory.TCPCost).Admit(here)
		require.NoError(t, err)
		began := time.Unix(1_000_000, 0)
		now, requests, bytes := began, int64(0), int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			size := rapid.Int64Range(0, 200).Draw(t, "size")
			if err := place.Meter.Take(now, size); err != nil {
				now = now.Add(codes.RetryAfter(err))
				require.NoError(t, place.Meter.Take(now, size))
			}
			requests, bytes = requests+1, bytes+size
			seconds := now.Sub(began).Seconds() + 1
			require.LessOrEqual(t, float64(requests), float64(rate.Requests)*seconds+1)
			require.LessOrEqual(t, float64(bytes), float64(rate.Bytes)*seconds+200)
			now = now.Add(time.Duration(rapid.Int64Range(0, 3e8).Draw(t, "pause")))
		}
	})
}

// Connections on several loops pay from one bucket.
func TestABucketIsSharedWithoutALock(t *testing.T) {
	p, now, rate := NewBucket(), time.Unix(1_000_000, 0), Rate{Requests: 1000, Bytes: 1 << 40}
	require.True(t, p.Full(now))
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if p.Take(now, rate, 10) == 0 {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1000, passed.Load())
	require.False(t, p.Full(now.Add(999*time.Millisecond)))
	require.True(t, p.Full(now.Add(time.Second)))
	require.Zero(t, p.Take(now, Rate{Bytes: 1 << 40}, 10), "a limit that is gone")
}

func TestWhoQueuesWaitsOneBehindTheOther(t *testing.T) {
	p, now, rate := NewBucket(), time.Now(), Rate{Requests: 10}
	for range 10 {
		require.Zero(t, p.Queue(now, rate, time.Second))
	}
	for i := 1; i <= 9; i++ {
		require.Equal(t, time.Duration(i)*100*time.Millisecond, p.Queue(now, rate, time.Second))
	}
	for range 100 {
		require.Equal(t, time.Second, p.Queue(now, rate, time.Second))
	}
	now = now.Add(time.Second)
	require.Zero(t, p.Queue(now, rate, time.Second), "what waited longest is not owed for ever")
	require.Equal(t, 100*time.Millisecond, p.Queue(now, rate, time.Second))
}
