package config

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// docKit is a session without a socket on documents.
type docKit struct {
	*gatetest.Bench
	*gate.Session
	w     *looptest.Wire
	docs  *Handlers
	store *confstore.Store
}

func newDocKit(t testing.TB, files map[string]string) *docKit {
	return serveDocs(t, gatetest.Documents(t, files), loop.Limits{})
}

func serveDocs(t testing.TB, store *confstore.Store, limits loop.Limits) *docKit {
	k := &docKit{Bench: gatetest.NewBench(t, limits), store: store}
	k.docs = Add(k.Bench.Gate, store, Config{Changed: func(bool, string, int32, *access.Actor, string) {}})
	k.Open()
	k.Session, k.w = k.Peer(gatetest.Unlimited)
	return k
}

// deafen has the peer take everything and keep nothing.
func (k *docKit) deafen() {
	d := &gatetest.Deaf{}
	k.Session = gatetest.ConnectBy(k.T, k.Bench.Local, d, &d.Wire)
	require.NoError(k.T, k.Identify(0, nil))
}

// post has the loop tell of b in its next turn.
func (k *docKit) post(b *snapshot.Batch) { k.docs.publish(b) }

// book subscribes and returns what was answered, pushes included.
func book(s *docKit, body string) string {
	s.w.Got.Reset()
	s.Receive(protocol.AppendFrame(nil, protocol.BookCfgChange, 1, []byte(body)))
	return string(protocol.Printer{Style: protocol.BodyWhole}.AppendStream(nil, s.w.Got.Bytes()))
}

// change writes a.json and returns the batch, which no one has been told of yet.
func change(t *testing.T, s *docKit, contents string) *snapshot.Batch {
	batch := make(chan *snapshot.Batch, 8)
	store := s.store
	store.Subscribe(func(b *snapshot.Batch) {
		select {
		case batch <- b:
		default:
		}
	})
	done := make(chan error, 1)
	require.NoError(t, store.Set(confstore.SetRequest{Name: "a.json", Contents: []byte(contents)},
		func(_ confstore.SetResult, err error) { done <- err }))
	require.NoError(t, <-done)
	return <-batch
}

func TestARepeatedSubscriptionLosesNoPushThatIsOnItsWay(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	book(s, `{"file_pattern":"a.json"}`)
	s.post(change(t, s, `{"n":2}`))
	require.NotContains(t, book(s, `{"file_pattern":"a.json"}`), "EVNOTIFY")
	s.Loop.Wake()
	require.Contains(t, s.w.Got.String(), `"filename":"a.json"`)
}

func TestCatchingUpTellsOnceAndNeverGoesBack(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	book(s, `{"file_pattern":"a.json"}`)
	s.post(change(t, s, `{"n":2}`))
	s.post(change(t, s, `{"n":3}`))
	require.Contains(t, book(s, `{"file_pattern":"a.json","mtime":1}`), "EVNOTIFY", "told at once")
	s.w.Got.Reset()
	s.Loop.Wake()
	require.Zero(t, s.w.Got.Len(), "both changes are older than what it was told")
}

func TestAPanicWhileOneFollowerIsToldEndsThatOneOnly(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	book(s, `{"file_pattern":"a.json"}`)
	other := *s
	other.Session, other.w = s.Peer(gatetest.Unlimited)
	book(&other, `{"file_pattern":"a.json"}`)
	s.w.Panic = true
	s.post(change(t, s, `{"n":2}`))
	gatetest.Sweep(s.Bench.Local)
	require.True(t, s.Gone())
	require.Contains(t, other.w.Got.String(), `"filename":"a.json"`)
	require.EqualValues(t, 1, s.Bench.Group.Readings().Get("server_panics_total"))
}

