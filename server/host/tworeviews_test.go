package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/server/host"
)

// known is an actor who has a token, without whom nothing that they ask for is approved.
func (p *pair) known(name string, groups ...string) *access.Actor {
	_, err := p.b.Tokens().Make(p.t.Context(), nil, &token.MakeAsk{Name: name, Groups: groups})
	require.NoError(p.t, err)
	who := by(name)
	who.Identity.Groups = groups
	return who
}

func (p *pair) hold(h *host.Host, on review.Engine, who, key string) (number int64) {
	put := kv.Op{Kind: kv.OpPut, NS: "live", Key: key, Value: kv.StringValue("x")}
	_, err := kv.Commit(p.t.Context(), h.Reviews().Guard(on), &kv.Txn{Actor: by(who), Then: []kv.Op{put}})
	held := (*access.Held)(nil)
	require.ErrorAs(p.t, err, &held)
	return held.Number
}

func (p *pair) shown(h *host.Host, number int64) *review.Shown {
	answer, err := h.Reviews().Show(p.t.Context(), by("eve"), &review.ShowAsk{Number: number})
	require.NoError(p.t, err)
	return answer
}

func TestTwoHostsGiveEachNumberOnce(t *testing.T) {
	p := two(t, host.Config{})
	require.EqualValues(t, 1, p.hold(p.a, p.at, "ann", "a"))
	require.EqualValues(t, 2, p.hold(p.b, p.at.Store, "bob", "b"))
	p.at.before("change/", func() { require.EqualValues(t, 3, p.hold(p.b, p.at.Store, "bob", "c")) })
	require.EqualValues(t, 4, p.hold(p.a, p.at, "ann", "d"))
	for number, key := range map[int64]string{1: "a", 2: "b", 3: "c", 4: "d"} {
		require.Equal(t, []string{"kv:live/" + key}, p.shown(p.a, number).Things)
	}
}

// A number that another host has given, and that is forgotten by now, is not given again.
func TestANumberIsNotGivenAgainThoughItsChangeIsForgotten(t *testing.T) {
	p := two(t, host.Config{Review: review.Config{Keep: time.Millisecond}})
	require.EqualValues(t, 1, p.hold(p.b, p.at.Store, "bob", "a"))
	gone := func() bool {
		e, _ := p.at.Get([]byte(kv.ReviewNamespace), []byte("change/0000000000000001"))
		return e == nil
	}
	require.Eventually(t, gone, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 2, p.hold(p.a, p.at, "ann", "b"))
}

// mailbox is where the outcomes of transactions come in.
type mailbox chan []*kv.Write

func (m mailbox) Committed(writes []*kv.Write) { m <- writes }

// A change that another host has overtaken is handed over again, and takes none of the others with it.
func TestTwoHostsAnswerEachOfSeveral(t *testing.T) {
	p := two(t, host.Config{})
	write := func(ns, key string, min int64) *kv.Write {
		return &kv.Write{Txn: &kv.Txn{Actor: by("ann"), If: []kv.Compare{kv.Absent("free", "no")}, Then: []kv.Op{{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue("x")}},
			Else: []kv.Op{{Kind: kv.OpIncr, NS: "free", Key: "n", Delta: 1, Min: &min}}}}
	}
	writes := []*kv.Write{write("live", "a", 0), write("free", "b", 0), write("live", "c", 0)}
	p.at.before("change/", func() { require.EqualValues(t, 1, p.hold(p.b, p.at.Store, "bob", "d")) })
	mail := make(mailbox, len(writes))
	taken, err := p.a.Reviews().Guard(p.at).CommitEach(mail, writes)
	require.NoError(t, err)
	require.Equal(t, len(writes), taken)
	for told := 0; told < len(writes); {
		told += len(<-mail)
	}
	require.NoError(t, writes[1].Err)
	numbers := map[int64]string{}
	for i, key := range map[int]string{0: "a", 2: "c"} {
		held := (*access.Held)(nil)
		require.ErrorAs(t, writes[i].Err, &held)
		require.Equal(t, []string{"kv:live/" + key}, p.shown(p.b, held.Number).Things)
		require.Equal(t, "live", writes[i].Txn.Then[0].NS, "it is the caller's again")
		numbers[held.Number] = key
	}
	require.Len(t, numbers, 2)
	require.NotContains(t, numbers, int64(1))

	// a condition that does not hold is none of theirs
	_, err = kv.Commit(t.Context(), p.at, kv.PutTxn("free", "no", kv.StringValue("x")))
	require.NoError(t, err)
	writes = []*kv.Write{write("live", "a", 0), write("live", "a", 100)}
	_, err = p.a.Reviews().Guard(p.at).CommitEach(mail, writes)
	require.NoError(t, err)
	for told := 0; told < len(writes); {
		told += len(<-mail)
	}
	require.NoError(t, writes[0].Err)
	require.False(t, writes[0].Result.Held)
	require.Equal(t, codes.OutOfBounds, codes.Of(writes[1].Err))
}

