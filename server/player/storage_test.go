package player

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// fakeStore is a store of one owner's fields. What comes when is up to the test.
type fakeStore struct {
	freed  [][2]int // table and fence
	fields []field.Field
	cold   bool     // only Load knows them,
	warm   string   // but not of that owner
	runs   []int    // how many gets came together
	held   []func() // writes that are not done yet
	given  []int    // how many came together
	wrote  []*field.Write

	outcome *field.Outcome
	err     error

	owners           []field.Owner
	retried, dropped []field.Ref
	confirm          int64 // of the last Drop

	dirty  []field.DirtyRow
	fence  kv.Revision
	done   *field.Batch
	failed []field.Failure

	newer     int64
	rescanned string
}

func (p *fakeStore) GetEach(gets []player.Get) {
	for i := range gets {
		g := &gets[i]
		g.Fields, g.Cold, g.Err = p.named(textsOf(g.Names)), p.cold && string(g.ID) != p.warm, g.Owner().Check()
	}
	p.runs = append(p.runs, len(gets))
}

func (p *fakeStore) named(names []string) (fields []field.Field) {
	for _, f := range p.fields {
		if slices.Contains(names, f.Name) {
			fields = append(fields, f)
		}
	}
	return fields
}

func (p *fakeStore) Load(_ context.Context, _ field.Owner, names []string) ([]field.Field, error) {
	return p.named(names), p.err
}

func (p *fakeStore) GetAll(ctx context.Context, o field.Owner, ask field.Ask) (field.Page, error) {
	if p.cold && o.ID != p.warm && ctx.Err() != nil {
		return field.Page{}, ctx.Err()
	}
	return field.Page{Fields: p.fields[:1], Revision: 7, More: ask.After == ""}, p.err
}

func (p *fakeStore) DoEach(by *player.Caller, calls []*player.Call) {
	p.given = append(p.given, len(calls))
	for _, c := range calls {
		p.wrote = append(p.wrote, &c.Write)
		outcome, err := p.outcome, p.err
		p.held = append(p.held, func() {
			c.Outcome, c.Err = outcome, err
			by.Done([]*player.Call{c})
		})
	}
}

func (p *fakeStore) Owners(_ context.Context, _, _, _, after string, _ int) ([]field.Owner, string, error) {
	next := ""
	if after == "" && len(p.owners) > 0 {
		next = p.owners[len(p.owners)-1].Key()
	}
	return p.owners, next, p.err
}

func (p *fakeStore) Count(context.Context, string, string, string) (int64, error) {
	return int64(len(p.owners)), p.err
}

func (p *fakeStore) Status() []field.TableStatus {
	return []field.TableStatus{{Table: 3, List: "dirtyKey:3", Errors: "dirtyKey:3error", Dirty: 5}}
}

func (p *fakeStore) Errors(after field.Ref, limit int) ([]field.ErrorRow, bool) {
	return []field.ErrorRow{{Owner: after.Owner, Name: after.Name, Reason: "bad", Attempts: limit}}, true
}

func (p *fakeStore) Retry(_ context.Context, fields []field.Ref) (int, error) {
	p.retried = fields
	return 2, p.err
}

func (p *fakeStore) Reland(_ context.Context, since int64) (int, error) { return int(since), p.err }

func (p *fakeStore) Drop(_ context.Context, fields []field.Ref, confirm int64) (int, error) {
	p.dropped, p.confirm = fields, confirm
	return len(fields), p.err
}

// kit is a session without a socket on player storage.
type kit struct {
	*gatetest.Bench
	*gate.Session
	w      *looptest.Wire
	player *fakeStore
}

func newKit(t *testing.T) *kit { return newKitWithin(t, loop.Limits{}) }

func newKitWithin(t *testing.T, limits loop.Limits) *kit {
	k := &kit{Bench: gatetest.NewBench(t, limits), player: &fakeStore{fields: []field.Field{{Name: "gold", Value: []byte("10"), Version: 20}, {Name: "pic", Value: []byte{0xFF}}}}}
	Add(k.Bench.Gate, k.player)
	k.Open()
	k.Session, k.w = k.Peer(gatetest.Unlimited)
	return k
}

