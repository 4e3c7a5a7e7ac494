package follow

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// versions is a state: each name with the sequence of its last change.
type versions struct {
	seq   uint64
	names map[string]uint64
}

func (v versions) Seq() uint64 { return v.seq }

func (v versions) Names() (list []string) {
	for name := range v.names {
		list = append(list, name)
	}
	return list
}

func (v versions) SeqOf(name string) (uint64, bool) {
	seq, known := v.names[name]
	return seq, known
}

// publisher publishes versions to one Newest.
type publisher struct {
	*Newest[versions]
	publish func(versions, []string)
}

func publish(t *testing.T, now versions, spare int) *publisher {
	p := &publisher{}
	p.Newest = NewNewest(func(fn func(versions, []string)) func() {
		p.publish = fn
		return func() {}
	}, func() versions { return now }, spare)
	t.Cleanup(p.Close)
	return p
}

func newsOf(list []News) (names []string) {
	for _, n := range list {
		names = append(names, fmt.Sprintf("%s %d", n.Name, n.Seq))
	}
	return names
}

func TestWhatChangedOftenIsToldOnce(t *testing.T) {
	p := publish(t, versions{1, map[string]uint64{"a": 1}}, 10)
	_, at := p.Present()
	p.publish(versions{2, map[string]uint64{"a": 1, "b": 2}}, []string{"b"})
	p.publish(versions{3, map[string]uint64{"a": 3, "b": 2}}, []string{"a"})
	p.publish(versions{4, map[string]uint64{"a": 3, "b": 4}}, []string{"b"})
	p.publish(versions{4, map[string]uint64{"a": 3, "b": 4}}, []string{"broken"})
	news, next, known := p.Since(at)
	require.True(t, known)
	require.Equal(t, []string{"broken 0", "a 3", "b 4"}, newsOf(news))
	again, _, _ := p.Since(at)
	require.Same(t, &news[0], &again[0], "followers share it")
	news, _, known = p.Since(next)
	require.True(t, known)
	require.Empty(t, news)

	now, _, loose, known := p.Resume(4)
	require.True(t, known)
	require.EqualValues(t, 4, now.Seq())
	require.Equal(t, []string{"broken"}, loose)
	_, _, _, known = p.Resume(5)
	require.False(t, known, "it is in the future")
}

// What a follower misses is found without a look at the names that have not changed since.
func TestFarBehind(t *testing.T) {
	p := publish(t, versions{}, 1000)
	now, start := p.Present()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("n%02d", i)
	}
	p.publish(now, []string{"a"})
	_, second := p.Present()
	for range 200 {
		p.publish(now, names)
	}
	for at, want := range map[Position]int{start: 101, second: 100} {
		news, next, known := p.Since(at)
		require.True(t, known)
		require.Len(t, news, want)
		news, _, _ = p.Since(next)
		require.Empty(t, news)
	}
	require.Equal(t, 101, p.notes.Len())
}

// Names are kept up to a limit: a follower that would have needed them begins anew.
func TestTooManyNamesAreForgotten(t *testing.T) {
	p := publish(t, versions{seq: 7}, 5)
	now, behind := p.Present()
	for i := range 20 {
		p.publish(now, []string{fmt.Sprint(i)})
		p.Present()
		require.LessOrEqual(t, len(p.of), 5)
		require.Equal(t, len(p.of), p.notes.Len())
	}
	_, next, known := p.Since(behind)
	require.False(t, known)
	_, _, known = p.Since(next)
	require.True(t, known)
	_, _, _, known = p.Resume(7)
	require.False(t, known)
}

// The store's goroutine only leaves what is to be noted, and never much of it.
func TestAPublisherDoesNotWait(t *testing.T) {
	p := publish(t, versions{}, 1_000_000)
	now, at := p.Present()
	wake := make(chan struct{}, 1)
	defer p.Join(wake)()
	p.mu.Lock() // as if it looked through what was noted for a follower
	for i := range 3 * maxLeft {
		p.publish(now, []string{fmt.Sprintf("n%d", i)})
	}
	require.EqualValues(t, maxLeft, p.left.Weight())
	p.mu.Unlock()
	<-wake
	_, next, known := p.Since(at)
	require.False(t, known, "a follower that has not heard of them begins anew")
	_, _, known = p.Since(next)
	require.True(t, known)
}

func TestAQueueJoinsWhatIsTooMuch(t *testing.T) {
	put := func(q *Queue[[]int], list ...int) bool { return q.Put(list, int64(len(list))) }
	q := &Queue[[]int]{Limit: 3, Join: func(last, next []int) []int { return slices.Concat(last, next) }}
	require.True(t, put(q, 1, 2, 3, 4), "one, however much it is")
	require.False(t, put(q, 5))
	took, ok := q.Take()
	require.True(t, ok)
	require.Equal(t, []int{1, 2, 3, 4, 5}, took)
	require.Zero(t, q.Weight())
	require.True(t, put(q, 1))
	require.True(t, put(q, 2, 3))
	require.False(t, put(q, 4))
	took, _ = q.Take()
	require.Equal(t, []int{1}, took)
	require.True(t, put(q, 5), "there is room again")
	for _, want := range [][]int{{2, 3, 4}, {5}} {
		took, _ = q.Take()
		require.Equal(t, want, took)
	}
	_, ok = q.Take()
	require.False(t, ok)
}
