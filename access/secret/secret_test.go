package secret_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
	"confcenter/op"
)

// What can be asked of the model can be asked of it over the wire.
var _ = [...]asked{(*secret.Keys)(nil), wire{}}

var zoe = &access.Actor{Origin: access.OverHTTP, Address: "10.0.0.1:5"}

// kit has data keys, and the secret keys that are given for them.
type kit struct {
	*secret.Keys
	t     *testing.T
	store *embedded.InProcess
	clock *clocktest.Fake
	log   strings.Builder
	given atomic.Pointer[string]
	cfg   secret.Config
}

// text is a list of secret keys, one for each letter.
func text(letters string) string {
	var b strings.Builder
	for _, letter := range letters {
		b.WriteString(hex.EncodeToString([]byte(strings.Repeat(string(letter), secret.KeyBytes))) + "\n")
	}
	return b.String()
}

func newKit(t *testing.T, letters string) *kit {
	k := &kit{t: t, clock: clocktest.NewFake(time.UnixMilli(1_000_000))}
	engine := memory.New(memory.Config{Clock: k.clock})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	k.store = embedded.New(engine, nil)
	t.Cleanup(k.store.Close)
	k.give(letters)
	k.cfg = secret.Config{Clock: k.clock, Every: time.Second, Namespaces: engine.Namespaces, Log: zerolog.New(&k.log), Source: func(context.Context) (*secret.Wrapping, error) {
		if text := *k.given.Load(); text != "" {
			return secret.Parse(text)
		}
		return nil, errors.New("the file is not there")
	}}
	k.open()
	return k
}

// give is what the next look at the secret keys finds; "" is an error.
func (k *kit) give(letters string) {
	given := text(letters)
	k.given.Store(&given)
}

func (k *kit) open() { k.Keys = secret.Open(k.store, k.cfg) }

func (k *kit) status() *secret.Status {
	s, err := k.Status(k.t.Context(), nil, &secret.StatusAsk{})
	require.NoError(k.t, err)
	return s
}

func (k *kit) rotate() (*secret.Rotated, error) {
	return k.Rotate(k.t.Context(), zoe, &secret.RotateAsk{})
}

func (k *kit) sealed() []byte {
	mark, err := k.Ring().Seal("config:a.json", []byte(`{"$seal":"hunter2"}`))
	require.NoError(k.t, err)
	return mark
}

func (k *kit) opens(mark []byte) bool {
	return string(k.Ring().AppendRevealed(nil, mark, func(string) bool { return true })) == `"hunter2"`
}

func TestTheFirstStartWithASecretKeyMakesADataKeyThatOutlivesIt(t *testing.T) {
	k := newKit(t, "a")
	require.NoError(t, k.Trouble())
	s := k.status()
	require.Len(t, s.Keys, 1)
	require.Equal(t, s.Keys[0].ID, s.Newest)
	require.EqualValues(t, 1_000_000, s.Keys[0].Made)
	mark := k.sealed()
	require.True(t, k.opens(mark))
	k.open()
	require.Equal(t, s, k.status(), "no other one is made")
	require.True(t, k.opens(mark))
	require.Empty(t, k.log.String())

	page, err := k.store.List(kv.List{NS: kv.AccessNamespace})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2, "the data key, and which was made last")
}

func TestWithoutASecretKeyNothingIsSealed(t *testing.T) {
	k := newKit(t, "a")
	mark := k.sealed()
	k.cfg.Source = nil
	k.open()
	require.ErrorContains(t, k.Trouble(), "--secret-key-file")
	require.False(t, k.opens(mark))
	require.False(t, k.status().Seals)
	_, err := k.rotate()
	require.Equal(t, codes.NotImplemented, codes.Of(err))

	fresh := newKit(t, "a")
	fresh.cfg.Source = nil
	fresh.store = embedded.New(memory.New(memory.Config{}), nil)
	fresh.open()
	require.NoError(t, fresh.Trouble(), "whoever seals nothing has no trouble")
}

func TestAWrongSecretKeyIsToldAndSealsNothing(t *testing.T) {
	k := newKit(t, "a")
	mark := k.sealed()
	k.give("b")
	k.open()
	require.ErrorContains(t, k.Trouble(), "was not given")
	require.False(t, k.opens(mark))
	require.False(t, k.Ring().Seals())
	require.Equal(t, k.Trouble().Error(), k.status().Trouble)
	require.Contains(t, k.log.String(), "was not given")
	_, err := k.rotate()
	require.Error(t, err)
	require.Len(t, k.status().Keys, 1, "no other one is made in place of the one that cannot be opened")

	k.give("ab")
	_, err = k.rotate()
	require.NoError(t, err)
	require.NoError(t, k.Trouble())
	require.True(t, k.opens(mark))
	require.Contains(t, k.log.String(), "is over")
}

