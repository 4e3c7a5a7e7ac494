package host_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/op"
	"confcenter/server/host"
)

// Two hosts on one state are two servers on one: none may rely on what only it remembers. What happens between
// that one judges and that it writes, the other does.

// between is the state as one of the hosts sees it.
type between struct {
	*memory.Store
	meanwhile atomic.Pointer[moment]
}

// moment is what another host does before a transaction is handed over.
type moment struct {
	before func(*kv.Txn) bool
	do     func()
	once   sync.Once
}

func (b *between) come(txn *kv.Txn) {
	if m := b.meanwhile.Load(); m != nil && m.before(txn) {
		m.once.Do(m.do)
	}
}

// Commit implements kv.Store.
func (b *between) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	b.come(txn)
	return b.Store.Commit(txn, done)
}

// CommitEach implements kv.Store.
func (b *between) CommitEach(caller kv.Caller, writes []*kv.Write) (int, error) {
	b.come(writes[0].Txn)
	return b.Store.CommitEach(caller, writes)
}

// before has something done before a transaction that puts a key with a prefix.
func (b *between) before(prefix string, do func()) {
	b.meanwhile.Store(&moment{do: do, before: func(txn *kv.Txn) bool { return puts(txn, prefix) }})
}

func puts(txn *kv.Txn, prefix string) bool {
	for i := range txn.Then {
		if o := &txn.Then[i]; o.Kind == kv.OpPut && strings.HasPrefix(o.Key, prefix) {
			return true
		}
	}
	return false
}

// rules are access control without settings.
type rules struct{ *policy.Policy }

func (r rules) MayOf(id *access.Identity) op.May {
	return (&guard.Caller{Permits: r.Of(id), Who: id}).May()
}

func (rules) Vouches(*access.Identity) bool { return true }

// pair is two hosts on one state, with access control.
type pair struct {
	t    *testing.T
	at   *between // of a
	a, b *host.Host
}

func two(t *testing.T, cfg host.Config) *pair {
	p := &pair{t: t, at: &between{Store: memory.ForTest(t)}}
	p.a, p.b = p.open(p.at, cfg), p.open(p.at.Store, cfg)
	return p
}

func (p *pair) open(store kv.Archive, cfg host.Config) *host.Host {
	role, err := policy.ParseRole("all", []byte(`{"approval": ["kv:live/*"], "rules": [{"who": ["token:*"], "allow": ["*"], "what": ["roles", "kv:live", "kv:free"]}]}`))
	require.NoError(p.t, err)
	r := rules{policy.New(role)}
	h := host.Open(store, cfg)
	p.t.Cleanup(h.Close)
	h.Tokens().Obey(r)
	h.Reviews().Obey(r)
	return h
}

func by(name string) *access.Actor {
	return &access.Actor{Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: &access.Identity{Name: "token:" + name}}
}

func (p *pair) token(h *host.Host, who, name string) error {
	_, err := h.Tokens().Make(p.t.Context(), by(who), &token.MakeAsk{Name: name})
	return err
}

func TestTwoHostsGiveANameToOne(t *testing.T) {
	p := two(t, host.Config{})
	p.at.before("token/", func() { require.NoError(t, p.token(p.b, "ann", "deploy")) })
	require.Equal(t, codes.Forbidden, codes.Of(p.token(p.a, "bob", "deploy")))
	require.NoError(t, p.token(p.a, "bob", "other"))
}

func TestTwoHostsHaveOneLimitOfTokens(t *testing.T) {
	p := two(t, host.Config{Auth: token.Config{MaxTokens: 1}})
	p.at.before("token/", func() { require.NoError(t, p.token(p.b, "ann", "a")) })
	require.Equal(t, codes.Limit, codes.Of(p.token(p.a, "bob", "b")))
}

func TestTwoHostsHaveOneLimitOfSessions(t *testing.T) {
	p := two(t, host.Config{Auth: token.Config{Sessions: token.SessionLimits{Most: 2, Each: 1}}})
	begin := func(h *host.Host, name string) error {
		_, err := h.Tokens().OpenSession(t.Context(), by(name), token.Start{Who: by(name).Identity})
		return err
	}
	open := func() int {
		all, err := p.a.Tokens().Sessions(t.Context(), nil, &token.SessionsAsk{})
		require.NoError(t, err)
		return len(all.Sessions)
	}
	p.at.before("session/", func() { require.NoError(t, begin(p.b, "ann")) })
	require.NoError(t, begin(p.a, "ann"))
	require.Equal(t, 1, open(), "that of before gives way")
	p.at.before("session/", func() { require.NoError(t, begin(p.b, "bob")) })
	require.Equal(t, codes.Limit, codes.Of(begin(p.a, "eve")))
	require.Equal(t, 2, open())
}

// What was asked for in a session that is ended counts for nothing, however many end at once.
func TestTwoHostsForgetNoSessionThatWasEnded(t *testing.T) {
	p := two(t, host.Config{})
	var who [2]*access.Identity
	var ids [2]string
	for i := range ids {
		s, err := p.a.Tokens().OpenSession(t.Context(), by("ann"), token.Start{Who: &access.Identity{Name: "person:ann"}})
		require.NoError(t, err)
		who[i], ids[i] = s.Who, s.ID
	}
	end := func(h *host.Host, id string) {
		_, err := h.Tokens().End(t.Context(), by("root"), &token.EndAsk{ID: id})
		require.NoError(t, err)
	}
	p.at.before("ended/", func() { end(p.b, ids[1]) })
	end(p.a, ids[0])
	for _, id := range who {
		require.Nil(t, p.b.Tokens().Renewed(id))
	}
}
