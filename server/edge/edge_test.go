package edge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/player/field"
	"confcenter/server/edge"
)

var start = time.Unix(1_700_000_000, 0)

// requestBy is a request of who may do what rules say.
func requestBy(t *testing.T, e *edge.Edge, rules ...string) *edge.Request {
	return &edge.Request{Edge: e, Room: new(edge.Room), Rights: guardtest.Caller(t, rules...), Size: 100}
}

func putTo(ns string) *kv.Txn { return &kv.Txn{Then: []kv.Op{put(ns, "k")}} }

// readOnly is a concern that the server does not have: what belongs to a tenant may only be read. It knows
// neither operations nor who brings them.
func readOnly(tenant string) edge.Stage {
	return func(_ *access.Identity, things []op.Thing) error {
		for i := range things {
			t := &things[i]
			ns := string(t.AppendNamespace(nil))
			if t.Changes() && (strings.HasPrefix(ns, tenant) || t.Class == policy.Config && strings.HasPrefix(t.Part(0), tenant+"/")) {
				return codes.Errorf(codes.Forbidden, "what is %s's may only be read for now", tenant)
			}
		}
		return nil
	}
}

// A new concern is one stage, for keys, documents, fields and scopes alike.
func TestAConcernIsOneStage(t *testing.T) {
	e := &edge.Edge{Stages: []edge.Stage{readOnly("game")}}
	players := readOnly("@storage/1_1")
	for what, c := range map[string]struct {
		things  []op.Thing
		refused bool
	}{
		"a put":                    {op.Txn(nil, putTo("game")), true},
		"a put elsewhere":          {op.Txn(nil, putTo("other")), false},
		"a transaction with one":   {op.Txn(nil, &kv.Txn{Else: putTo("game").Then}), true},
		"a read":                   {op.Past(nil, "game", "k"), false},
		"a lock":                   {op.Lock(nil, "game", "k"), true},
		"a watch":                  {op.Watch(nil, kv.Filter{NS: "game"}), false},
		"a document":               {op.Change(nil, "game/a", false), true},
		"the end of a document":    {op.Change(nil, "game/a", true), true},
		"another document":         {op.Change(nil, "a", false), false},
		"the past of a document":   {op.PastOf(nil, "game/a"), false},
		"a scope of cluster state": {[]op.Thing{op.Scope(policy.Write, "game")}, false}, // its namespace is @flow/game
	} {
		r := requestBy(t, e, "* *")
		err := r.Judge(start, append(r.Things(), c.things...))
		require.Equal(t, c.refused, codes.Of(err) == codes.Forbidden, "%s: %v", what, err)
	}
	r := requestBy(t, &edge.Edge{Stages: []edge.Stage{players}}, "* *")
	require.ErrorContains(t, r.Judge(start, op.Fields(nil, &field.Write{Owner: field.Owner{App: "1", Region: "1", Logic: "bag", ID: "1"}})), "only be read")
}

// A client that may not do something learns neither of further concerns nor of what namespaces have spent.
func TestRightsAreDecidedFirst(t *testing.T) {
	e := &edge.Edge{Stages: []edge.Stage{readOnly("game")}}
	r := requestBy(t, e, "read kv:game")
	require.ErrorContains(t, r.Judge(start, op.Txn(r.Things(), putTo("game"))), `you may not write "kv:game/k"`)
}

// limited is an edge on which namespaces have so many requests a second.
func limited(t *testing.T, what ...string) *edge.Edge {
	role, err := policy.ParseRole("r", []byte(`{"quotas": [{"what": ["`+strings.Join(what, `","`)+`"], "requests": 1}]}`))
	require.NoError(t, err)
	book := quota.New(clocktest.NewFake(start))
	book.Set(policy.New(role))
	return &edge.Edge{Quotas: book, Ring: func() *secret.Ring { return nil }}
}

func TestEachNamespacePaysOnceForARequest(t *testing.T) {
	e := limited(t, "kv:a", "kv:b")
	both := &kv.Txn{Then: append(append(putTo("a").Then, putTo("b").Then...), putTo("a").Then...)}
	r := requestBy(t, e, "* *")
	require.NoError(t, r.Judge(start, op.Txn(r.Things(), both)), "a is there twice, and pays once")
	require.NoError(t, r.Judge(start, op.Txn(r.Things(), both)), "the same request, which has waited")
	r.Next()
	require.Equal(t, codes.Busy, codes.Of(r.Judge(start, op.Txn(r.Things(), putTo("b")))))
	require.Equal(t, codes.Busy, codes.Of(r.Apart().Judge(start, op.Past(nil, "a", "k"))), "on another goroutine")
	require.NoError(t, r.Judge(start.Add(time.Second), op.Txn(r.Things(), putTo("b"))))
}

// What is charged and never refused, as signs of life are, pays once as well when it has waited.
func TestAChargedRequestHasPaid(t *testing.T) {
	r := requestBy(t, limited(t, "kv:a"))
	r.Charge(start, 1, r.Size)
	require.True(t, r.Paid())
	r.Next()
	require.False(t, r.Paid())
	r.Charge(start, 0, 10)
	require.False(t, r.Paid(), "its body is only a part of it")
}

// Signs of life, and what gives something back, are never refused for what others have sent.
func TestWhatIsUnpaidCostsNoNamespace(t *testing.T) {
	e := limited(t, "kv:a")
	r := requestBy(t, e, "* *")
	alive := op.Key(policy.Lock, "a", "k")
	alive.Unpaid = true
	for range 3 {
		require.NoError(t, r.Judge(start, append(r.Things(), alive)))
		r.Next()
	}
	require.NoError(t, r.Judge(start, append(r.Things(), alive, op.Key(policy.Read, "a", "k"))), "nothing has been spent")
	r.Next()
	require.Equal(t, codes.Busy, codes.Of(r.Judge(start, append(r.Things(), alive, op.Key(policy.Read, "a", "k")))), "what is paid in the same request")
}

// Requests of players' fields pay by table, and those of documents not at all.
func TestWhoPays(t *testing.T) {
	e := limited(t, "storage:1/1", "kv:own")
	r := requestBy(t, e, "* *")
	read := func(region string) error {
		r.Next()
		return r.Judge(start, append(r.Things(), op.Owner(policy.Read, "1", region, "bag", "1")))
	}
	require.NoError(t, read("1"))
	require.NoError(t, read("2"))
	require.NoError(t, read("2"))
	require.Equal(t, codes.Busy, codes.Of(read("1")))
	for range 3 {
		r.Next()
		require.NoError(t, r.Judge(start, op.WatchDocuments(r.Things(), kv.Filter{NS: "own", Text: "a", Exact: true})))
	}
}

// A request keeps nothing of what it was about, and needs no memory of its own.
func TestJudgingTakesNoMemory(t *testing.T) {
	r := requestBy(t, limited(t, "kv:b"), "* *")
	ns, key := []byte("a"), []byte("k")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Next()
		if err := r.Judge(start, append(r.Things(), op.Key(policy.Read, ns, key))); err != nil {
			t.Fatal(err)
		}
	}))
}
