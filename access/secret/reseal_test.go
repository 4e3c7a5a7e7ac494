package secret_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// files are documents of tests: the text of each, of which some cannot be written.
type files struct {
	k        *kit
	texts    map[string][]byte
	conflict int // how often one is written by another client
	broken   string
	by       []*access.Actor
}

func (f *files) SealedAfter(name string, limit int) (names []string) {
	for one, text := range f.texts {
		if one > name && secret.Has(text) {
			names = append(names, one)
		}
	}
	slices.Sort(names)
	return names[:min(limit, len(names))]
}

func (f *files) CountSealed(name string, uses secret.Uses) { uses.Count(f.texts[name]) }

func (f *files) Reseal(_ context.Context, name string, by *access.Actor) (n int64, err error) {
	f.by = append(f.by, by)
	switch {
	case f.broken == name:
		return 0, codes.Errorf(codes.Storage, "%s: the disk is full", name)
	case f.conflict > 0:
		f.conflict--
		return 0, codes.Errorf(codes.Conflict, "it has changed meanwhile")
	}
	f.texts[name], n = f.k.Ring().Reseal(f.texts[name])
	return n, nil
}

// put writes a key, and returns the entry.
func (k *kit) put(op kv.Op) *kv.Entry {
	res, err := k.store.Txn(k.t.Context(), &kv.Txn{Then: []kv.Op{op}})
	require.NoError(k.t, err)
	return res.Ops[0].Entry
}

func (k *kit) sealKey(ns, key string) kv.Op {
	mark, err := k.Ring().SealTyped(secret.OfKey(ns, key), "string", []byte(`"hunter2"`))
	require.NoError(k.t, err)
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.JSONValue(mark)}
}

// resealAll takes all steps, and adds them up.
func (k *kit) resealAll(between func(step int)) (all secret.Resealed) {
	for q, step := (secret.ResealAsk{}), 0; ; step++ {
		require.Less(k.t, step, 100)
		did, err := k.Reseal(k.t.Context(), zoe, &q)
		require.NoError(k.t, err)
		all.Documents, all.Keys, all.Left, all.Why, all.Newest = all.Documents+did.Documents, all.Keys+did.Keys, all.Left+did.Left, all.Why+did.Why, did.Newest
		if q.From = did.Next; q.From == "" {
			return all
		}
		between(step)
	}
}

// values are how many values each data key seals, the oldest first.
func (k *kit) values() (list []int64) {
	s, err := k.Status(k.t.Context(), nil, &secret.StatusAsk{Uses: true})
	require.NoError(k.t, err)
	for _, key := range s.Keys {
		list = append(list, *key.Values)
	}
	return list
}

func TestEverythingIsSealedAnewStepByStep(t *testing.T) {
	k := newKit(t, "a")
	docs := &files{k: k, texts: map[string][]byte{"plain.json": []byte(`{"n":1}`)}, conflict: 2}
	k.Over(docs)
	for i := range 100 {
		docs.texts[fmt.Sprintf("f%03d.json", i)] = k.sealed()
		k.put(k.sealKey("a/b%", fmt.Sprintf("k/%03d", i)))
		k.put(kv.Op{Kind: kv.OpPut, NS: "a/b%", Key: fmt.Sprintf("plain%d", i), Value: kv.StringValue(`"$secret:v1:x:y:z"`)})
	}
	k.put(k.sealKey("z", "last"))
	k.put(kv.Op{Kind: kv.OpPut, NS: "z", Key: "mixed", Value: kv.JSONValue([]byte(`{"a":` + string(k.sealed()) + `,"b":[` + string(k.sealed()) + `]}`))})
	lease, err := k.store.Txn(t.Context(), &kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: kv.MaxLease}}})
	require.NoError(t, err)
	timed := k.sealKey("z", "timed")
	timed.Expires, timed.Lease = k.clock.Now().UnixMilli()+90_000, lease.Ops[0].Lease.ID
	was := k.put(timed)
	require.Nil(t, k.status().Keys[0].Values, "it is counted only if somebody asks for it")
	require.Equal(t, []int64{204}, k.values())
	require.Equal(t, secret.Resealed{Newest: k.Ring().Newest()}, k.resealAll(func(int) {}), "nothing is older")

	k.give("ba")
	_, err = k.rotate()
	require.NoError(t, err)
	require.Equal(t, []int64{204, 0}, k.values())
	docs.conflict = 2
	steps := 0
	all := k.resealAll(func(step int) {
		if steps = step + 1; step == 2 { // another client goes on as well, and seals by the new key
			k.put(k.sealKey("a/b%", "k/099"))
			k.put(kv.Op{Kind: kv.OpDelete, NS: "a/b%", Key: "k/098"})
		}
	})
	require.Equal(t, secret.Resealed{Newest: k.Ring().Newest(), Documents: 100, Keys: 102, Left: 0}, all)
	require.Greater(t, steps, 2)
	require.Equal(t, []int64{0, 203}, k.values())
	require.Equal(t, "sealed by the data key "+k.Ring().Newest(), docs.by[len(docs.by)-1].Comment)

	now := k.store.Get("z", "timed")
	require.Equal(t, []any{was.Create, was.Expires, was.Lease, was.Version + 1}, []any{now.Create, now.Expires, now.Lease, now.Version}, "it ends as before")
	opened, ok := k.Ring().OpenWhole(now.Value.Data, func(origin string) bool { return origin == "kv:z/timed" })
	require.True(t, ok)
	require.Equal(t, "string", opened.Type)
	require.Equal(t, `"hunter2"`, string(opened.Value))
	text := k.store.Get("a/b%", "plain7")
	require.EqualValues(t, 1, text.Version, "what is not sealed is not written")
	before := now.Mod
	require.Equal(t, secret.Resealed{Newest: k.Ring().Newest()}, k.resealAll(func(int) {}))
	now = k.store.Get("z", "timed")
	require.Equal(t, before, now.Mod, "nothing is written twice")
}