// asks sends requests, has workers do what there is to do, and returns the replies.
func (k *kit) asks(pairs ...any) []string {
	k.Receive(gatetest.Requests(pairs...))
	for k.Bench.Group.Jobs() > 0 {
		k.Bench.Group.DoJob(0)
		k.Loop.Wake()
	}
	for k.Out.Owing() > 0 {
		k.w.Read(1 << 30)
		gatetest.Sweep(k.Session.Local)
	}
	return gatetest.Frames(k.T, k.w)
}

// ask is asks for one request.
func (k *kit) ask(cmd protocol.Command, body string) string {
	got := k.asks(cmd, body)
	require.Len(k.T, got, 1)
	return got[0]
}

const owner = `"logicType":"bag","ownerId":"42"`

func TestWarmFieldsAreAnsweredOnTheLoop(t *testing.T) {
	k := newKit(t)
	k.Receive(gatetest.Requests(protocol.StGet, `{`+owner+`,"names":["gold","pic","none"],"versions":1}`))
	require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"10"},"bytes":{"pic":"/w=="},"versions":{"gold":20,"pic":0}}`}, gatetest.Frames(t, k.w))
}

// What waits for a database takes none of the workers, and requests behind it wait.
func TestColdFieldsAreLoadedAwayFromTheLoop(t *testing.T) {
	k := newKit(t)
	k.player.cold = true
	k.Receive(gatetest.Requests(protocol.StGet, `{`+owner+`,"names":["gold"]}`, protocol.StUpdate, `{`+owner+`,"fields":{"a":"1"}}`))
	require.Empty(t, gatetest.Frames(t, k.w))
	require.Empty(t, k.player.wrote)
	require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"10"}}`}, k.asks())
	require.Len(t, k.player.wrote, 1)

	k = newKit(t)
	k.player.cold, k.player.err = true, codes.Errorf(codes.Busy, "the database does not answer")
	require.Equal(t, `STGET_RSP/1 {"code":503,"desc":"the database does not answer"}`, k.ask(protocol.StGet, `{`+owner+`,"names":["gold"]}`))
}

// asking is a get of the field gold of an owner.
func asking(id string) string { return `{"logicType":"bag","ownerId":"` + id + `","names":["gold"]}` }

// What one connection asks the database for is asked side by side, also by those who ask for more
// than the loop looks up; the replies are in the order of the requests, and a write stays behind
// the reads before it.
func TestColdOwnersOfOneConnectionAreLoadedSideBySide(t *testing.T) {
	k := newKit(t)
	k.player.cold, k.player.warm = true, "warm"
	k.Receive(gatetest.Requests(protocol.StGet, asking("1"), protocol.StGet, asking("2"), protocol.StGet, asking("warm"),
		protocol.StAll, `{`+owner+`}`, protocol.StOwners, `{"logicType":"bag"}`, protocol.StUpdate, `{`+owner+`,"fields":{"a":"1"}}`))
	require.Equal(t, 4, k.Bench.Group.Jobs())
	for k.Bench.Group.Jobs() > 1 { // the first one is the last
		k.Bench.Group.DoJob(k.Bench.Group.Jobs() - 1)
		k.Loop.Wake()
		if k.Bench.Group.Jobs() == 2 {
			k.Bench.Group.DoJob(0) // of STALL, which a worker tries
			k.Loop.Wake()
		}
	}
	require.Empty(t, gatetest.Frames(t, k.w))
	require.Empty(t, k.player.wrote)
	got := k.asks()
	require.Len(t, got, 5)
	for i, start := range []string{"STGET_RSP/1", "STGET_RSP/2", "STGET_RSP/3", "STALL_RSP/4", "STOWNERS_RSP/5"} {
		require.True(t, strings.HasPrefix(got[i], start+` {"code":0`), got[i])
	}
	require.Len(t, k.player.wrote, 1)
}

