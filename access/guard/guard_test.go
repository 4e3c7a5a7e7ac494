package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/op"
)

func put(ns, key string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.Value{Type: kv.String, Data: []byte("v")}}
}

func TestATransactionNeedsARightForEachThingThatItTouchesOrTells(t *testing.T) {
	two := int64(2)
	for what, c := range map[string]struct {
		txn  kv.Txn
		with []string // what is needed; without any of them it is refused
	}{
		"a put":                       {kv.Txn{Then: []kv.Op{put("a", "k")}}, []string{"write kv:a/k"}},
		"one in the other branch":     {kv.Txn{Else: []kv.Op{put("a", "k")}}, []string{"write kv:a/k"}},
		"a put that returns the old":  {kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "a", Key: "k", WantPrev: true}}}, []string{"write kv:a/k", "read kv:a/k"}},
		"a get":                       {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "a", Key: "k"}}}, []string{"read kv:a/k"}},
		"a delete":                    {kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "a", Key: "k"}}}, []string{"delete kv:a/k"}},
		"a delete with the old":       {kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "a", Key: "k", WantPrev: true}}}, []string{"delete kv:a/k", "read kv:a/k"}},
		"a prefix":                    {kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "a", Key: "k"}}}, []string{"delete kv:a/k*"}},
		"a namespace":                 {kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "a"}}}, []string{"delete kv:a"}},
		"an increment and its bounds": {kv.Txn{Then: []kv.Op{{Kind: kv.OpIncr, NS: "a", Key: "k", Delta: 1, Max: &two}}}, []string{"write kv:a/k", "read kv:a/k"}},
		"a compare":                   {kv.Txn{If: []kv.Compare{kv.Absent("a", "k")}, Then: []kv.Op{put("b", "k")}}, []string{"read kv:a/k", "write kv:b/k"}},
		"a fence":                     {kv.Txn{Fences: []kv.Fence{{NS: "a", Key: "k", Token: 1}}}, []string{"lock kv:a/k", "read kv:a/k"}},
		"a lease":                     {kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant}}}, []string{"lease kv"}},
		"a leased key":                {kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "a", Key: "k", Lease: 1}}}, []string{"write kv:a/k", "lease kv"}},
		"the end of a lease":          {kv.Txn{Then: []kv.Op{{Kind: kv.OpRevoke, Lease: 1}}}, []string{"lease kv"}},
		"several keys":                {kv.Txn{Then: []kv.Op{put("a", "1"), put("a", "2")}}, []string{"write kv:a/1", "write kv:a/2"}},
		"players' fields":             {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "@storage/x", Key: "k"}}}, []string{"read storage"}},
		"an application":              {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "@flow/x", Key: "k"}}}, []string{"read flow"}},
		"a node":                      {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "@bench", Key: "k"}}}, []string{"read bench"}},
		"a document's record":         {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "@conf", Key: "k"}}}, []string{"history config", "history roles", "read config", "read roles"}},
		"what is known of a document": {kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "@conf", Key: "doc/a.json"}}}, []string{"history config:a.json", "read config:a.json"}},
		"of a role":                   {kv.Txn{If: []kv.Compare{kv.Absent("@conf", "doc/_access/a.json")}}, []string{"history roles", "read roles"}},
	} {
		require.NoError(t, guardtest.Caller(t, c.with...).Needs(op.Txn(nil, &c.txn)...), what)
		for i := range c.with {
			less := append(append([]string{}, c.with[:i]...), c.with[i+1:]...)
			// a caller that may do everything else may not do it either
			err := guardtest.Caller(t, append(less, "write kv:other", "-"+c.with[i], "* status")...).Needs(op.Txn(nil, &c.txn)...)
			require.Equal(t, codes.Forbidden, codes.Of(err), "%s without %s", what, c.with[i])
		}
	}
}

