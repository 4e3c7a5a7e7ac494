package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/player/field"
)

func TestThingsHaveTheirNamesAndWhoPaysForThem(t *testing.T) {
	const read = policy.Read
	for _, c := range []struct {
		thing           op.Thing
		name, namespace string
	}{
		{op.Key(read, "n", "k"), "n\x00k", "n"},
		{op.Key(read, []byte("n"), []byte("k")), "n\x00k", "n"},
		{op.Keys(read, op.Every, "n", ""), "n\x00", "n"},
		{op.AllKeys(read), "", ""},
		{op.Leases("n"), "n", "n"},
		{op.Leases(""), "", ""},
		{op.Document(read, "a"), "a", ""},
		{op.Documents(read, "game/"), "game/", ""},
		{op.Owner(read, "1", "2", "bag", "7"), "1\x002\x00bag\x007", field.Owner{App: "1", Region: "2"}.Namespace()},
		{op.Owner(read, []byte("a b"), []byte("2"), []byte("bag"), []byte("7")), "a b\x002\x00bag\x007", field.Owner{App: "a b", Region: "2"}.Namespace()},
		{op.Owners(read, "1", "2", ""), "1\x002\x00", field.Owner{App: "1", Region: "2"}.Namespace()},
		{op.Owners(read, "1", "2", "bag"), "1\x002\x00bag\x00", field.Owner{App: "1", Region: "2"}.Namespace()},
		{op.Scope(read, "cl"), "cl", kv.FlowPrefix + "cl"},
		{op.Whole(read, policy.Bench), "", kv.BenchNamespace},
		{op.Client(read, "app"), "app", ""},
	} {
		require.Equal(t, c.name, string(c.thing.AppendName(nil)), "%+v", c.thing)
		require.Equal(t, "+"+c.namespace, string(c.thing.AppendNamespace([]byte("+"))), "%+v", c.thing)
	}
}

func TestThingsOfOneNamespace(t *testing.T) {
	list := []op.Thing{
		op.Key(policy.Read, "n", "k"), op.Key(policy.Read, "m", "k"), op.Scope(policy.Read, "n"),
		op.Owner(policy.Read, "1", "1", "bag", "7"), op.Owner(policy.Read, "1", "2", "bag", "7"),
	}
	for i := range list {
		for j := range list {
			require.Equal(t, i == j, list[i].SameNamespace(&list[j]), "%d %d", i, j)
		}
	}
	other := op.Keys(policy.Write, op.Every, "n", "")
	require.True(t, list[0].SameNamespace(&other))
}

func TestWhatChangesAThing(t *testing.T) {
	for _, v := range []policy.Verb{policy.Write, policy.Delete, policy.Lock, policy.Lease, policy.Land, policy.Grant} {
		thing := op.Key(v, "n", "k")
		require.True(t, thing.Changes(), v.String())
	}
	for _, v := range []policy.Verb{policy.Read, policy.Watch, policy.History, policy.Reveal} {
		thing := op.Key(v, "n", "k")
		require.False(t, thing.Changes(), v.String())
	}
}

// An increment tells values by its bounds, an operation with prev those before, a compare by whether it holds.
func TestATransactionIsAboutAllThatItTells(t *testing.T) {
	txn := &kv.Txn{
		Fences: []kv.Fence{{NS: "l", Key: "lock"}},
		If:     []kv.Compare{kv.Absent("c", "k")},
		Then:   []kv.Op{{Kind: kv.OpIncr, NS: "i", Key: "k"}, {Kind: kv.OpPut, NS: "p", Key: "k", Lease: 1}, {Kind: kv.OpDeletePrefix, NS: "d", Key: "x"}},
		Else:   []kv.Op{{Kind: kv.OpDelete, NS: "d", Key: "k", WantPrev: true}, {Kind: kv.OpGrant, NS: "g"}, {Kind: kv.OpGet, NS: "r", Key: "k"}},
	}
	require.Equal(t, []op.Thing{
		op.Key(policy.Lock, "l", "lock"), op.Key(policy.Read, "l", "lock"),
		op.Key(policy.Read, "c", "k"),
		op.Key(policy.Write, "i", "k"), op.Key(policy.Read, "i", "k"),
		op.Key(policy.Write, "p", "k"), op.Key(policy.Lease, "p", "k"),
		op.Keys(policy.Delete, op.Every, "d", "x"),
		op.Key(policy.Delete, "d", "k"), op.Key(policy.Read, "d", "k"),
		op.Leases("g"),
		op.Key(policy.Read, "r", "k"),
	}, op.Txn(nil, txn))
}
