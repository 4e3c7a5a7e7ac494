package player

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
)

// startCold opens a Storage whose owners leave memory when chill is called.
func startCold(t testing.TB, sql *database) *kit {
	return startOn(t, sql, moved, func(c *Config) { c.Settings = field.Defaults() })
}

// chill lands everything and lets all owners leave memory.
func (k *kit) chill() int {
	k.t.Helper()
	k.land()
	k.cold.used.turn(k.clock.Now().UnixMilli())
	k.cold.used.turn(k.clock.Now().UnixMilli())
	k.clock.Advance(30 * time.Minute) // the ticker of an hour does nothing yet
	return k.evict()
}

func (k *kit) evict() int {
	k.t.Helper()
	n, err := k.cold.evict(k.t.Context(), k.engine.(kv.Forgetter), time.Minute)
	require.NoError(k.t, err)
	return n
}

// settle waits until all tables of the database are known.
func (k *kit) settle() {
	k.t.Helper()
	require.Eventually(k.t, func() bool { return !k.cold.doubt.Load() }, patience, time.Millisecond)
}

func TestH18AndH19ColdFieldsAreLoadedAsTheyAreAskedFor(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.settle()
	k.update(player, map[string]string{"a": "1", "b": "2", "gone": "3"})
	k.remove(player, "gone")
	version := k.field(player, "a").Version
	rev := k.engine.Revision()
	require.Equal(t, 3, k.chill())
	require.Greater(t, k.engine.Revision(), rev, "the filter, and the cursor")
	_, ok := k.warm(player, "a")
	require.False(t, ok, "not on an event loop")
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
	require.Equal(t, 1, sql.queries())
	fields, ok := k.warm(player, "a")
	require.True(t, ok, "it is in the cache now")
	require.Equal(t, version, fields[0].Version, "and has no new version")
	require.Empty(t, k.get(player, "gone", "nope"))
	require.Empty(t, k.get(player, "gone", "nope"))
	require.Equal(t, 2, sql.queries(), "absence is remembered")
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, k.all(player))
}

func TestH20AnOwnerIsLoadedAsAWholeOnce(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, numbers(10))
	k.chill()
	require.Equal(t, numbers(10), k.all(player))
	require.Equal(t, numbers(10), k.all(player))
	require.Empty(t, k.get(player, "nope"))
	require.Equal(t, 1, sql.queries())
}

func TestH21LoadingReplacesNothingNewer(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, map[string]string{"a": "1", "b": "1", "c": "1"})
	k.chill()
	k.update(player, map[string]string{"a": "2"})
	k.remove(player, "b")
	require.Equal(t, map[string]string{"a": "2", "c": "1"}, k.all(player))
	require.Equal(t, map[string]string{"a": "2", "c": "1"}, k.get(player, "a", "b", "c"))
	k.chill()
	require.Equal(t, map[string]string{"a": "2", "c": "1"}, k.all(player))
}

func TestH22AColdFieldIsIncrementedFromWhereItWas(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, map[string]string{"n": "7", "text": "x"})
	k.chill()
	require.Equal(t, "8", k.incr(player, "n", 1))
	require.Equal(t, "1", k.incr(player, "new", 1))
	_, err := k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}, {Name: "text", By: 1}}})
	require.ErrorIs(t, err, codes.WrongType)
	require.Equal(t, map[string]string{"n": "8", "new": "1", "text": "x"}, k.all(player))
}

func TestWritesLookAtColdFields(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	version := k.update(player, map[string]string{"a": "1", "b": "2", "c": "3"}).Fields[0].Version
	k.chill()
	_, err := k.try(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"a": "x"}), Expect: map[string]int64{"a": 0}})
	require.ErrorIs(t, err, codes.Conflict)
	out := k.do(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"a": "x"}), Expect: map[string]int64{"a": version}, WantPrev: true})
	require.Equal(t, map[string]string{"a": "1"}, texts(out.Prev))
	out = k.do(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"b": "y"}), WantPrev: true})
	require.Equal(t, map[string]string{"b": "2"}, texts(out.Prev))
	out = k.do(&field.Write{Owner: player, Kind: field.Remove, Names: []string{"c", "nope"}, WantPrev: true})
	require.Equal(t, map[string]string{"c": "3"}, texts(out.Prev))
	require.Equal(t, map[string]string{"a": "x", "b": "y"}, k.all(player))
	k.chill()
	require.True(t, sql.row(player, "c").Removed)
	require.Equal(t, map[string]string{"c": "3"}, texts(k.do(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"c"}}).Fields))
	require.Equal(t, map[string]string{"a": "x", "b": "y", "c": "3"}, k.all(player))
}