func TestASubscribedPathHasALimit(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	long := strings.Repeat("p", maxPath+1)
	require.Contains(t, book(s, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":%q}`, long)), `"code":400`)
	require.Contains(t, book(s, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":%q}`, long[1:])), `"code":0`)
}

func TestSubscriptionsCountAgainstTheMemory(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	before := s.Bench.Group.Memory.Held()
	for i := range 10 {
		require.Contains(t, book(s, fmt.Sprintf(`{"file_pattern":"a.json","key_pattern":"/%d"}`, i)), `"code":0`)
	}
	require.Greater(t, s.Bench.Group.Memory.Held(), before+10*192)
	rest := int(s.Session.Limits().Memory - s.Bench.Group.Memory.Held())
	s.Bench.Group.Memory.Add(int64(rest))
	require.Contains(t, book(s, `{"file_pattern":"a.json","key_pattern":"/more"}`), `"code":1005`)
	s.Abort("the test ends it")
	require.Equal(t, before+int64(rest), s.Bench.Group.Memory.Held())
}

func TestIfMtimeOfAnotherTypeWritesNothing(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"n":1}`})
	s.w.Got.Reset()
	s.Receive(protocol.AppendFrame(nil, protocol.SetConfig, 1, []byte(`{"filename":"a.json","if_mtime":"5","contents":{"n":2}}`)))
	require.Contains(t, s.w.Got.String(), `"code":400`)
}

func TestOneFreePlaceInTheStoreIsNotTriedByEverybody(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	store := &fullStore{}
	Add(b.Gate, store, Config{})
	b.Open()
	var sessions []*gate.Session
	const peers = 100
	for i := range peers {
		s, _ := b.Peer(0)
		sessions = append(sessions, s)
		s.Receive(protocol.AppendFrame(nil, protocol.SetConfig, uint16(i), []byte(`{"filename":"a.json","contents":1}`)))
	}
	waiting := func() (n int) {
		for _, s := range sessions {
			if !s.Reads() {
				n++
			}
		}
		return n
	}
	require.Equal(t, peers, waiting())

	for n := 1; n <= peers; n++ {
		store.room, store.tries = 1, 0
		b.Local.Loop.HasRoom()
		b.Local.Loop.Wake()
		require.LessOrEqual(t, store.tries, 2)
		require.Equal(t, peers-n, waiting(), "everybody gets a place in turn")
	}
}

func TestPartsLookedUpCountInTheTurn(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": `{"k":1}`})
	const parts = 1000
	for i := range parts {
		s.Receive(protocol.AppendFrame(nil, protocol.BookCfgChange, 1, fmt.Appendf(nil, `{"file_pattern":"a.json","key_pattern":"/p%d"}`, i)))
	}
	require.Len(t, followerOf(s.Session).subs, parts)

	snap := s.store.Snapshot()
	node := snap.Node("a.json")
	f := &fanOut{hub: followerOf(s.Session).hub, batch: &snapshot.Batch{Seq: snap.Seq() + 1, Snapshot: snap, Changes: []snapshot.Change{{Name: "a.json", Node: node, Prev: node, Own: true}}}}
	turns := 1
	for {
		if _, done := f.Deliver(s.Loop, 100); done {
			break
		}
		turns++
	}
	require.Equal(t, parts/100, turns)
}

// fullStore takes as many writes as it has room for.
type fullStore struct {
	Store
	room, tries int
}

func (f *fullStore) Set(confstore.SetRequest, func(confstore.SetResult, error)) error {
	if f.tries++; f.room == 0 {
		return codes.Errorf(codes.Busy, "full")
	}
	f.room--
	return nil
}

func TestGetConfigDoesNotAllocate(t *testing.T) {
	s := newDocKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"b.json"}}`,
		"a.json":     `{"key":{"sub":[1,2,{"deep":"value"}]},"other":"text"}`,
		"b.json":     `{"base":true}`,
	})
	s.deafen()
	for _, body := range []string{
		`{"file_pattern":"a.json"}`,
		`{"file_pattern":"a"}`,
		`{"incbase":1,"file_pattern":"a.json"}`,
		`{"key_pattern":"/key/sub/2/deep","file_pattern":"a.json","incbase":"1"}`,
		`{"gt_mtime":2000000000,"file_pattern":"a.json"}`,
		`{"file_pattern":"missing.json","gt_mtime":5}`,
	} {
		frame := protocol.AppendFrame(nil, protocol.GetConfig, 9, []byte(body))
		for _, rules := range []int{0, 10, 10_000} {
			s.Rights = ruled(t, rules)
			s.Receive(frame) // warm-up: merges and buffers
			require.Zero(t, gatetest.Allocations(func() { s.Receive(frame) }), "%s with %d rules", body, rules)
		}
	}
}

// ruled may read documents by so many rules, most of which are about others; 0: there is no
// access control.
func ruled(t testing.TB, rules int) *guard.Caller {
	if rules == 0 {
		return nil
	}
	list := []string{"read config:a.json", "read config:m*"}
	for i := len(list); i < rules; i++ {
		list = append(list, fmt.Sprintf("read config:other/%d/*", i))
	}
	return guardtest.Caller(t, list...)
}

func BenchmarkGetConfig(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s := newDocKit(b, map[string]string{"a.json": `{"key":"` + strings.Repeat("x", 200) + `"}`})
			s.deafen()
			var burst []byte
			for i := range depth {
				burst = protocol.AppendFrame(burst, protocol.GetConfig, uint16(i), []byte(`{"incbase":1,"file_pattern":"a.json"}`))
			}
			for _, rules := range []int{0, 10, 10_000} {
				b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
					s.Rights = ruled(b, rules)
					b.ReportAllocs()
					b.ResetTimer()
					for i := 0; i < b.N; i += depth {
						s.Receive(burst)
					}
				})
			}
		})
	}
}