func TestARightToKeysIsNoRightToWhatTheServerKeepsInThem(t *testing.T) {
	c := guardtest.Caller(t, "* kv")
	for _, ns := range []string{"@storage/a", "@landing", "@flow/x", "@bench", "@conf", "@conf/doc", "@audit", "@audit/lines", "@access", "@review"} {
		require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Key(policy.Read, ns, "k"))), ns)
		require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Keys(policy.Read, op.Any, ns, ""))), ns)
		require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Watch(nil, kv.Filter{NS: ns})...)), ns)
		require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Past(nil, ns, "k")...)), ns)
	}
	require.NoError(t, c.Needs(op.Keys(policy.Read, op.Any, "@mine", "")))
	require.Equal(t, codes.Forbidden, codes.Of(c.Needs(op.Watch(nil, kv.Filter{})...)))
	require.NoError(t, guardtest.Caller(t, "* kv", "* storage", "* flow", "* bench", "* config", "* roles").Needs(op.Watch(nil, kv.Filter{NS: "@flow/x"})...))
	require.Error(t, guardtest.Caller(t, "* kv", "* storage", "* flow", "* bench", "* config", "* roles").Needs(op.Watch(nil, kv.Filter{})...), "which would tell of the audit")
	require.NoError(t, guardtest.Caller(t, "* kv", "* audit").Needs(op.Key(policy.Read, "@audit", "k")))
	require.Error(t, guardtest.Caller(t, "* kv", "* audit").Needs(op.Key(policy.Write, "@audit", "k")))
}

// Digests of tokens, of sessions and of tokens that wait for approval are there, and nowhere else.
func TestOnlyAdministratorsReadWhatIsKeptOfTokens(t *testing.T) {
	most := guardtest.Caller(t, "* *")
	root := guardtest.Caller(t)
	root.Who = &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}
	root.Permits = new(policy.Policy).Of(root.Who)
	for _, ns := range []string{"@access", "@review"} {
		for key, ask := range map[string]func(c *guard.Caller) error{
			"Key":   func(c *guard.Caller) error { return c.Needs(op.Key(policy.Read, ns, "token/x")) },
			"Many":  func(c *guard.Caller) error { return c.Needs(op.Key(policy.Read, ns, "token/x")) },
			"List":  func(c *guard.Caller) error { return c.Needs(op.Keys(policy.Read, op.Any, ns, "session/")) },
			"Watch": func(c *guard.Caller) error { return c.Needs(op.Watch(nil, kv.Filter{NS: ns})...) },
			"Exact": func(c *guard.Caller) error {
				return c.Needs(op.Watch(nil, kv.Filter{NS: ns, Text: "token/x", Exact: true})...)
			},
			"All":     func(c *guard.Caller) error { return c.Needs(op.Watch(nil, kv.Filter{})...) },
			"History": func(c *guard.Caller) error { return c.Needs(op.Past(nil, ns, "token/x")...) },
			"Txn": func(c *guard.Caller) error {
				return c.Needs(op.Txn(nil, &kv.Txn{If: []kv.Compare{kv.Absent(ns, "token/x")}})...)
			},
		} {
			require.Equal(t, codes.Forbidden, codes.Of(ask(most)), "%s %s", key, ns)
			require.ErrorContains(t, ask(most), "only administrators may", "%s %s", key, ns)
			require.NoError(t, ask(root), "%s %s", key, ns)
			require.NoError(t, ask(nil), "%s %s", key, ns)
		}
		list, _, err := most.Namespaces(names{ns, "a"}, "", 10)
		require.NoError(t, err)
		require.Equal(t, []kv.Namespace{{Name: "a"}}, list)
	}
}