func TestH6AndH7AnyIdAndAnyValueSurvivesTheDatabase(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	owners := []field.Owner{{App: "a:b", Region: "c", Logic: "x", ID: "y"}, {App: "a", Region: "b:c", Logic: "x", ID: "y"}, {App: "1", Region: "1", Logic: "a:b", ID: "c"}, {App: "1", Region: "1", Logic: "a", ID: "b:c"}, {App: "a&%'{}", Region: "é_", Logic: "\n", ID: "\u0085%"}}
	for i, o := range owners {
		k.update(o, map[string]string{"k&:%'{}é": "\x00\xff" + strconv.Itoa(i), ":": ""})
	}
	require.Equal(t, 2*len(owners), k.chill())
	for i, o := range owners {
		require.Equal(t, map[string]string{"k&:%'{}é": "\x00\xff" + strconv.Itoa(i), ":": ""}, k.all(o))
	}
}

func TestOwnersLeaveMemoryOnlyWhenTheyAreIdleAndLanded(t *testing.T) {
	sql := newDatabase()
	sql.poison = func(r *field.Row) bool { return r.Owner.ID == "refused" }
	k := startCold(t, sql)
	owner := func(id string) field.Owner { return field.Owner{App: "1", Region: "1", Logic: "user", ID: id} }
	for _, id := range []string{"idle", "read", "written", "refused", "dirty"} {
		k.update(owner(id), map[string]string{"a": "1", "b": "2"})
	}
	k.land()
	k.cold.used.turn(k.clock.Now().UnixMilli())
	k.cold.used.turn(k.clock.Now().UnixMilli())
	k.clock.Advance(30 * time.Minute)
	k.get(owner("read"), "a")
	k.cold.used.turn(k.clock.Now().UnixMilli())
	k.update(owner("written"), map[string]string{"a": "2"})
	k.update(owner("dirty"), map[string]string{"a": "2"})
	require.Equal(t, 2, k.evict())
	_, ok := k.warm(owner("idle"), "a")
	require.False(t, ok)
	for _, id := range []string{"read", "written", "refused", "dirty"} {
		_, ok := k.warm(owner(id), "a")
		require.True(t, ok, id)
	}
}

// Time alone makes owners leave.
func TestSettingTheClockMovesNoIdleTime(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := startCold(t, newDatabase())
		k.settle()
		k.update(player, map[string]string{"a": "1"})
		k.land()
		k.cold.used.turn(k.clock.Steady().UnixMilli())
		k.clock.Step(step)
		k.clock.Advance(59 * time.Second)
		require.Zero(t, k.evict(), "%s: it was used within a minute", step)
		k.clock.Step(-2 * step)
		k.clock.Advance(2 * time.Second)
		require.Equal(t, 1, k.evict(), step)
	}
}

func TestIdleOwnersLeaveByThemselves(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, map[string]string{"a": "1"})
	k.land()
	require.Eventually(t, func() bool {
		k.clock.Advance(20 * time.Minute)
		return k.engine.Stats().Namespaces == 1 // ours of landing
	}, patience, time.Millisecond)
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
}

// The time after which they do can be set while the server runs.
func TestTheIdleTimeCountsAtOnce(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql) // no owner leaves memory
	k.update(player, map[string]string{"a": "1"})
	k.land()
	set := k.Settings()
	set.Idle = time.Minute
	require.NoError(t, k.Set(t.Context(), set))
	require.Eventually(t, func() bool {
		k.clock.Advance(20 * time.Second)
		return k.engine.Stats().Namespaces == 1 // ours of landing
	}, patience, time.Millisecond)
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
}

