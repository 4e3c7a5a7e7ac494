package token_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
)

type kit struct {
	*token.Tokens
	store kv.Store
	clock *clocktest.Fake
}

// What can be asked of the model can be asked of it over the wire.
var _ = [...]asked{(*token.Tokens)(nil), wire{}}

var zoe = &access.Actor{Origin: access.OverHTTP, Address: "10.0.0.1:5"}

func open(t *testing.T, cfg token.Config) *kit {
	fake := clocktest.NewFake(time.UnixMilli(1_000_000))
	engine := memory.New(memory.Config{Clock: fake})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	store := embedded.New(engine, nil)
	t.Cleanup(store.Close)
	cfg.Clock = fake
	return &kit{token.Open(store, cfg), engine, fake}
}

func (k *kit) made(t *testing.T, q token.MakeAsk) *token.Made {
	made, err := k.Make(t.Context(), zoe, &q)
	require.NoError(t, err)
	return made
}

func (k *kit) listed(t *testing.T) []token.Token {
	answer, err := k.List(t.Context(), nil, &token.ListAsk{})
	require.NoError(t, err)
	return answer.Tokens
}

// TestATokenIsRevokedThoughTheDiskIsFull: with its name, which stays taken, while nothing else is written.
func TestATokenIsRevokedThoughTheDiskIsFull(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1"})
	k.store.(*memory.Store).SetFull(true)
	_, err := k.Make(t.Context(), zoe, &token.MakeAsk{Name: "game-2"})
	require.Equal(t, codes.Storage, codes.Of(err))
	_, err = k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)
	refused(t, k, made.Text)
	e, _ := k.store.Get([]byte("@access"), []byte("name/game-1"))
	require.NotNil(t, e, "the name stays taken")
}

func refused(t *testing.T, k *kit, text string) {
	t.Helper()
	who, id, err := k.Verify(text)
	require.Nil(t, who)
	require.Empty(t, id)
	require.Equal(t, codes.NotIdentified, codes.Of(err), text)
}

func TestATokenSaysWhoseItIs(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1", Groups: []string{"games"}})
	require.Regexp(t, `^cct_[0-9a-f]{16}_[\w-]{43}$`, made.Text)
	who, id, err := k.Verify(made.Text)
	require.NoError(t, err)
	require.Equal(t, &access.Identity{Name: "token:game-1", Groups: []string{"games"}, Token: made.ID}, who)
	require.Equal(t, made.ID, id)
	require.True(t, k.Valid(id))
	require.NotEqual(t, made.Text, k.made(t, token.MakeAsk{Name: "game-1"}).Text)
}

func TestWhatIsNoTokenIsRefusedAlike(t *testing.T) {
	k := open(t, token.Config{})
	text := k.made(t, token.MakeAsk{Name: "game-1"}).Text
	other := k.made(t, token.MakeAsk{Name: "game-2"}).Text
	last := "A"
	if strings.HasSuffix(text, last) {
		last = "B"
	}
	for _, wrong := range []string{
		"", "cct_", text[:len(text)-1], text + "A", text[4:], text[:20], strings.ToUpper(text), text[:len(text)-1] + last,
		text[:21] + other[21:], other[:21] + text[21:], "cct_" + strings.Repeat("/", 16) + text[20:], text + "\x00",
	} {
		refused(t, k, wrong)
	}
	_, _, err := k.Verify(text)
	require.NoError(t, err)
}

// What is stolen with a backup is of no use.
func TestTheTextOfATokenIsNotKept(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1"})
	view := k.store.View()
	defer view.Close()
	page, err := view.List(kv.List{NS: kv.AccessNamespace})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2, "the token, and that it was made")
	for _, e := range page.Entries {
		require.NotContains(t, string(e.Value.Data), made.Text[21:])
	}
	_, err = kv.Commit(t.Context(), k.store, kv.PutTxn(kv.AccessNamespace, "token/"+made.ID, kv.Value{Type: kv.String}))
	require.Equal(t, codes.Reserved, codes.Of(err))
}

func TestARevokedTokenIsOfNoUse(t *testing.T) {
	k := open(t, token.Config{})
	made, stays := k.made(t, token.MakeAsk{Name: "game-1"}), k.made(t, token.MakeAsk{Name: "game-1"})
	answer, err := k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)
	require.Equal(t, int64(k.store.Revision()), answer.Revision)
	refused(t, k, made.Text)
	require.False(t, k.Valid(made.ID))
	require.True(t, k.Valid(stays.ID))
	for _, id := range []string{made.ID, "nothing"} {
		_, err = k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: id})
		require.Equal(t, codes.NotFound, codes.Of(err), id)
	}
	_, err = k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: made.Text})
	require.Equal(t, codes.NotFound, codes.Of(err))
	require.ErrorContains(t, err, "between the underscores")
	require.NotContains(t, err.Error(), made.ID)
	_, err = k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: "\x00"})
	require.Equal(t, codes.BadKey, codes.Of(err))
}

func TestATokenExpires(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1", TTL: 1000})
	require.Equal(t, k.clock.Now().UnixMilli()+1000, made.Expires)
	k.clock.Advance(999 * time.Millisecond)
	_, _, err := k.Verify(made.Text)
	require.NoError(t, err)
	k.clock.Advance(time.Millisecond)
	refused(t, k, made.Text)
	require.Empty(t, k.listed(t))
}

