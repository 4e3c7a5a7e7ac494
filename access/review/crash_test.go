package review_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/history"
	"confcenter/kv"
)

// cutOff are documents whose answer does not arrive.
type cutOff struct {
	history.Documents
	before bool // nor does the request
	asked  int
}

func (d *cutOff) Change(req change.Request, done func(change.Result, error)) error {
	d.asked++
	lost := codes.Errorf(codes.Timeout, "lost")
	if d.before {
		return lost
	}
	return d.Documents.Change(req, func(change.Result, error) { done(change.Result{}, lost) })
}

// What was approved is made once, wherever the server stops.
func TestAStopInTheMiddleOfAnApprovalLosesAndRepeatsNothing(t *testing.T) {
	for _, before := range []bool{true, false} {
		k := start(t)
		number := k.held(k.apply(as("zoe"), "live/a.json", `{"a":2}`))
		docs := k.cfg.Documents
		k.cfg.Documents = &cutOff{Documents: docs, before: before}
		k.open()
		require.Equal(t, codes.Timeout, codes.Of(k.approve(as("max"), number)))
		require.Equal(t, before, k.text("live/a.json") == `{"a":1}`)
		shown := k.shown(as("zoe"), number)
		require.Equal(t, review.Approving, shown.State)
		_, err := k.Reject(k.ctx, root(), &review.RejectAsk{Number: number})
		require.Equal(t, codes.Conflict, codes.Of(err))
		_, err = k.Withdraw(k.ctx, as("zoe"), &review.WithdrawAsk{Number: number})
		require.Equal(t, codes.Conflict, codes.Of(err))
		made := k.docs.Snapshot().Node("live/a.json").Mtime(false)

		k.cfg.Documents = docs
		k.open()
		ctx, cancel := context.WithCancel(k.ctx)
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		require.Eventually(t, func() bool { return k.shown(as("zoe"), number).State == review.Approved }, time.Minute, time.Millisecond)
		require.Equal(t, `{"a":2}`, k.text("live/a.json"))
		if !before {
			require.Equal(t, made, k.docs.Snapshot().Node("live/a.json").Mtime(false), "it is not made again")
		}
		shown = k.shown(as("zoe"), number)
		require.Equal(t, review.Approved, shown.State)
		require.Equal(t, "token:max", shown.Decider)
		require.Positive(t, shown.Revision)
		require.NoError(t, k.approve(as("max"), number))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

// meddled are documents before each change of which something else happens.
type meddled struct {
	history.Documents
	before func()
}

func (m *meddled) Change(req change.Request, done func(change.Result, error)) error {
	m.before()
	return m.Documents.Change(req, done)
}

// What one server is making another may find begun, and finish: it is made once, and both are told so.
func TestTwoServersFinishAnApprovalOnce(t *testing.T) {
	k := start(t)
	other := review.Open(k.near, k.cfg)
	other.Obey(k.access)
	run := func() {
		ctx, cancel := context.WithCancel(k.ctx)
		ended := make(chan error)
		go func() { ended <- other.Run(ctx) }()
		require.Eventually(t, func() bool {
			shown, err := other.Show(k.ctx, as("zoe"), &review.ShowAsk{Number: 1})
			return err == nil && shown.State == review.Approved
		}, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	k.cfg.Documents = &meddled{k.docs, sync.OnceFunc(run)}
	k.open()
	number := k.held(k.apply(as("zoe"), "live/a.json", `{"a":2}`))
	did, err := k.Approve(k.ctx, as("max"), &review.ApproveAsk{Number: number})
	require.NoError(t, err)
	require.Equal(t, review.Approved, did.State)
	require.Equal(t, "token:max", did.Decider)
	require.Positive(t, did.Revision)
	require.Equal(t, `{"a":2}`, k.text("live/a.json"))
	require.Equal(t, did.Revision, k.shown(as("zoe"), number).Revision)
	require.Equal(t, []string{"hold", "approve"}, noted(k))
}

func TestAChangeIsShownWhileItIsDecided(t *testing.T) {
	k := start(t)
	number := k.held(k.write(as("zoe"), put("match", "only", "1")))
	k.engine.body = func() { require.NoError(t, k.approve(as("max"), number)) }
	require.Equal(t, review.Approved, k.shown(as("zoe"), number).State)
	require.Equal(t, "1", k.value("match", "only"))
}

func TestAnApprovalWhoseAnswerIsLostCanBeAskedAgain(t *testing.T) {
	k := start(t)
	require.NoError(t, k.write(nil, kv.Op{Kind: kv.OpPut, NS: "match", Key: "only", Value: kv.IntValue(1)}))
	number := k.held(k.write(as("zoe"), kv.Op{Kind: kv.OpIncr, NS: "match", Key: "only", Delta: 1}))
	k.engine.lose = func(txn *kv.Txn) bool { return txn.Actor != nil && txn.Actor.Approver != "" }
	require.Equal(t, codes.Timeout, codes.Of(k.approve(as("max"), number)))
	require.Equal(t, "2", k.value("match", "only"))
	k.engine.lose = nil
	require.NoError(t, k.approve(as("max"), number))
	require.Equal(t, "2", k.value("match", "only"))
	require.Equal(t, review.Approved, k.shown(as("zoe"), number).State)
}

func TestWhatMayBeHeldIsNotMade(t *testing.T) {
	k := start(t)
	k.engine.lose = func(*kv.Txn) bool { return true }
	err := k.write(as("zoe"), put("match", "only", "1"))
	require.Equal(t, codes.Timeout, codes.Of(err), "it is not known whether it is held")
	require.Empty(t, k.value("match", "only"))
}

// No one is two people: whatever one identity asks for, in whatever order, what is marked stays.
func TestNobodyChangesAloneWhatIsMarked(outer *testing.T) {
	reached := map[string]int{}
	rapid.Check(outer, func(t *rapid.T) {
		k := start(outer)
		defer k.stop()
		require.NoError(t, k.write(nil, put("match", "only", "there"), put("live", "limits/a", "there")))
		who := rapid.SampledFrom([]*access.Actor{root(), as("zoe")}).Draw(t, "who")
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			reached[k.step(t, who)]++
		}
		require.Equal(t, `{"a":1}`, k.text("live/a.json"))
		require.Equal(t, "there", k.value("match", "only"))
		require.Equal(t, "there", k.value("live", "limits/a"))
		require.Equal(t, `["free/base.json"]`, plain(t, k.docs.Snapshot().Node("live/heir.json").Bases()))
		base, _ := k.docs.Snapshot().Node("live/heir.json").Contents(true)
		require.Equal(t, `{"b":1}`, string(base))
		require.True(t, k.access.Marks().Has(policy.Config, []byte("live/a.json")))
	})
	for _, what := range []string{"document", "role", "keys", "approve", "made by token"} {
		require.Positive(outer, reached[what], what)
	}
}

// step makes one request as who.
func (k *kit) step(t *rapid.T, who *access.Actor) string {
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Second)
	defer cancel()
	switch what := rapid.SampledFrom([]string{"document", "role", "keys", "token", "approve"}).Draw(t, "what"); what {
	case "document":
		name := rapid.SampledFrom([]string{"live/a.json", "live/heir.json", "free/base.json", "_meta.json", "free/x.json"}).Draw(t, "name")
		text := rapid.SampledFrom([]string{"", `{"a":2}`, `{"conf_inherit":{"live/heir.json":"free/x.json"}}`}).Draw(t, "text")
		_ = k.apply(who, name, text)
		return what
	case "role":
		text := rapid.SampledFrom([]string{"", `{"rules":[]}`, `{"rules":[{"who":["token:friend"],"allow":["*"],"what":["*"]}]}`}).Draw(t, "role")
		_ = k.apply(who, rapid.SampledFrom([]string{"_access/rules.json", "_access/x.json"}).Draw(t, "role's name"), text)
		return what
	case "keys":
		kind := rapid.SampledFrom([]kv.OpKind{kv.OpPut, kv.OpDelete, kv.OpDeletePrefix, kv.OpIncr}).Draw(t, "kind")
		op := kv.Op{Kind: kind, NS: "live", Key: rapid.SampledFrom([]string{"limits/a", "l", "limits"}).Draw(t, "key"), Confirm: "live", Value: kv.StringValue("x")}
		_ = k.write(who, op)
		return what
	case "token":
		made, err := k.tokens.Make(ctx, who, &token.MakeAsk{Name: "friend", Groups: who.Identity.Groups})
		if err != nil {
			return what
		}
		id, _, err := k.tokens.Verify(made.Text)
		if err == nil { // then they are two
			_ = k.approve(&access.Actor{Identity: id}, int64(rapid.IntRange(1, 12).Draw(t, "number")))
		}
		return "made by token"
	default:
		by := *who
		if rapid.Bool().Draw(t, "more groups") {
			by.Identity = &access.Identity{Name: who.Identity.Name, Groups: []string{policy.Administrators}}
		}
		_ = k.approve(&by, int64(rapid.IntRange(1, 12).Draw(t, "number")))
		return what
	}
}