// Loading and leaving memory are no changes: no one is told.
func TestColdnessIsNoChange(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.settle()
	k.update(player, map[string]string{"a": "1"})
	var seen []kv.Event
	var mu sync.Mutex
	stop := k.engine.Follow(func(b *kv.Batch) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range b.Changes {
			seen = append(seen, c.Events...)
		}
	})
	k.chill()
	rev := k.engine.Revision()
	k.get(player, "a")
	k.all(player)
	require.Equal(t, rev, k.engine.Revision())
	stop()
	mu.Lock()
	defer mu.Unlock()
	for _, e := range seen {
		require.NotEqual(t, player.Namespace(), e.Entry.NS)
	}
}

func TestManyRequestsForAnOwnerAreOneQuery(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, numbers(5))
	k.chill()
	hold := make(chan struct{})
	sql.set(func(d *database) { d.hold = hold })
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { require.Equal(t, map[string]string{"f001": "vv"}, k.get(player, "f001")) })
	}
	require.Eventually(t, func() bool {
		k.cold.loads.mu.Lock()
		defer k.cold.loads.mu.Unlock()
		return k.cold.loads.asked == 100
	}, patience, time.Millisecond)
	close(hold)
	all.Wait()
	require.Equal(t, 1, sql.queries())
}

// A flood of owners that do not exist costs nothing, and one of owners that may exist costs a
// limited number of queries at a time.
func TestAFloodOfOwnersIsBounded(t *testing.T) {
	sql := newDatabase()
	sql.insert(field.Row{Owner: player, Name: "a"})
	sql.down = true
	k := startCold(t, sql)
	o := player
	k.update(o, map[string]string{"b": "there is a base now"})
	hold := make(chan struct{})
	sql.set(func(d *database) { d.hold = hold })
	var all sync.WaitGroup
	var busy, down int
	var mu sync.Mutex
	for i := range 2 * maxFlights {
		o.ID = strconv.Itoa(i)
		_, ok := k.warm(o, "a")
		require.False(t, ok, "nobody knows yet which owners there are")
		all.Add(1)
		k.Do(&field.Write{Owner: o, Kind: field.Incr, Deltas: []field.Delta{{Name: "a", By: 1}}}, func(_ *field.Outcome, err error) {
			defer all.Done()
			mu.Lock()
			defer mu.Unlock()
			switch codes.Of(err) {
			case codes.Busy:
				busy++
			case codes.Unreachable:
				down++
			}
		})
	}
	require.LessOrEqual(t, sql.queries(), maxLoaders)
	close(hold)
	all.Wait()
	require.Equal(t, maxFlights, down)
	require.Equal(t, maxFlights, busy)

	sql.set(func(d *database) { d.down = false })
	require.Eventually(t, func() bool {
		k.clock.Advance(scanPause)
		return !k.cold.doubt.Load()
	}, patience, time.Millisecond)
	before := sql.queries()
	for i := range 1000 {
		o.ID = "none" + strconv.Itoa(i)
		require.Empty(t, k.get(o, "a"))
	}
	require.Equal(t, before, sql.queries())
}

// A data directory that was lost, or a table that was imported, is found again; versions go on
// above those of the rows.
func TestATableThatOthersHaveFilledIsFound(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	k.update(player, map[string]string{"a": "1", "n": "7"})
	k.land()
	version := sql.row(player, "a").Version
	other := field.Owner{App: "2", Region: "2", Logic: "user", ID: "1"}
	sql.insert(field.Row{Owner: other, Name: "a", Value: []byte("imported")}, field.Row{Owner: player, Name: "far", Value: []byte("1"), Version: version + 1e15})

	k = startCold(t, sql) // with nothing of its own
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
	require.Equal(t, "8", k.incr(player, "n", 1))
	k.settle()
	require.Equal(t, map[string]string{"a": "imported"}, k.all(other))
	imported := k.field(other, "a")
	require.Positive(t, imported.Version, "0 says that a field is absent")
	require.Greater(t, k.update(other, map[string]string{"a": "mine"}).Fields[0].Version, imported.Version)
	require.Greater(t, k.update(player, map[string]string{"far": "2"}).Fields[0].Version, version+int64(1e15))
	k.land()
	require.Equal(t, map[string]string{"a": "1", "n": "8", "far": "2"}, sql.live(player))

	o := player
	o.ID = "late"
	sql.insert(field.Row{Owner: o, Name: "a", Value: []byte("late")})
	require.Empty(t, k.get(o, "a"), "nobody said so")
	require.NoError(t, k.Rescan(t.Context(), o.Table()))
	require.Equal(t, map[string]string{"a": "late"}, k.get(o, "a"))
	k.settle()
	require.Equal(t, map[string]string{"a": "late"}, k.get(o, "a"))
}