// setMany changes one of a few documents n times.
func setMany(t *testing.T, store *confstore.Store, n int) {
	done := make(chan error, 1)
	for i := range n {
		req := confstore.SetRequest{Name: fmt.Sprintf("%d.json", i%10), Contents: fmt.Append(nil, i)}
		require.NoError(t, store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
		require.NoError(t, <-done)
	}
}

func TestALoopThatLagsHoldsABoundedBacklog(t *testing.T) {
	mem := atomicfiletest.NewMem(nil)
	mem.MakeDir("/srv/conf")
	mem.MakeDir("/srv/data")
	store, err := confstore.Open(confstore.Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: mem, State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	setMany(t, store, 10)
	s := serveDocs(t, store, loop.Limits{Backlog: 100_000})
	s.docs.Follow()
	defer s.docs.Unfollow()
	for i := range 10 {
		require.Contains(t, book(s, fmt.Sprintf(`{"file_pattern":"%d.json"}`, i)), `"code":0`)
	}
	s.w.Got.Reset()
	setMany(t, store, 5_000)
	require.Less(t, s.Loop.Waits(), 40)
	require.NotZero(t, s.Bench.Group.Count.WatchBacklog.Load())
	gatetest.Sweep(s.Bench.Local)
	told := s.w.Got.String()
	require.Less(t, strings.Count(told, "cfg_change"), 100)
	for i := range 10 {
		newest := store.Snapshot().Node(fmt.Sprintf("%d.json", i)).Mtime(false)
		require.Contains(t, told, fmt.Sprintf(`"filename":"%d.json","mtime":%d`, i, newest), "the newest version of each")
	}
	s.w.Got.Reset()
	setMany(t, store, 1)
	s.Loop.Wake()
	require.Equal(t, 1, strings.Count(s.w.Got.String(), "cfg_change"), "and each again afterwards")
}

// What a worker has prepared is for the request that asked for it, and for no other one.
func TestWhatWasPreparedForARefusedRequestIsNotForTheNext(t *testing.T) {
	s := newDocKit(t, map[string]string{
		"large.json": `{"pad":"` + strings.Repeat("x", 1<<20) + `","k":"large"}`,
		"small.json": `{"k":"small"}`,
	})
	s.Receive(gatetest.Requests(protocol.GetConfig, `{"file_pattern":"large.json","key_pattern":"/k"}`, protocol.GetConfig, `{"file_pattern":"small.json","key_pattern":"/k"}`))
	require.Equal(t, 1, s.Bench.Group.Jobs(), "the index is a worker's")
	asked := 0
	s.Bench.Gate.Permits = func(*gate.Session, *gate.Route) error {
		asked++
		if asked > 1 {
			return nil
		}
		return codes.Forbidden
	}
	s.Bench.Group.DoJob(0)
	gatetest.Sweep(s.Bench.Local)
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 2)
	require.Contains(t, got[0], `"code":1025`)
	require.Contains(t, got[1], `"contents":"small"`)
}

// A peer may leave while its list is made.
func TestAListIsMadeWhileItsPeerLeaves(t *testing.T) {
	for range 20 {
		s := newDocKit(t, map[string]string{"a.json": `{}`})
		s.Receive(protocol.AppendFrame(nil, protocol.GetCfgName, 1, nil))
		var made sync.WaitGroup
		made.Go(func() { s.Bench.Group.DoJob(0) })
		s.Lost(nil)
		made.Wait()
	}
}

// A list is built in memory for peers, or refused.
func TestListsOfFilesAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("%d.json", i)] = `{}`
	}
	s := serveDocs(t, gatetest.Documents(t, files), loop.Limits{Memory: 100_000})
	pool := s.Bench.Group.Memory
	ask := func(body string) string {
		s.w.Got.Reset()
		s.Receive(protocol.AppendFrame(nil, protocol.GetCfgName, 1, []byte(body)))
		s.Bench.Group.DoJob(0)
		gatetest.Sweep(s.Bench.Local)
		return s.w.Got.String()[protocol.HeaderSize:]
	}
	held, refused := pool.Held(), pool.Refused()
	require.Regexp(t, `^\{"code":413,"desc":"the list of 200 files has some 3\d+ bytes, and the limit is 25000: ask without detail, or over HTTP, or start the server with more --memory"\}$`, ask(`{"detail":1}`))
	require.Contains(t, ask(""), `"199.json":[1,`)
	others := pool.Limit() - pool.Held() - 1000
	require.True(t, pool.Take(others))
	require.Contains(t, ask(""), `"code":503`)
	require.Equal(t, refused+2, pool.Refused())
	pool.Give(others)
	require.Contains(t, ask(""), `"199.json":[1,`)
	require.Equal(t, held, pool.Held(), "what was built is given back")
}