// With some of the secret keys some values can be revealed, but none are sealed.
func TestWhatCanBeOpenedIsRevealed(t *testing.T) {
	k := newKit(t, "a")
	first := k.sealed()
	raw, err := k.store.List(kv.List{NS: kv.AccessNamespace})
	require.NoError(t, err)
	w, err := secret.Parse(text("b"))
	require.NoError(t, err)
	other := secret.NewDataKey(k.clock.Now())
	wrapped := w.Wrap(&other)
	put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: "secret/" + other.ID, Value: kv.JSONValue([]byte(`{"by":"` + wrapped.By + `","key":"` + wrapped.Key + `","made":5}`))}
	_, err = k.store.Txn(t.Context(), &kv.Txn{Then: []kv.Op{put}})
	require.NoError(t, err)
	k.open()
	require.Error(t, k.Trouble())
	require.True(t, k.opens(first))
	require.False(t, k.Ring().Seals())
	require.Len(t, raw.Entries, 2)
}

func TestTheSecretKeyIsReplacedWithoutARestart(t *testing.T) {
	k := newKit(t, "a")
	mark, before := k.sealed(), k.status()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	defer func() { cancel(); require.ErrorIs(t, <-done, context.Canceled) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		require.Eventually(t, func() bool { k.clock.Advance(time.Second); return ok() }, 10*time.Second, time.Millisecond, what)
	}

	k.give("b") // by mistake without the old one
	until("the trouble", func() bool { return k.Trouble() != nil })
	require.True(t, k.opens(mark), "what is open stays")
	require.NotEmpty(t, k.sealed())

	k.give("ba")
	until("the new one", func() bool { return k.Trouble() == nil && k.status().Keys[0].By != before.Keys[0].By })
	require.Equal(t, before.Newest, k.status().Newest, "data keys are the same")
	require.True(t, k.opens(mark))

	k.give("b")
	until("the look", func() bool { return k.Trouble() == nil })
	k.give("")
	until("the trouble", func() bool { return k.Trouble() != nil })
	require.True(t, k.opens(mark))
	k.give("b")
	until("the end of it", func() bool { return k.Trouble() == nil })
}

// There can be only so many data keys, and none is ever removed.
func TestOnlyAdministratorsRotateDataKeys(t *testing.T) {
	k := newKit(t, "a")
	by := func(groups ...string) *access.Actor {
		return &access.Actor{Identity: &access.Identity{Name: "token:lead", Groups: groups}}
	}
	_, err := k.Rotate(t.Context(), by("leads"), &secret.RotateAsk{})
	require.Equal(t, codes.Forbidden, codes.Of(err))
	require.Len(t, k.status().Keys, 1)
	_, err = k.Rotate(t.Context(), by(access.Administrators), &secret.RotateAsk{})
	require.NoError(t, err)
	require.Len(t, k.status().Keys, 2)
}

func TestARotatedDataKeySealsAndTheOldOnesGoOnOpening(t *testing.T) {
	k := newKit(t, "a")
	old := k.sealed()
	k.cfg.Clock = clocktest.NewFake(time.UnixMilli(5)) // back
	k.open()
	rotated, err := k.rotate()
	require.NoError(t, err)
	next := k.sealed()
	require.Contains(t, string(next), rotated.Newest)
	require.NotContains(t, string(old), rotated.Newest)
	for range 2 {
		require.True(t, k.opens(old) && k.opens(next))
		s := k.status()
		require.Equal(t, rotated.Newest, s.Newest)
		require.Len(t, s.Keys, 2)
		k.open()
	}
	require.Positive(t, rotated.Revision)
	used, err := k.Used(t.Context())
	require.NoError(t, err)
	require.Equal(t, []op.Used{{What: "data keys", N: 2, Limit: secret.MaxKeys}}, used)
}

func TestThereIsALimitOfDataKeys(t *testing.T) {
	k := newKit(t, "a")
	w, err := secret.Parse(text("a"))
	require.NoError(t, err)
	for range secret.MaxKeys - 1 {
		d := secret.NewDataKey(time.UnixMilli(7))
		wrapped := w.Wrap(&d)
		put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: "secret/" + d.ID, Value: kv.JSONValue([]byte(`{"by":"` + wrapped.By + `","key":"` + wrapped.Key + `","made":7}`))}
		_, err := k.store.Txn(t.Context(), &kv.Txn{Then: []kv.Op{put}})
		require.NoError(t, err)
	}
	_, err = k.rotate()
	require.Equal(t, codes.Limit, codes.Of(err))
}

// Nothing that is kept or told has a key or what was sealed by one.
func TestNoKeyIsKeptOrTold(t *testing.T) {
	k := newKit(t, "a")
	_, err := k.rotate()
	require.NoError(t, err)
	k.give("b")
	k.open()
	page, err := k.store.List(kv.List{NS: kv.AccessNamespace})
	require.NoError(t, err)
	all := k.log.String() + k.status().Trouble
	for _, e := range page.Entries {
		all += string(e.Value.Data)
	}
	require.NotContains(t, all, strings.TrimSpace(text("a"))[:16])
	require.NotContains(t, all, "aaaaaaaa")
}