func TestTheCacheKeepsToItsPool(t *testing.T) {
	sql := newDatabase()
	pool := memory.NewPool(64 << 10)
	k := startOn(t, sql, func(c *Config) { c.Settings, c.Cold = field.Defaults(), pool })
	o := player
	for i := range 100 {
		o.ID = strconv.Itoa(i)
		k.update(o, map[string]string{"a": strings.Repeat("v", 4<<10)})
	}
	require.Equal(t, 100, k.chill())
	for range 2 {
		for i := range 100 {
			o.ID = strconv.Itoa(i)
			require.Len(t, k.get(o, "a")["a"], 4<<10)
			require.LessOrEqual(t, pool.Held(), pool.Limit())
		}
	}
	require.Equal(t, 200, sql.queries())
	k.get(o, "a")
	require.Equal(t, 200, sql.queries(), "used last, kept last")
	k.shut()
	require.Zero(t, pool.Held())
}

// No owner is ever missing from its bucket, which never grows beyond its size; few others are
// in it.
func TestBucketsForgetNobody(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var bucket []byte
	var all []uint32
	for range 60 {
		some := make([]uint32, 100)
		for i := range some {
			some[i] = random.Uint32()
		}
		all = append(all, some...)
		bucket = withPrints(bucket, some)
		require.LessOrEqual(t, len(bucket), 1+bucketBytes)
		require.Less(t, slices.IndexFunc(all, func(p uint32) bool { return !inBucket(bucket, p) }), 0)
	}
	require.EqualValues(t, bloomBucket, bucket[0])
	wrong := 0
	for range 10_000 {
		if inBucket(bucket, random.Uint32()) {
			wrong++
		}
	}
	require.Less(t, wrong, 500)
	require.False(t, inBucket(nil, 1))
}

// The hash is on disk.
func TestTheHashOfOwnersNeverChanges(t *testing.T) {
	require.Equal(t, uint64(0x3a55968aaf1873e), hashOf("@storage/1_1", "user:100"))
	require.Equal(t, hashOf("@storage/1_1", "user:100"), hashOf([]byte("@storage/1_1"), []byte("user:100")))
	seen := map[uint64]bool{}
	for i := range 100_000 {
		h := hashOf("@storage/1_1", "user:"+strconv.Itoa(i))
		require.False(t, seen[h])
		seen[h] = true
	}
}

// Increments count right while owners leave memory and come back.
func TestIncrementsCountWhileOwnersLeave(t *testing.T) {
	sql := newDatabase()
	k := startCold(t, sql)
	const clients, times = 4, 100
	var all sync.WaitGroup
	done := make(chan struct{})
	var turning sync.RWMutex // no mark of use gets old while it is needed: that takes an hour
	for range clients {
		all.Go(func() {
			for range times {
				turning.RLock()
				k.incr(player, "n", 1)
				turning.RUnlock()
			}
		})
	}
	go func() {
		defer close(done)
		all.Wait()
	}()
	left := 0
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		k.land()
		turning.Lock()
		k.clock.Advance(2 * time.Minute)
		k.cold.used.turn(k.clock.Now().UnixMilli())
		k.cold.used.turn(k.clock.Now().UnixMilli())
		turning.Unlock()
		left += k.evict()
	}
	require.Equal(t, map[string]string{"n": strconv.Itoa(clients * times)}, k.get(player, "n"))
	t.Logf("%d times a field has left memory", left)
}

func TestOwnersTooLargeToBeLoadedAgainStayInMemory(t *testing.T) {
	k := startCold(t, newDatabase())
	k.settle()
	k.cold.most = 1000
	k.update(player, map[string]string{"a": strings.Repeat("a", 600), "b": strings.Repeat("b", 600)})
	k.update(field.Owner{App: "1", Region: "1", Logic: "user", ID: "small"}, map[string]string{"a": "1"})
	require.Equal(t, 1, k.chill())
	_, ok := k.warm(player, "a", "b")
	require.True(t, ok)
}