// What is known of documents is listed, counted and watched like their past.
func TestWhatIsKnownOfDocumentsIsListedToThoseWhoMayKnowIt(t *testing.T) {
	ops := []kv.Op{put("@conf", "log")}
	for _, name := range []string{"_access/r.json", "a.json", "b.json", "game/1.json", "game/2.json", "game/3.json", "z.json"} {
		ops = append(ops, put("@conf", "doc/"+name))
	}
	view := storing(t, ops...).View()
	defer view.Close()
	for _, c := range []struct {
		rules, prefix, want string // want "": it is refused
	}{
		{"history config,read config:game/*", "", "game/1 game/2 game/3"},
		{"history config:game/*,read config", "doc/", "game/1 game/2 game/3"},
		{"history config:game/*,read config,-read config:game/2.json", "", "game/1 game/3"},
		{"* config,-read config:game/*", "", "a b z"},
		{"* config", "doc/game/", "game/1 game/2 game/3"},
		{"* config,* roles", "", "_access/r a b game/1 game/2 game/3 z log"},
		{"* config,* roles,-history config:z.json", "", "_access/r a b game/1 game/2 game/3"},
		{"history roles,read roles", "", "_access/r"},
		{"* config,-read config:z.json", "doc/z", " "},
		{"history config", "", ""},
		{"read config", "", ""},
		{"* kv", "", ""},
	} {
		caller := guardtest.Caller(t, strings.Split(c.rules, ",")...)
		want := strings.Fields(c.want)
		l := kv.List{NS: "@conf", Prefix: c.prefix}
		if c.want == "" {
			require.Equal(t, codes.Forbidden, codes.Of(caller.Needs(op.Keys(policy.Read, op.Any, l.NS, l.Prefix))), c.rules)
			continue
		}
		require.NoError(t, caller.Needs(op.Keys(policy.Read, op.Any, l.NS, l.Prefix)), c.rules)
		l.CountOnly = true
		page, err := caller.Page(view, l)
		require.NoError(t, err)
		require.EqualValues(t, len(want), page.Count, c.rules)
		l.CountOnly = false
		for _, limit := range []int{0, 1, 2, kv.MaxList + 1} {
			l.Limit, l.After = limit, ""
			var got []string
			for more := true; more; more = page.More {
				page, err = caller.Page(view, l)
				require.NoError(t, err)
				require.EqualValues(t, len(page.Entries), page.Count)
				require.False(t, page.More && len(page.Entries) == 0, "there is something to go on behind")
				for _, e := range page.Entries {
					got, l.After = append(got, strings.TrimSuffix(strings.TrimPrefix(e.Key, "doc/"), ".json")), e.Key
				}
			}
			require.ElementsMatch(t, want, got, "%s %d", c.rules, limit)
		}
		l.Limit, l.After, l.MaxBytes = 0, "", 1
		page, err = caller.Page(view, l)
		require.NoError(t, err)
		require.Len(t, page.Entries, min(len(want), 1))
		require.Equal(t, len(want) > 1, page.More)
	}
}

func TestAWatchNeedsToWatchAndToRead(t *testing.T) {
	for rules, want := range map[string]bool{
		"watch kv:a/*": false, "read kv:a/*": false, "watch kv:a/*,read kv:a/*": true,
		"watch kv:a/*,read kv:a/*,-read kv:a/b": false, "watch kv:a/k,read kv:a/k": false,
	} {
		c := guardtest.Caller(t, strings.Split(rules, ",")...)
		require.Equal(t, want, c.Needs(op.Watch(nil, kv.Filter{NS: "a"})...) == nil, rules)
	}
	one := kv.Filter{NS: "a", Text: "k", Exact: true}
	require.NoError(t, guardtest.Caller(t, "watch kv:a/k", "read kv:a/k").Needs(op.Watch(nil, one)...))
	require.Error(t, guardtest.Caller(t, "watch kv:a/k").Needs(op.Watch(nil, one)...))
	require.Error(t, guardtest.Caller(t, "history kv:a/k").Needs(op.Past(nil, "a", "k")...))
	require.NoError(t, guardtest.Caller(t, "history kv:a/k", "read kv:a/k").Needs(op.Past(nil, "a", "k")...))
}

func TestDocumentsAreJudgedByTheirNames(t *testing.T) {
	c := guardtest.Caller(t, "read config:game/*", "-read config:game/secret.json")
	require.NoError(t, c.Needs(op.Document(policy.Read, "game/a.json")))
	for _, name := range []string{"game/secret.json", "a.json", "game.json"} {
		err := c.Needs(op.Document(policy.Read, name))
		require.Equal(t, codes.Forbidden, codes.Of(err), name)
		require.ErrorContains(t, err, `you may not read "config:`+name+`"`)
	}
	require.NoError(t, c.Needs(op.Documents(policy.Read, "game/a")))
	require.Error(t, c.Needs(op.Documents(policy.Read, "game/")))
	require.Error(t, c.Needs(op.Whole(policy.Read, policy.Config)))
	require.ErrorContains(t, new(guard.Caller).Needs(op.Whole(policy.Read, policy.Status)), `you may not read "status"`)
}