// A value that a worker encodes, as it is long, keeps its place behind what the database is asked for.
func TestALongValueBehindAColdOwnerIsAnsweredBehindIt(t *testing.T) {
	k := newKit(t)
	k.player.cold, k.player.warm = true, "warm"
	k.player.fields = []field.Field{{Name: "gold", Value: []byte(strings.Repeat("x", loopBytes+1))}}
	k.Receive(gatetest.Requests(protocol.StGet, asking("1"), protocol.StGet, asking("warm"), protocol.StOwners, `{"logicType":"bag"}`))
	k.Bench.Group.DoJob(0) // of the long value
	k.Loop.Wake()
	k.Bench.Group.DoJob(1) // of STOWNERS
	k.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, k.w))
	replies := k.Bench.Group.Count.Replies.Load()
	got := k.asks()
	require.Len(t, got, 3)
	for i, start := range []string{"STGET_RSP/1", "STGET_RSP/2", "STOWNERS_RSP/3"} {
		require.True(t, strings.HasPrefix(got[i], start+` {"code":0`), "%.60s", got[i])
	}
	require.EqualValues(t, 3, k.Bench.Group.Count.Replies.Load()-replies)
}

// After a second no one waits any more behind what the database does not answer.
func TestAHangingDatabaseHoldsUpColdRequestsOnly(t *testing.T) {
	k := newKit(t)
	k.player.cold, k.player.warm, k.player.outcome = true, "warm", &field.Outcome{}
	now := time.Unix(1_700_000_000, 0)
	tick := func(after time.Duration) {
		t.Helper()
		k.Bench.Group.Tick(now.Add(after))
		k.Loop.Wake()
	}
	tick(0)
	k.Receive(gatetest.Requests(protocol.StGet, asking("cold"), protocol.StGet, asking("warm"), protocol.StAll, `{"logicType":"bag","ownerId":"warm"}`, protocol.StUpdate, `{`+owner+`,"fields":{"a":"1"}}`))
	k.Bench.Group.DoJob(0) // of STALL: its owner is in memory
	k.Loop.Wake()
	tick(999 * time.Millisecond)
	require.Empty(t, gatetest.Frames(t, k.w), "the order is kept")
	tick(time.Second)
	got := gatetest.Frames(t, k.w)
	require.Len(t, got, 2)
	require.True(t, strings.HasPrefix(got[0], "STGET_RSP/2"), got[0])
	require.True(t, strings.HasPrefix(got[1], "STALL_RSP/3"), got[1])
	k.player.held[0]()
	k.Loop.Wake()
	require.Len(t, gatetest.Frames(t, k.w), 1, "of the write")
	require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"10"}}`}, k.asks(), "it comes when it is there")
}

func TestRequestsThatWaitForTheDatabaseHaveALimit(t *testing.T) {
	k := newKitWithin(t, loop.Limits{Besides: 2})
	k.player.cold = true
	k.Receive(gatetest.Requests(protocol.StGet, asking("1"), protocol.StGet, asking("2"), protocol.StGet, asking("3")))
	require.Equal(t, 2, k.Bench.Group.Jobs())
	require.EqualValues(t, 1, k.Bench.Group.Count.BesidesLimit.Load())
	require.Len(t, k.asks(), 3)
}

func TestRepliesOfWritesKeepTheirOrder(t *testing.T) {
	k := newKit(t)
	k.player.outcome = &field.Outcome{Revision: 8, Fields: []field.Field{{Name: "gold", Value: []byte("15"), Version: 21}}, Prev: []field.Field{{Name: "gold", Value: []byte("10"), Version: 20}}, Replayed: true}
	k.Receive(gatetest.Requests(
		protocol.StIncr, `{`+owner+`,"deltas":{"gold":5},"prev":1}`,
		protocol.StRemove, `{`+owner+`,"names":["gold"],"expect":{"gold":21},"token":"t"}`,
		protocol.StGet, `{`+owner+`,"names":["gold"]}`,
	))
	require.Len(t, k.player.held, 2, "writes do not wait for writes, reads do")
	require.Equal(t, []field.Delta{{Name: "gold", By: 5}}, k.player.wrote[0].Deltas)
	require.True(t, k.player.wrote[0].WantPrev)
	require.Equal(t, field.Remove, k.player.wrote[1].Kind)
	require.Equal(t, map[string]int64{"gold": 21}, k.player.wrote[1].Expect)
	require.Equal(t, "t", k.player.wrote[1].Token)
	require.NotNil(t, k.player.wrote[1].Actor)
	k.player.held[1]()
	k.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, k.w))
	k.player.held[0]()
	k.Loop.Wake()
	require.Equal(t, []string{
		`STINCR_RSP/1 {"code":0,"rev":8,"values":{"gold":15},"versions":{"gold":21},"prev":{"fields":{"gold":"10"},"versions":{"gold":20}},"replayed":1}`,
		`STREMOVE_RSP/2 {"code":0,"rev":8,"replayed":1}`,
		`STGET_RSP/3 {"code":0,"fields":{"gold":"10"}}`,
	}, gatetest.Frames(t, k.w))
}

// A store tells what has changed before it completes the writer, and so hears a client that
// watches what it writes: also of a write that is done while the loop has not got round to an
// earlier one's reply.
func TestAWriteIsAnsweredBehindWhatWasToldBefore(t *testing.T) {
	k := newKit(t)
	k.player.outcome = &field.Outcome{Revision: 8}
	update := `{` + owner + `,"fields":{"gold":"1"}}`
	k.Receive(gatetest.Requests(protocol.StUpdate, update, protocol.StUpdate, update))
	k.player.held[0]()
	k.Loop.Post(loop.MailFunc(func(*loop.Loop) { k.Out.SendFrame(gatetest.Requests(protocol.KVEvent, "an event")) }))
	k.player.held[1]()
	k.Loop.WakeWithin(2)
	for k.Loop.Busy() {
		k.Loop.Wake()
	}
	got := gatetest.Frames(t, k.w)
	require.Len(t, got, 3)
	require.NotContains(t, got[2], "an event")
}

func TestWritesOfAPipelineAreHandedOverTogether(t *testing.T) {
	k := newKit(t)
	k.player.outcome = &field.Outcome{Revision: 8}
	update := `{` + owner + `,"fields":{"gold":"1"}}`
	k.Receive(gatetest.Requests(protocol.StUpdate, update, protocol.StUpdate, `{"fields":1}`, protocol.StIncr, `{`+owner+`,"deltas":{"gold":5}}`))
	require.Equal(t, []int{2}, k.player.given)
	k.Receive(gatetest.Requests(protocol.StUpdate, update))
	require.Equal(t, []int{2, 1}, k.player.given)
}

func TestWritesThatFail(t *testing.T) {
	k := newKit(t)
	other := &field.Mismatch{Fields: k.player.fields[:1]}
	for want, err := range map[string]error{
		fmt.Sprintf(`{"code":412,"desc":%q,"versions":{"gold":20}}`, other): other,
		`{"code":1016,"desc":"no number"}`:                                  codes.Errorf(codes.WrongType, "no number"),
	} {
		k.player.err = err
		k.Receive(gatetest.Requests(protocol.StUpdate, `{`+owner+`,"fields":{"gold":"1"}}`))
		k.player.held[len(k.player.held)-1]()
		k.Loop.Wake()
		require.Equal(t, []string{"STUPDATE_RSP/1 " + want}, gatetest.Frames(t, k.w))
	}
	for body, code := range map[string]string{`{`: `{"code":1001,`, `[]`: `{"code":1001,`, `{"fields":1}`: `{"code":400,`, `{} x`: `{"code":1001,`} {
		require.Contains(t, k.ask(protocol.StUpdate, body), code, body)
	}
	require.Contains(t, k.ask(protocol.StGet, `{"logicType":"","ownerId":"42","names":["a"]}`), `"code":1010`)
}

// A write whose client has gone is done all the same.
func TestAWriteOutlivesItsClient(t *testing.T) {
	k := newKit(t)
	k.player.outcome = &field.Outcome{Revision: 8}
	k.Receive(gatetest.Requests(protocol.StUpdate, `{`+owner+`,"fields":{"gold":"1"}}`))
	k.Abort("gone")
	k.player.held[0]()
	k.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, k.w))
}

func TestLongReplies(t *testing.T) {
	k := newKit(t)
	long := func(n int) []field.Field {
		return []field.Field{{Name: "gold", Value: []byte(strings.Repeat("x", n))}}
	}
	for _, cold := range []bool{false, true} {
		k.player.cold, k.player.fields = cold, long(loopBytes)
		require.Greater(t, len(k.ask(protocol.StGet, `{`+owner+`,"names":["gold"]}`)), loopBytes)
		k.player.fields = long(protocol.MaxFieldBytes)
		require.Contains(t, k.ask(protocol.StGet, `{`+owner+`,"names":["gold"]}`), `"code":413`)
	}
	for n, want := range map[int]string{loopBytes: `"code":0`, protocol.MaxFieldBytes: `"code":413,"desc":"the write was carried out, at revision 8`} {
		k.player.outcome = &field.Outcome{Revision: 8, Prev: long(n)}
		k.Receive(gatetest.Requests(protocol.StUpdate, `{`+owner+`,"fields":{"gold":"1"},"prev":1}`))
		k.player.held[len(k.player.held)-1]()
		k.Loop.Wake()
		got := k.asks()
		require.Len(t, got, 1)
		require.Contains(t, got[0], want)
	}
	names := `"` + strings.Repeat(`x","`, loopFields) + `gold"`
	k.player.cold, k.player.fields = false, long(1)
	k.Receive(gatetest.Requests(protocol.StGet, `{`+owner+`,"names":[`+names+`]}`))
	require.Empty(t, gatetest.Frames(t, k.w), "a worker looks up many")
	require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"x"}}`}, k.asks())
}

func TestListsOfFieldsAndOwners(t *testing.T) {
	k := newKit(t)
	require.Equal(t, `STALL_RSP/1 {"code":0,"rev":7,"fields":{"gold":"10"},"more":1,"next":"gold"}`, k.ask(protocol.StAll, `{`+owner+`}`))
	require.Equal(t, `STALL_RSP/1 {"code":0,"rev":7,"fields":{"gold":"10"}}`, k.ask(protocol.StAll, `{`+owner+`,"after":"a"}`))
	k.player.owners = []field.Owner{{App: "1", Region: "1", Logic: "bag", ID: "a"}, {App: "1", Region: "1", Logic: "bag", ID: "b"}}
	require.Equal(t, `STOWNERS_RSP/1 {"code":0,"owners":[{"logicType":"bag","ownerId":"a"},{"logicType":"bag","ownerId":"b"}],"more":1,"next":"bag:b"}`, k.ask(protocol.StOwners, `{}`))
	require.Equal(t, `STOWNERS_RSP/1 {"code":0,"count":2}`, k.ask(protocol.StOwners, `{"count":1}`))
	k.player.err = codes.Errorf(codes.Compacted, "begin again")
	for _, cmd := range []protocol.Command{protocol.StAll, protocol.StOwners} {
		require.Contains(t, k.ask(cmd, `{`+owner+`}`), `{"code":1018,"desc":"begin again"}`)
		require.Contains(t, k.ask(cmd, `{"limit":"x"}`), `"code":400`)
	}
}

func TestLandingIsTheOperators(t *testing.T) {
	k := newKit(t)
	require.Contains(t, k.ask(protocol.StStatus, `{}`), `{"code":0,"tables":[{"table":3,"list":"dirtyKey:3","errors_list":"dirtyKey:3error","dirty":5,`)
	require.Contains(t, k.ask(protocol.StErrors, `{"limit":9,"after":{`+owner+`,"name":"pic"}}`), `{"code":0,"errors":[{"logicType":"bag","ownerId":"42","name":"pic","list":"","rev":0,"reason":"bad","attempts":9,"first":0,"next":0}],"more":1}`)
	require.Contains(t, k.ask(protocol.StRetry, `{}`), `{"code":0,"count":2}`)
	require.Nil(t, k.player.retried)
	require.Contains(t, k.ask(protocol.StRetry, `{"rows":[{`+owner+`,"name":"pic"}]}`), `{"code":0,"count":2}`)
	require.Equal(t, []field.Ref{{Owner: field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}, Name: "pic"}}, k.player.retried)
	require.Contains(t, k.ask(protocol.StRetry, `{"since":7}`), `{"code":0,"count":7}`)
	require.Contains(t, k.ask(protocol.StRetry, `{"since":7,"rows":[{`+owner+`,"name":"pic"}]}`), `exclude each other`)
	require.Contains(t, k.ask(protocol.StRetry, `{"rows":[]}`), `is empty; leave it out to name all`, "none is not all")
	require.Contains(t, k.ask(protocol.StDrop, `{"rows":[{`+owner+`,"name":"pic"}],"confirm":1}`), `{"code":0,"count":1}`)
	require.Equal(t, k.player.retried, k.player.dropped)
	require.EqualValues(t, 1, k.player.confirm)
	require.Contains(t, k.ask(protocol.StDrop, `{"confirm":7}`), `{"code":0,"count":0}`)
	require.Nil(t, k.player.dropped, "all")
	require.EqualValues(t, 7, k.player.confirm)
	require.Contains(t, k.ask(protocol.StDrop, `{"rows":[],"confirm":1}`), `is empty; leave it out to name all`)
	require.Contains(t, k.ask(protocol.StDrop, `{"confirm":-1}`), `"code":400`)
	k.player.err = codes.Errorf(codes.Unconfirmed, "landing 3 refused fields would be given up")
	require.Contains(t, k.ask(protocol.StDrop, `{}`), `{"code":1026,"desc":"landing 3 refused fields would be given up"}`)
	k.player.err = codes.Errorf(codes.Storage, "no disk")
	require.Contains(t, k.ask(protocol.StRetry, `{}`), `"code":507`)
	for _, cmd := range []protocol.Command{protocol.StErrors, protocol.StRetry, protocol.StDrop} {
		require.Contains(t, k.ask(cmd, `{"after":1,"rows":1}`), `"code":400`)
	}
}

func TestNoPlayerStorage(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	Add(b.Gate, nil)
	b.Open()
	s, w := b.Peer(gatetest.Unlimited)
	for _, row := range protocol.Commands {
		if row.ID.IsStorage() {
			s.Receive(gatetest.Requests(row.ID, `{`))
			require.Equal(t, []string{row.Name + `_RSP/1 {"code":501,"desc":"this server has no player storage"}`}, gatetest.Frames(t, w))
		}
	}
}

func (p *fakeStore) Settings() field.Settings { return field.Defaults() }

func (p *fakeStore) Claim(_ context.Context, table int, who string) (field.Claim, error) {
	return field.Claim{Fence: kv.Revision(table), Holder: who}, p.err
}

func (p *fakeStore) Release(ctx context.Context, table int, fence kv.Revision) error {
	if ctx.Err() != nil { // by no one's request
		p.freed = append(p.freed, [2]int{table, int(fence)})
	}
	return p.err
}

// A lander that was killed is not waited for, not even if the claim comes when its connection has ended.
func TestClaimsEndWithTheirConnection(t *testing.T) {
	k := newKit(t)
	require.Contains(t, k.ask(protocol.LdClaim, `{"table":3,"who":"me"}`), `"fence":3`)
	require.Contains(t, k.ask(protocol.LdClaim, `{"table":3,"who":"me"}`), `"fence":3`)
	require.Contains(t, k.ask(protocol.LdClaim, `{"table":5,"who":"me"}`), `"fence":5`)
	require.Contains(t, k.ask(protocol.LdClaim, `{"who":"me"}`), `{"code":0,"holder":"me"}`)
	k.Receive(gatetest.Requests(protocol.LdClaim, `{"table":7,"who":"me"}`))
	require.Empty(t, k.player.freed)
	k.Abort("gone")
	k.Loop.Wake()
	require.ElementsMatch(t, [][2]int{{3, 3}, {5, 5}}, k.player.freed)
	for k.Bench.Group.Jobs() > 0 {
		k.Bench.Group.DoJob(0)
	}
	require.ElementsMatch(t, [][2]int{{3, 3}, {5, 5}, {7, 7}}, k.player.freed)
}

func (p *fakeStore) Dirty(_ context.Context, table, limit int) (*field.Batch, error) {
	if len(p.dirty) == 0 {
		return nil, p.err
	}
	return &field.Batch{Table: table, Tables: 4, After: 1, Through: 9, Rows: p.dirty[:min(limit, len(p.dirty))]}, p.err
}

func (p *fakeStore) Landed(_ context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error {
	p.fence, p.done, p.failed = fence, b, failed
	return p.err
}

func (p *fakeStore) Newer(_ context.Context, version int64) error {
	p.newer = version
	return p.err
}

func (p *fakeStore) Rescan(_ context.Context, table string) error {
	p.rescanned = table
	return p.err
}

func TestWhoHasFilledATableSaysSo(t *testing.T) {
	k := newKit(t)
	require.Contains(t, k.ask(protocol.StRescan, `{}`), `{"code":0,`)
	require.Equal(t, "1_1", k.player.rescanned)
	require.Zero(t, k.player.newer)
	require.Contains(t, k.ask(protocol.StRescan, `{"appId":"my_game","regionId":"eu","version":9}`), `{"code":0,`)
	require.Equal(t, "_myz5fgame_eu", k.player.rescanned)
	require.EqualValues(t, 9, k.player.newer)
	for body, want := range map[string]string{`{"version":-1}`: `"code":400`, `{"appId":""}`: `"code":1010`, `{"regionId":7}`: `"code":400`} {
		require.Contains(t, k.ask(protocol.StRescan, body), want, body)
	}
	k.player.err = codes.Errorf(codes.NotImplemented, "no database")
	require.Contains(t, k.ask(protocol.StRescan, `{}`), `{"code":501,"desc":"no database"}`)
	require.Contains(t, k.ask(protocol.StRescan, `{"version":9}`), `{"code":501,"desc":"no database"}`)
}

func TestLandersInProcessesOfTheirOwn(t *testing.T) {
	k := newKit(t)
	require.Contains(t, k.ask(protocol.LdSettings, `{}`), `{"code":0,"tables":1,"prefix":"dirtyKey","saving_suffix":"saving","error_suffix":"error","lock_time":1000000,"delay":10000,"batch":1000}`)
	require.Contains(t, k.ask(protocol.LdClaim, `{"table":3,"who":"me"}`), `{"code":0,"fence":3,"holder":"me"}`)
	require.Contains(t, k.ask(protocol.LdTake, `{"table":3}`), `LDTAKE_RSP/1 {"code":0}`)
	long := field.DirtyRow{Row: field.Row{Owner: field.Owner{App: "1", Region: "1", Logic: "bag", ID: "42"}, Name: "a", Value: make([]byte, 1<<20), Version: 7}, Revision: 8, Noted: true}
	k.player.dirty = slices.Repeat([]field.DirtyRow{long}, 20)
	b, err := protocol.ParseReply[field.Taken]([]byte(strings.TrimPrefix(k.ask(protocol.LdTake, `{"table":3,"limit":20}`), "LDTAKE_RSP/1 ")))
	require.NoError(t, err)
	require.Len(t, b.Rows, 5, "as many as one reply may have")
	require.Equal(t, long.Value, b.Rows[0].Value)
	require.Contains(t, k.ask(protocol.LdLanded, `{"fence":3,"table":3,"tables":4,"after":1,"through":9,"count":5,"rows":[{`+owner+`,"name":"a","version":7,"rev":8,"noted":1}],"failed":[{"table":"1_1","key":"bag:42:a","reason":"x"}]}`), `{"code":0,`)
	long.Value = nil
	require.Equal(t, &field.Batch{Table: 3, Tables: 4, After: 1, Through: 9, Count: 5, Rows: []field.DirtyRow{long}}, k.player.done)
	require.Equal(t, []field.Failure{{Table: "1_1", Key: "bag:42:a", Reason: "x"}}, k.player.failed)
	require.EqualValues(t, 3, k.player.fence)
	require.Contains(t, k.ask(protocol.LdNewer, `{"version":9}`), `{"code":0,`)
	require.Contains(t, k.ask(protocol.LdRelease, `{"table":3,"fence":3}`), `{"code":0,`)
	k.player.err = codes.Errorf(codes.FenceLost, "lost")
	for _, cmd := range []protocol.Command{protocol.LdClaim, protocol.LdTake, protocol.LdLanded, protocol.LdNewer, protocol.LdRelease} {
		require.Contains(t, k.ask(cmd, `{}`), `{"code":1020,"desc":"lost"}`)
		require.Contains(t, k.ask(cmd, `{"table":-1,"version":"x"}`), `"code":400`)
	}
}
