package memory

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePoolsTakeNoMoreThanSixTenthsOfTheBudget(t *testing.T) {
	for _, total := range []int64{Least, 1 << 30, 1 << 40} {
		b := Divide(total)
		var sum int64
		for _, part := range b.parts() {
			require.Positive(t, (*part.pool).Limit(), part.name)
			sum += (*part.pool).Limit()
		}
		require.LessOrEqual(t, sum, total/10*6)
		require.Equal(t, total/10*9, b.GoLimit())
	}
}

func TestAPoolTakesAllOrNothing(t *testing.T) {
	p := NewPool(10)
	require.True(t, p.Take(6))
	require.False(t, p.Take(5))
	require.EqualValues(t, 6, p.Held())
	require.EqualValues(t, 1, p.Refused())
	require.True(t, p.Take(4))
	require.False(t, p.Over())
	require.True(t, p.For(Reserve).Take(2), "a quarter more")
	require.False(t, p.For(Reserve).Take(1))
	p.Give(2)
	p.Add(1)
	require.True(t, p.Over())
	require.False(t, p.Fits(0))
	p.Give(11)
	require.Zero(t, p.Held())
	require.Same(t, p, p.Or(3))
	require.EqualValues(t, 3, (*Pool)(nil).Or(3).Limit())
	boundless := NewPool(math.MaxInt64)
	require.True(t, boundless.For(Reserve).Fits(10) && boundless.For(Reserve).Take(10))
}

func TestEachPoolIsReadBesideItsLimit(t *testing.T) {
	b := Divide(1 << 30)
	require.True(t, b.Bodies.Take(100))
	list := b.Readings()
	require.EqualValues(t, 100, list.Get("memory_pool_bytes", "bodies"))
	for name, pool := range b.Pools() {
		require.Equal(t, pool.Held(), list.Get("memory_pool_bytes", name), name)
		require.Equal(t, pool.Limit(), list.Get("memory_pool_limit_bytes", name), name)
		require.Zero(t, list.Get("memory_pool_refused_total", name), name)
	}
	require.EqualValues(t, 1<<30, list.Get("memory_budget_bytes"))
}

func TestTheMachineSaysWhatThereIs(t *testing.T) {
	there := Available()
	require.GreaterOrEqual(t, there.Default, int64(Least))
	require.GreaterOrEqual(t, there.Most, there.Default)
	require.NotEmpty(t, there.From)
}

func TestABudgetForAStoreIsTheSmallestThatHoldsIt(t *testing.T) {
	for _, store := range []int64{1, 100 << 20, 4 << 30, 1 << 40} {
		total := For(store)
		require.GreaterOrEqual(t, Divide(total).StoreMost(), store)
		require.True(t, total == Least || Divide(total-1<<20).StoreMost() < store)
	}
	b := Divide(1 << 30)
	require.GreaterOrEqual(t, b.StoreMost(), b.Store.Limit())
	b.SetStore(b.StoreMost())
	require.Equal(t, b.Store.Limit(), b.StoreMost())
}
