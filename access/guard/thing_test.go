package guard_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/meta"
	"confcenter/op"
	"confcenter/storage/field"
)

// Names that drawn rules and questions are about, so that they often meet.
var (
	someSpaces = []string{"a", "b", "@mine", "@conf", "@conf/doc", "@storage/1_1", "@landing", "@flow/mine", "@flow/.index", "@bench", "@access", "@review", "@audit", "@audit/lines", ""}
	someKeys   = []string{"k", "k/1", "n", "doc/a.json", "doc/game/b.json", "doc/_access/r.json", "doc/", "doc/game/", ""}
	someFiles  = []string{"a", "a.json", "game/b", "game/b.json", "game/", "_access/r.json", "_access/", "_ACCESS/r", "_acc", "_meta.json", ""}
	someParts  = []string{"1", "2", "bag", ""}
	someRules  = []string{"kv", "kv:a", "kv:a/*", "kv:a/k", "kv:a/k*", "kv:@mine", "config", "config:a.json", "config:game/*", "config:*", "roles", "storage", "storage:1/1", "storage:1/1/bag/*", "storage:1/1/bag/2", "flow", "flow:mine", "bench", "audit", "clients", "status", "*"}
	someVerbs  = []string{"read", "watch", "write", "delete", "history", "lock", "lease", "reveal", "grant", "*"}
)

type drawing struct{ *rand.Rand }

func (d drawing) of(list []string) string { return list[d.IntN(len(list))] }

func (d drawing) flip() bool { return d.IntN(2) == 0 }

func (d drawing) verb() policy.Verb { return 1 << d.IntN(14) }

func (d drawing) caller(t *testing.T) *guard.Caller {
	rules := make([]string, d.IntN(6))
	for i := range rules {
		verb, what := d.of(someVerbs), d.of(someRules)
		name, _, _ := strings.Cut(what, ":")
		v, err := policy.ParseVerb(verb)
		require.NoError(t, err)
		if class, err := policy.ParseClass(name); err == nil && class.Verbs()&v == 0 {
			verb = "*"
		}
		rules[i] = verb + " " + what
		if d.IntN(4) == 0 {
			rules[i] = "-" + rules[i]
		}
	}
	c := guardtest.Caller(t, rules...)
	if d.IntN(8) == 0 {
		c.Who = &access.Identity{Name: "token:a", Groups: []string{access.Administrators}}
		c.Permits = new(policy.Policy).Of(c.Who)
	}
	return c
}

func (d drawing) filter(texts []string) kv.Filter {
	return kv.Filter{NS: d.of(someSpaces), Text: d.of(texts), Exact: d.flip()}
}

func (d drawing) txn() *kv.Txn {
	t := &kv.Txn{}
	for range d.IntN(2) {
		t.Fences = append(t.Fences, kv.Fence{NS: d.of(someSpaces), Key: d.of(someKeys), Token: 1})
	}
	for range d.IntN(2) {
		t.If = append(t.If, kv.Absent(d.of(someSpaces), d.of(someKeys)))
	}
	for _, branch := range [...]*[]kv.Op{&t.Then, &t.Else} {
		for range d.IntN(3) {
			*branch = append(*branch, kv.Op{
				Kind: []kv.OpKind{kv.OpGet, kv.OpPut, kv.OpDelete, kv.OpDeletePrefix, kv.OpIncr, kv.OpGrant, kv.OpRevoke}[d.IntN(7)],
				NS:   d.of(someSpaces), Key: d.of(someKeys), WantPrev: d.flip(), Lease: kv.LeaseID(d.IntN(2)),
			})
		}
	}
	return t
}

func (d drawing) owner() field.Owner {
	return field.Owner{App: d.of(someParts), Region: d.of(someParts), Logic: d.of(someParts), ID: d.of(someParts)}
}