var keys = []string{"a", "b", "ab", "abc"}

func drawTxn(t *rapid.T) *kv.Txn {
	key := rapid.SampledFrom(keys)
	drawOp := rapid.Custom(func(t *rapid.T) kv.Op {
		op := kv.Op{NS: "n", Key: key.Draw(t, "key"), WantPrev: rapid.Bool().Draw(t, "prev")}
		switch op.Kind = rapid.SampledFrom([]kv.OpKind{kv.OpGet, kv.OpPut, kv.OpDelete, kv.OpDeletePrefix, kv.OpIncr}).Draw(t, "kind"); op.Kind {
		case kv.OpGet, kv.OpDeletePrefix:
			op.WantPrev = false
		case kv.OpPut:
			op.Value = kv.Value{Type: kv.Int, Data: []byte("7")}
		}
		return op
	})
	txn := &kv.Txn{Then: rapid.SliceOfN(drawOp, 1, 3).Draw(t, "then"), Else: rapid.SliceOfN(drawOp, 0, 2).Draw(t, "else")}
	if rapid.Bool().Draw(t, "compares") {
		txn.If = []kv.Compare{{NS: "n", Key: key.Draw(t, "compared"), Target: kv.CompareVersion, Relation: kv.Greater}}
	}
	return txn
}

// Whatever the roles and the transaction: what is returned may be read, and what has changed may
// be changed.
func TestNothingLeavesOrChangesThatMayNot(t *testing.T) {
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		var rules []string
		for range rapid.IntRange(1, 6).Draw(t, "rules") {
			rules = append(rules, rapid.SampledFrom([]string{"", "", "-"}).Draw(t, "effect")+rapid.SampledFrom([]string{"read", "write", "delete", "*"}).Draw(t, "verb")+
				" kv:"+rapid.SampledFrom([]string{"n", "n/a*", "n/ab*", "n/b", "n/abc", "m"}).Draw(t, "what"))
		}
		c, txn := guardtest.Caller(t, rules...), drawTxn(t)
		if c.Needs(op.Txn(nil, txn)...) != nil {
			return
		}
		allowed++
		store := memory.New(memory.Config{})
		defer store.Close()
		_, err := kv.Commit(context.Background(), store, kv.PutTxn("n", "ab", kv.Value{Type: kv.Int, Data: []byte("1")}))
		require.NoError(t, err)
		before := store.Revision()
		result, err := kv.Commit(context.Background(), store, txn)
		if err != nil {
			return
		}
		may := func(v policy.Verb, key string) bool { return c.Needs(op.Key(v, "n", key)) == nil }
		ops := txn.Then
		if !result.Held {
			ops = txn.Else
		}
		for i, r := range result.Ops {
			for _, e := range []*kv.Entry{r.Entry, r.Prev} {
				own := ops[i].Kind == kv.OpPut && e == r.Entry
				require.True(t, e == nil || own || may(policy.Read, e.Key), "%v returned %v", ops[i], e)
			}
		}
		changes, err := store.Changes(context.Background(), before, 1<<20)
		require.NoError(t, err)
		for _, change := range changes {
			for _, e := range change.Events {
				require.True(t, may(policy.Write, e.Entry.Key) || may(policy.Delete, e.Entry.Key), e.Entry.Key)
				require.False(t, e.Kind == kv.Delete && !may(policy.Delete, e.Entry.Key), e.Entry.Key)
			}
		}
	})
	require.Positive(t, allowed)
}

func TestWithoutAccessControlEverythingMayBeDone(t *testing.T) {
	var c *guard.Caller
	require.NoError(t, c.Right(access.BackupRead, false))
	require.NoError(t, c.Needs(op.Whole(policy.Grant, policy.Roles)))
	require.NoError(t, c.Needs(op.Document(policy.Write, "a.json")))
	require.NoError(t, c.Needs(op.Documents(policy.Write, "")))
	require.NoError(t, c.Needs(op.Key(policy.Read, "@conf", "k")))
	require.NoError(t, c.Needs(op.Watch(nil, kv.Filter{})...))
	require.NoError(t, c.Needs(op.Past(nil, "a", "k")...))
	require.NoError(t, c.Needs(op.Lock(nil, "a", "k")...))
	require.NoError(t, c.Needs(op.Txn(nil, &kv.Txn{Then: []kv.Op{put("a", "k")}})...))
	list, more, err := c.Namespaces(names{"a", "b"}, "", 1)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, list, 1)
}