// TestAFileThatWasNeverGoodIsNotDenied: CppCloud's codes are those for no file, and our members say why.
func TestAFileThatWasNeverGoodIsNotDenied(t *testing.T) {
	s := newDocKit(t, map[string]string{"win.json": "{", "heir.json": "[", "base.json": "{}", "_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`})
	ask := func(body string) string {
		s.w.Got.Reset()
		s.Receive(protocol.AppendFrame(nil, protocol.GetConfig, 1, []byte(body)))
		return string(protocol.Printer{Style: protocol.BodyWhole}.AppendStream(nil, s.w.Got.Bytes()))
	}
	for _, name := range []string{"win", "win.json", "heir"} {
		why := strings.TrimSuffix(name, ".json") + ".json is broken and was never good: line 1 column 2"
		require.Contains(t, ask(`{"file_pattern":"`+name+`"}`), `"contents":null,"broken":"`+why)
		conditional := ask(`{"file_pattern":"` + name + `","gt_mtime":5}`)
		require.Contains(t, conditional, `"broken":"`+why)
		answer := book(s, `{"file_pattern":"`+name+`"}`)
		require.Contains(t, answer, `"code":420`)
		require.Contains(t, answer, why)
	}
	require.Contains(t, ask(`{"file_pattern":"win","gt_mtime":5}`), `"code":404`)
	require.NotContains(t, ask(`{"file_pattern":"none"}`), "broken")
	require.Contains(t, ask(`{"file_pattern":"heir","incbase":1}`), `"contents":{}`)
}