// asked draws a question, and returns what it is about and how the caller is judged for it by name.
func (d drawing) asked(c *guard.Caller) (things []op.Thing, judged error) {
	ns, key, file := d.of(someSpaces), d.of(someKeys), d.of(someFiles)
	v := d.verb()
	switch d.IntN(18) {
	case 0:
		return []op.Thing{op.Key(v, ns, key)}, c.Key(v, []byte(ns), []byte(key))
	case 1:
		return []op.Thing{op.Key(v, []byte(ns), []byte(key))}, c.Key(v, []byte(ns), []byte(key))
	case 2:
		return op.Past(nil, ns, key), c.History(ns, key)
	case 3:
		return op.Lock(nil, ns, key), c.Lock(ns, key)
	case 4:
		return []op.Thing{op.Keys(policy.Read, op.Any, ns, key)}, c.List(&kv.List{NS: ns, Prefix: key})
	case 5:
		return []op.Thing{op.Keys(v, op.Every, ns, key)}, c.Keys(v, ns, key)
	case 6:
		f := d.filter(someKeys)
		return op.Watch(nil, f), c.Watch(f)
	case 7, 8, 9:
		t := d.txn()
		return op.Txn(nil, t), c.Txn(t)
	case 10:
		return []op.Thing{op.Document(v, file)}, c.Asked(v, []byte(file))
	case 11:
		return op.PastOf(nil, file), c.Past(meta.Complete(file))
	case 12:
		deletes := d.flip()
		return op.Change(nil, file, deletes), c.Change(meta.Complete(file), deletes)
	case 13:
		f := d.filter(someFiles)
		if f.Exact {
			f.Text = meta.Complete(f.Text)
		}
		return op.WatchDocuments(nil, f), c.WatchDocuments(f)
	case 14:
		o := d.owner()
		return []op.Thing{op.Owner(v, o.App, o.Region, o.Logic, o.ID)}, c.OwnerOf(v, o)
	case 15:
		o := d.owner()
		return []op.Thing{op.Owners(policy.Read, o.App, o.Region, o.Logic)}, c.Owners(o.App, o.Region, o.Logic)
	case 16:
		w := &field.Write{Owner: d.owner(), Kind: []field.Kind{field.Update, field.Incr, field.Remove, field.Restore}[d.IntN(4)], WantPrev: d.flip()}
		return op.Fields(nil, w), c.Fields(w)
	default:
		scope := strings.TrimPrefix(ns, kv.FlowPrefix)
		return []op.Thing{op.Scope(v, scope)}, c.Scope(v, scope)
	}
}

// What a question is about decides as asking for each name does, to the letter: of a million questions.
func TestThingsDecideAsNamesDo(t *testing.T) {
	d := drawing{rand.New(rand.NewPCG(1, rand.Uint64()))}
	allowed, refused := 0, 0
	questions := 1_000_000
	if testing.Short() {
		questions /= 10
	}
	for range questions / 1000 {
		c := d.caller(t)
		for range 1000 {
			things, judged := d.asked(c)
			got := c.All(things)
			if judged == nil {
				allowed++
				require.NoError(t, got, "%+v", things)
				continue
			}
			refused++
			require.EqualError(t, got, judged.Error(), "%+v", things)
			var denied, want *access.Denial
			require.Equal(t, errors.As(judged, &want), errors.As(got, &denied))
			require.Equal(t, want, denied, "what the audit is told")
		}
	}
	require.Greater(t, allowed, questions/20)
	require.Greater(t, refused, questions/20)
}

// The nil caller is asked for nothing, and a question that is in memory is judged without any allocation.
func TestThingsTakeNoMemory(t *testing.T) {
	require.NoError(t, (*guard.Caller)(nil).All([]op.Thing{op.AllKeys(policy.Watch)}))
	c := guardtest.Caller(t, "read kv:a/*", "read storage:1/1/*", "read config:game/*")
	ns, key, file, id := []byte("a"), []byte("k"), []byte("game/b"), []byte("1")
	var room [4]op.Thing
	require.Zero(t, testing.AllocsPerRun(100, func() {
		things := append(room[:0], op.Key(policy.Read, ns, key), op.Document(policy.Read, file), op.Owner(policy.Read, id, id, id, id))
		if err := c.All(things); err != nil {
			t.Fatal(err)
		}
	}))
}