// What cannot be sealed anew is counted, with the reason, and stays as it is.
func TestWhatCannotBeSealedAnewIsTold(t *testing.T) {
	k := newKit(t, "a")
	docs := &files{k: k, texts: map[string][]byte{"bad.json": k.sealed(), "busy.json": k.sealed(), "good.json": k.sealed()}, broken: "bad.json"}
	k.Over(docs)
	k.put(kv.Op{Kind: kv.OpPut, NS: "n", Key: "looks", Value: kv.JSONValue([]byte(`"$secret:v1:other:AAAA:config:a"`))})
	_, err := k.rotate()
	require.NoError(t, err)
	all := k.resealAll(func(int) {})
	require.EqualValues(t, 2, all.Documents)
	require.EqualValues(t, 2, all.Left)
	require.Contains(t, all.Why, "bad.json: the disk is full")
	require.Equal(t, []int64{1, 2}, k.values())
	docs.broken = ""
	all = k.resealAll(func(int) {})
	require.EqualValues(t, 1, all.Documents)
	require.EqualValues(t, 1, all.Left)
	require.Contains(t, all.Why, "look like some")

	for _, from := range []string{"x", "kv:a", "config", "../"} {
		_, err := k.Reseal(t.Context(), zoe, &secret.ResealAsk{From: from})
		require.Equal(t, codes.BadRequest, codes.Of(err), from)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Reseal(done, zoe, &secret.ResealAsk{})
	require.Error(t, err)
	bare := secret.Open(k.store, secret.Config{})
	_, err = bare.Reseal(t.Context(), zoe, &secret.ResealAsk{})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
}

// A step that takes too long ends, but not before it has done something.
func TestAStepEndsWhenItTakesTooLong(t *testing.T) {
	k := newKit(t, "a")
	slow := &racing{InProcess: k.store, before: func() { k.clock.Advance(3 * time.Second) }}
	k.Keys = secret.Open(slow, k.cfg)
	for i := range 4 {
		k.put(k.sealKey("n", fmt.Sprint(i)))
	}
	_, err := k.rotate()
	require.NoError(t, err)
	steps := 0
	require.EqualValues(t, 4, k.resealAll(func(int) { steps++ }).Keys)
	require.Equal(t, 3, steps, "between the steps")
}

// racing is a store on which another client writes just before each transaction.
type racing struct {
	*embedded.InProcess
	before func()
}

// What another client has written while a key is sealed anew stays.
func TestSealingAKeyAnewUndoesNoWrite(t *testing.T) {
	k := newKit(t, "a")
	race := &racing{InProcess: k.store}
	k.Keys = secret.Open(race, k.cfg)
	older := k.sealKey("n", "k")
	_, err := k.rotate()
	require.NoError(t, err)
	for name, before := range map[string]func(){
		"a value":    func() { k.put(kv.Op{Kind: kv.OpPut, NS: "n", Key: "k", Value: kv.StringValue("mine")}) },
		"a deletion": func() { k.put(kv.Op{Kind: kv.OpDelete, NS: "n", Key: "k"}) },
	} {
		k.put(older)
		race.before = before
		all := k.resealAll(func(int) {})
		require.Zero(t, all.Keys, name)
		require.Zero(t, all.Left, name)
		now := k.store.Get("n", "k")
		if now != nil {
			require.Equal(t, "mine", string(now.Value.Data))
		}
	}
	race.before = func() { k.put(older) }
	k.put(older)
	all := k.resealAll(func(int) {})
	require.EqualValues(t, 1, all.Left)
	require.Contains(t, all.Why, "written all the time")
	race.before = nil
	require.EqualValues(t, 1, k.resealAll(func(int) {}).Keys)
}

func (r *racing) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	if r.before != nil && txn.Then[0].NS == "n" {
		r.before()
	}
	return r.InProcess.Txn(ctx, txn)
}