func TestTwoHostsHaveOneLimitOfChanges(t *testing.T) {
	p := two(t, host.Config{Review: review.Config{MaxChanges: 2}})
	number := p.hold(p.b, p.at.Store, "bob", "a")
	p.at.before("change/", func() { p.hold(p.b, p.at.Store, "bob", "b") })
	put := kv.Op{Kind: kv.OpPut, NS: "live", Key: "c", Value: kv.StringValue("x")}
	ask := func() error {
		_, err := kv.Commit(t.Context(), p.a.Reviews().Guard(p.at), &kv.Txn{Actor: by("ann"), Then: []kv.Op{put}})
		return err
	}
	require.Equal(t, codes.Limit, codes.Of(ask()))
	_, err := p.b.Reviews().Withdraw(t.Context(), by("bob"), &review.WithdrawAsk{Number: number})
	require.NoError(t, err)
	require.Equal(t, codes.Held, codes.Of(ask()), "what was decided elsewhere makes room")
	used, err := p.b.Reviews().Used(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, used[0].N)
}

func TestOfTwoHostsOneDecides(t *testing.T) {
	p := two(t, host.Config{})
	p.known("ann")
	number := p.hold(p.a, p.at, "ann", "a")
	p.at.before("change/", func() {
		_, err := p.b.Reviews().Reject(t.Context(), by("bob"), &review.RejectAsk{Number: number})
		require.NoError(t, err)
	})
	_, err := p.a.Reviews().Approve(t.Context(), by("eve"), &review.ApproveAsk{Number: number})
	require.Equal(t, codes.Conflict, codes.Of(err), "%v", err)
	require.ErrorContains(t, err, "is rejected already, by token:bob")
	e, _ := p.at.Get([]byte("live"), []byte("a"))
	require.Nil(t, e)
}

// A token that waits is judged by the names that others have when it is approved.
func TestTwoHostsGiveANameToOneThatWasHeld(t *testing.T) {
	p := two(t, host.Config{})
	root, carl, second := p.known("root", policy.Administrators), p.known("carl"), p.known("second", policy.Administrators)
	p.a.Tokens().Await(p.a.Reviews().HoldToken)
	hold := func(who *access.Actor, name string) int64 {
		made, err := p.a.Tokens().Make(t.Context(), who, &token.MakeAsk{Name: name})
		require.NoError(t, err)
		require.Positive(t, made.Held)
		return made.Held
	}
	approve := func(number int64) error {
		_, err := p.a.Reviews().Approve(t.Context(), second, &review.ApproveAsk{Number: number})
		return err
	}
	number := hold(root, "lead")
	p.at.before("token/", func() { require.NoError(t, p.token(p.b, "ann", "other")) })
	require.NoError(t, approve(number), "another token is in no one's way")
	number = hold(carl, "deploy")
	p.at.before("token/", func() { require.NoError(t, p.token(p.b, "ann", "deploy")) })
	require.Equal(t, codes.Forbidden, codes.Of(approve(number)))
}