// names are namespaces as a store lists them, with nothing in them.
type names []string

func (names) View() kv.View { return nothing{} }

type nothing struct{ kv.View }

func (nothing) Revision() kv.Revision         { return 1 }
func (nothing) List(kv.List) (kv.Page, error) { return kv.Page{}, nil }
func (nothing) Close()                        {}

func (n names) Namespaces(after string, limit int) (list []kv.Namespace, more bool) {
	for _, name := range n {
		switch {
		case name <= after:
		case len(list) == limit:
			return list, true
		default:
			list = append(list, kv.Namespace{Name: name})
		}
	}
	return list, false
}

// However many are hidden, those that are not are listed page by page.
func TestNamespacesArePagedByThoseThatMayBeRead(t *testing.T) {
	var all names
	for i := range 5000 {
		all = append(all, fmt.Sprintf("n%06d", i))
	}
	c := guardtest.Caller(t, "read kv:n004000", "read kv:n004002", "read kv:n004998")
	var got []string
	for after, more := "", true; more; {
		list, left, err := c.Namespaces(all, after, 1)
		require.NoError(t, err)
		require.Len(t, list, 1)
		after, more = list[0].Name, left
		got = append(got, after)
	}
	require.Equal(t, []string{"n004000", "n004002", "n004998"}, got)

	for i := range 100_000 {
		all = append(all, fmt.Sprintf("x%06d", i))
	}
	all = append(all, "y")
	list, more, err := guardtest.Caller(t, "read kv:n000000", "read kv:y").Namespaces(all, "", 10)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, list, 1)
	_, _, err = guardtest.Caller(t, "read kv:y").Namespaces(all, "", 10)
	require.Equal(t, codes.TooLarge, codes.Of(err))
	require.ErrorContains(t, err, "more than 100000 namespaces come first that you may not read")
	list, _, err = guardtest.Caller(t, "read kv:y").Namespaces(all, "x000500", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// A row's right is needed for everything, unless the handler asks for each name.
func TestTheRightOfARow(t *testing.T) {
	some, all, none := guardtest.Caller(t, "read kv:a/*"), guardtest.Caller(t, "read kv"), new(guard.Caller)
	for right, want := range map[access.Right][4]bool{
		access.Anyone:       {true, true, true, true},
		access.Nobody:       {true, true, true, true},  // no one acts on it
		access.ReviewRead:   {true, true, true, false}, // the model asks for each thing
		access.ReviewWrite:  {true, true, true, false},
		access.KVRead:       {false, true, true, false},
		access.KVEach:       {false, false, true, false}, // see none below
		access.KVWrite:      {false, false, false, false},
		access.HistoryWrite: {false, false, false, false},
	} {
		got := [4]bool{some.Right(right, false) == nil, all.Right(right, false) == nil, some.Right(right, true) == nil, none.Right(right, false) == nil}
		require.Equal(t, want, got, right)
	}
	for _, right := range []access.Right{access.HistoryWrite, access.StatusProfile} {
		require.ErrorContains(t, guardtest.Caller(t, "* *").Right(right, false), "only administrators may", right)
	}
	require.Error(t, none.Right(access.KVRead, true))
	require.Error(t, none.Right(access.KVEach, true))
	require.NoError(t, guardtest.Caller(t, "* kv").Right(access.KVEach, false))
	require.NoError(t, (&guard.Caller{Who: &access.Identity{Name: "token:a"}}).Right(access.ReviewWrite, false), "the model asks for each thing")
	list, more, err := some.Namespaces(names{"@conf", "a", "b"}, "", 1)
	require.NoError(t, err)
	require.False(t, more, "it is not told that there is another one")
	require.Equal(t, []kv.Namespace{{Name: "a"}}, list)
}