// A token has been given a time, which runs on whatever the time of day is set to.
func TestSettingTheClockMovesNoTokensEnd(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		k := open(t, token.Config{})
		made := k.made(t, token.MakeAsk{Name: "game-1", TTL: 60_000})
		k.clock.Step(step)
		k.clock.Advance(60*time.Second - time.Millisecond)
		_, _, err := k.Verify(made.Text)
		require.NoError(t, err, "%s", step)
		require.Len(t, k.listed(t), 1)
		k.clock.Advance(time.Millisecond)
		refused(t, k, made.Text)
	}
}

func TestTokensAreListed(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1", Groups: []string{"games"}, TTL: 60_000})
	require.Equal(t, []token.Token{{ID: made.ID, Name: "game-1", Groups: []string{"games"}, Made: 1_000_000, By: "http 10.0.0.1:5", Expires: made.Expires}}, k.listed(t))
	proved := *zoe
	proved.Name, proved.Identity = "confcenter", &access.Identity{Name: "token:zoe"}
	byName, err := k.Make(t.Context(), &proved, &token.MakeAsk{Name: "game-2"})
	require.NoError(t, err)
	require.Contains(t, []string{k.listed(t)[0].By, k.listed(t)[1].By}, "token:zoe")
	all := map[string]bool{made.ID: true, byName.ID: true}
	for range 3 {
		all[k.made(t, token.MakeAsk{Name: "game-2"}).ID] = true
	}
	q := token.ListAsk{Limit: 2}
	for pages := 1; ; pages++ {
		answer, err := k.List(t.Context(), nil, &q)
		require.NoError(t, err)
		for _, token := range answer.Tokens {
			require.True(t, all[token.ID])
			delete(all, token.ID)
		}
		if q.After = answer.Next; q.After == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Empty(t, all)
	_, err = k.List(t.Context(), nil, &token.ListAsk{Limit: -1})
	require.Equal(t, codes.BadRequest, codes.Of(err))
}

func TestTheLastUseIsToldAndKept(t *testing.T) {
	k := open(t, token.Config{})
	made := k.made(t, token.MakeAsk{Name: "game-1"})
	gone := k.made(t, token.MakeAsk{Name: "game-2"})
	k.clock.Advance(time.Minute)
	for _, text := range []string{made.Text, gone.Text} {
		_, _, err := k.Verify(text)
		require.NoError(t, err)
	}
	used := k.clock.Now().UnixMilli()
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan string, 10)
	defer k.store.Follow(func(b *kv.Batch) {
		for _, change := range b.Changes {
			for _, e := range change.Events {
				if e.Kind == kv.Put && strings.HasPrefix(e.Entry.Key, "used/") {
					kept <- e.Entry.Key
				}
			}
		}
	})()
	idle := k.clock.Waiters()
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	_, err := k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: gone.ID})
	require.NoError(t, err)
	k.clock.BlockUntil(idle + 2) // the name of the token that is gone ends some time, too
	k.clock.Advance(time.Hour)
	require.Equal(t, "used/"+made.ID, <-kept)
	k.clock.BlockUntil(idle + 2) // the round is over
	e, _ := k.store.Get([]byte(kv.AccessNamespace), []byte("used/"+gone.ID))
	require.Nil(t, e)
	require.Equal(t, used, k.listed(t)[0].Used)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestTokensHaveLimits(t *testing.T) {
	k := open(t, token.Config{MaxTokens: 2})
	for want, q := range map[string]token.MakeAsk{
		`"token:" names no one`: {},
		"the limit is 512":      {Name: strings.Repeat("n", policy.MaxName)},
		"a name has no *":       {Name: "game-*"},
		"no control characters": {Name: "a\nb"},
		"there are 65 groups":   {Name: "a", Groups: make([]string, 65)},
		"the group ":            {Name: "a", Groups: []string{""}},
		`"a, approved by b"`:    {Name: "a, approved by b"},
		`the group "a,b"`:       {Name: "a", Groups: []string{"a,b"}},
		`the group "a "`:        {Name: "a", Groups: []string{"a "}},
		"out of range":          {Name: "a", TTL: -1},
	} {
		_, err := k.Make(t.Context(), zoe, &q)
		require.ErrorContains(t, err, want)
	}
	first := k.made(t, token.MakeAsk{Name: "a"})
	k.made(t, token.MakeAsk{Name: "b"})
	_, err := k.Make(t.Context(), zoe, &token.MakeAsk{Name: "c"})
	require.Equal(t, codes.Limit, codes.Of(err))
	_, err = k.Revoke(t.Context(), zoe, &token.RevokeAsk{ID: first.ID})
	require.NoError(t, err)
	k.made(t, token.MakeAsk{Name: "c"})
}

func FuzzVerify(f *testing.F) {
	f.Add("cct_0123456789abcdef_" + strings.Repeat("A", 43))
	engine := memory.New(memory.Config{})
	f.Cleanup(func() { _ = engine.Close() })
	store := embedded.New(engine, nil)
	f.Cleanup(store.Close)
	tokens := token.Open(store, token.Config{})
	made, err := tokens.Make(context.Background(), nil, &token.MakeAsk{Name: "a"})
	require.NoError(f, err)
	f.Add(made.Text)
	f.Fuzz(func(t *testing.T, text string) {
		_, _, err := tokens.Verify(text)
		require.Equal(t, text == made.Text, err == nil)
	})
}
