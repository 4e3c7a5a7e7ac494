package review_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/internal/authority"
	"confcenter/kv"
)

func TestDocumentsChangeOnceSomebodyElseApproves(t *testing.T) {
	k := start(t)
	zoe := as("zoe")
	zoe.Comment, zoe.Author = "higher limits", "Zoë"
	number := k.held(k.apply(zoe, "live/a.json", `{ "a":2 }`, "live/new.json", `{"n":1}`, "free/x.json", `{}`, "free/base.json", `{"b":2}`))
	require.Equal(t, `{"a":1}`, k.text("live/a.json"))
	require.Empty(t, k.text("free/x.json"), "all of it or nothing")

	for _, by := range []*access.Actor{zoe, as("max"), root()} {
		require.Equal(t, []int64{number}, k.numbers(by, false))
	}
	shown := k.shown(as("max"), number)
	require.Equal(t, "token:zoe", shown.By)
	require.Equal(t, "Zoë", shown.Author)
	require.Equal(t, "higher limits", shown.Comment)
	require.Equal(t, []string{"config:free/base.json", "config:free/x.json", "config:live/a.json", "config:live/new.json", "config:live/heir.json"}, shown.Things)
	require.Contains(t, shown.Parts[2].Diff, "-{\"a\":1}")
	require.Contains(t, shown.Parts[2].Diff, "+{ \"a\":2 }")
	require.Equal(t, review.Created, shown.Parts[3].Kind)
	require.Equal(t, review.Inherits, shown.Parts[4].Kind)
	require.False(t, shown.Outdated)

	require.Equal(t, codes.Forbidden, codes.Of(k.approve(zoe, number)), "by who has asked")
	require.Equal(t, codes.Forbidden, codes.Of(k.approve(&access.Actor{Identity: &access.Identity{Name: "token:zoe", Groups: []string{policy.Administrators}}}, number)), "another token of the same name is the same person")
	did, err := k.Approve(k.ctx, as("max"), &review.ApproveAsk{Number: number, Comment: "fine"})
	require.NoError(t, err)
	require.Equal(t, review.Approved, did.State)
	require.Equal(t, `{"a":2}`, k.text("live/a.json"))
	require.Equal(t, `{"n":1}`, k.text("live/new.json"))
	require.Equal(t, `{"b":2}`, k.text("free/base.json"))
	require.Empty(t, k.leftovers())
	require.Empty(t, k.numbers(zoe, false))
	require.Equal(t, []int64{number}, k.numbers(zoe, true))
	decided := k.shown(zoe, number)
	require.Equal(t, "token:max", decided.Decider)
	require.Equal(t, "fine", decided.Reason)
	require.Equal(t, did.Revision, decided.Revision)
	require.Positive(t, did.Revision)

	again, err := k.Approve(k.ctx, as("max"), &review.ApproveAsk{Number: number})
	require.NoError(t, err)
	require.Equal(t, did, again, "it can be asked again")
	_, err = k.Reject(k.ctx, as("max"), &review.RejectAsk{Number: number})
	require.Equal(t, codes.Conflict, codes.Of(err))
	require.Equal(t, int64(did.Revision), int64(decided.Revision))
	require.Equal(t, []string{"hold", "approve", "approve", "approve", "reject"}, noted(k))
}

func noted(k *kit) (list []string) {
	for _, e := range k.notes {
		require.Equal(k.t, access.EventReview, e.Kind)
		list = append(list, e.Do)
	}
	return list
}

func TestKeysChangeOnceSomebodyElseApproves(t *testing.T) {
	k := start(t)
	zoe, maxim := as("zoe"), as("max")
	require.NoError(t, k.write(zoe, put("live", "other", "1"), put("match", "x", "1")), "nobody has to")
	require.NoError(t, k.write(nil, put("live", "limits/b", "old"), put("live", "limits/c", "old"), kv.Op{Kind: kv.OpPut, NS: "live", Key: "limits/n", Value: kv.IntValue(5)}))
	number := k.held(k.write(zoe, put("live", "limits/a", "1"), kv.Op{Kind: kv.OpDelete, NS: "live", Key: "limits/b"}, put("match", "x", "2"),
		kv.Op{Kind: kv.OpIncr, NS: "live", Key: "limits/n", Delta: 2}, kv.Op{Kind: kv.OpGet, NS: "live", Key: "limits/a"}))
	require.Empty(t, k.value("live", "limits/a"))
	require.Equal(t, "1", k.value("match", "x"))
	shown := k.shown(maxim, number)
	require.Equal(t, `[{"what":"kv:live/limits/a","kind":"created","new":"1","type":"string"},{"what":"kv:live/limits/b","kind":"deleted","old":"old"},`+
		`{"what":"kv:match/x","kind":"changed","old":"1","new":"2","type":"string"},{"what":"kv:live/limits/n","kind":"changed","old":"5","new":"+ 2","type":"int"}]`, plain(t, shown.Parts))
	require.NoError(t, k.approve(maxim, number))
	require.Equal(t, []string{"1", "", "2", "7"}, []string{k.value("live", "limits/a"), k.value("live", "limits/b"), k.value("match", "x"), k.value("live", "limits/n")})
	e, _ := k.engine.Get([]byte("live"), []byte("limits/a"))
	require.EqualValues(t, e.Mod, k.shown(zoe, number).Revision, "one transaction")
	require.Empty(t, k.leftovers())
}

func TestOneWayOrAnotherAMarkedKeyIsHeld(t *testing.T) {
	k := start(t)
	zoe := as("zoe")
	require.NoError(t, k.write(nil, put("live", "limits/a", "1"), put("live", "limits/b", "2"), put("live", "free", "3"), put("match", "only", "4")))
	revision := k.value("live", "limits/a")
	for what, ops := range map[string][]kv.Op{
		"put":             {put("live", "limits/a", "x")},
		"a new key":       {put("live", "limits", "x")},
		"delete":          {{Kind: kv.OpDelete, NS: "live", Key: "limits/a"}},
		"a prefix":        {{Kind: kv.OpDeletePrefix, NS: "live", Key: "lim"}},
		"a longer prefix": {{Kind: kv.OpDeletePrefix, NS: "live", Key: "limits/a"}},
		"the namespace":   {{Kind: kv.OpDeletePrefix, NS: "live", Confirm: "live"}},
		"some of it":      {{Kind: kv.OpDeletePrefix, NS: "live", Confirm: "live", Limit: 1}},
		"incr":            {{Kind: kv.OpIncr, NS: "match", Key: "only", Delta: 1}},
		"with a TTL":      {{Kind: kv.OpPut, NS: "match", Key: "only", Value: kv.StringValue("x"), TTL: time.Second}},
		"among others":    {put("free", "a", "x"), put("match", "only", "x")},
	} {
		k.held(k.write(zoe, ops...))
		require.Equal(t, revision, k.value("live", "limits/a"), what)
		require.Equal(t, "4", k.value("match", "only"), what)
	}
	for what, txn := range map[string]kv.Txn{
		"a lease":          {Then: []kv.Op{{Kind: kv.OpPut, NS: "match", Key: "only", Lease: 1, Value: kv.StringValue("x")}}},
		"a grant":          {Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Minute}, put("match", "only", "x")}},
		"the other branch": {If: []kv.Compare{kv.Absent("free", "nothing")}, Then: []kv.Op{put("free", "a", "x")}, Else: []kv.Op{put("match", "only", "x")}},
	} {
		_, err := k.txn(zoe, txn)
		require.Equal(t, codes.BadOp, codes.Of(err), what)
	}
	_, err := k.txn(zoe, kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "live", Key: "limits/nothing"}}})
	require.Equal(t, codes.NotFound, codes.Of(err))
	_, err = k.txn(zoe, kv.Txn{Then: []kv.Op{put("@access", "token/x", "x"), put("match", "only", "x")}})
	require.Equal(t, codes.Reserved, codes.Of(err), "what is refused is not held")

	// nor are those of the server, or of a caller that has no identity where there is none
	require.NoError(t, k.write(&access.Actor{Origin: access.Server}, put("match", "only", "5")))
}

// Conditions that do not hold are told as ever; those that hold must hold when it is approved.
func TestWhatWouldNotBeDoneIsNotHeld(t *testing.T) {
	k := start(t)
	zoe := as("zoe")
	absent := kv.Txn{If: []kv.Compare{kv.Absent("match", "only")}, Then: []kv.Op{put("match", "only", "x")}, Else: []kv.Op{{Kind: kv.OpGet, NS: "match", Key: "only"}}}
	_, err := k.txn(zoe, absent)
	number := k.held(err)
	require.NoError(t, k.write(nil, put("match", "only", "there")))
	res, err := k.txn(zoe, absent)
	require.NoError(t, err)
	require.False(t, res.Held)
	require.Equal(t, "there", string(res.Ops[0].Entry.Value.Data))
	require.Equal(t, codes.Conflict, codes.Of(k.approve(as("max"), number)))
	absent.Must, absent.Else = true, nil
	_, err = k.txn(zoe, absent)
	require.Equal(t, codes.Conflict, codes.Of(err))
	require.Equal(t, []int64{number}, k.numbers(zoe, true))
}

func TestAChangeIsMadeOnlyOnWhatItWasComparedWith(t *testing.T) {
	for what, c := range map[string]struct {
		ask    func(k *kit) error
		meddle func(k *kit)
		kept   func(k *kit) string
	}{
		"a document": {
			func(k *kit) error { return k.apply(as("zoe"), "live/a.json", `{"a":2}`) },
			func(k *kit) { require.NoError(k.t, k.apply(nil, "live/a.json", `{"a":3}`)) },
			func(k *kit) string { return k.text("live/a.json") }},
		"a document that is there by now": {
			func(k *kit) error { return k.apply(as("zoe"), "live/b.json", `{"a":2}`) },
			func(k *kit) { require.NoError(k.t, k.apply(nil, "live/b.json", `{"a":3}`)) },
			func(k *kit) string { return k.text("live/b.json") }},
		"a key": {
			func(k *kit) error { return k.write(as("zoe"), put("match", "only", "x")) },
			func(k *kit) { require.NoError(k.t, k.write(nil, put("match", "only", "y"))) },
			func(k *kit) string { return k.value("match", "only") }},
		"a prefix": {
			func(k *kit) error {
				require.NoError(k.t, k.write(nil, put("live", "limits/1", "y")))
				return k.write(as("zoe"), kv.Op{Kind: kv.OpDeletePrefix, NS: "live", Key: "limits"})
			},
			func(k *kit) { require.NoError(k.t, k.write(nil, put("live", "limits/2", "y"))) },
			func(k *kit) string { return k.value("live", "limits/1") }},
	} {
		k := start(t)
		number := k.held(c.ask(k))
		require.False(t, k.shown(as("max"), number).Outdated, what)
		c.meddle(k)
		was := c.kept(k)
		err := k.approve(as("max"), number)
		require.Equal(t, codes.Conflict, codes.Of(err), "%s: %v", what, err)
		require.Equal(t, was, c.kept(k), what)
		require.Equal(t, []int64{number}, k.numbers(as("max"), false), "it can be decided otherwise")
		if what != "a prefix" {
			require.True(t, k.shown(as("max"), number).Outdated, what)
		}
		_, err = k.Withdraw(k.ctx, as("zoe"), &review.WithdrawAsk{Number: number})
		require.NoError(t, err)
		require.Equal(t, codes.Conflict, codes.Of(k.approve(as("max"), number)))
	}
}

func TestNothingIsApprovedOverABrokenFile(t *testing.T) {
	k := start(t)
	number := k.held(k.apply(as("zoe"), "live/a.json", `{"a":2}`))
	file := filepath.Join(k.dir, "live/a.json")
	require.NoError(t, os.WriteFile(file, []byte("{\"a\":\n"), 0o644))
	for range 2 {
		err := k.approve(as("max"), number)
		require.Equal(t, codes.Conflict, codes.Of(err), err)
		require.ErrorContains(t, err, "live/a.json was edited by hand and is broken (line 2 column 1")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "{\"a\":\n", string(text))
		k.docs.Reload()
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"a":1}`), 0o644))
	require.NoError(t, k.approve(as("max"), number))
	require.JSONEq(t, `{"a":2}`, k.text("live/a.json"))
}

// Every look-up by a number asks for the rights to what is behind it.
func TestAForeignNumberIsNotFound(t *testing.T) {
	k := start(t)
	documents := k.held(k.apply(as("writer"), "live/a.json", `{"a":2}`, "live/b.json", `{}`))
	keys := k.held(k.write(as("writer"), put("live", "limits/a", "1"), put("live", "limits/b", "1")))
	role := k.held(k.apply(root(), "_access/new.json", `{"rules":[]}`))
	require.Equal(t, []int64{documents, keys}, k.numbers(as("writer"), false))
	require.Equal(t, []int64{documents, keys}, k.numbers(as("blind"), false), "they may approve")
	require.Equal(t, []int64{documents, keys, role}, k.numbers(root(), false))
	for _, name := range []string{"stranger", "half"} {
		require.Empty(t, k.numbers(as(name), true), name)
	}
	none := func(number int64) string {
		_, err := k.Show(k.ctx, as("stranger"), &review.ShowAsk{Number: number})
		require.Equal(t, codes.NotFound, codes.Of(err))
		return strings.ReplaceAll(err.Error(), fmt.Sprint(number), "N")
	}
	for _, number := range []int64{documents, keys, role, 99, 0, -1} {
		require.Equal(t, none(99), none(number))
		for _, by := range []*access.Actor{as("stranger"), as("half")} {
			_, err := k.Show(k.ctx, by, &review.ShowAsk{Number: number})
			require.Equal(t, codes.NotFound, codes.Of(err))
			require.Equal(t, codes.NotFound, codes.Of(k.approve(by, number)))
			_, err = k.Reject(k.ctx, by, &review.RejectAsk{Number: number})
			require.Equal(t, codes.NotFound, codes.Of(err))
		}
		_, err := k.Withdraw(k.ctx, as("blind"), &review.WithdrawAsk{Number: number})
		require.Equal(t, codes.NotFound, codes.Of(err), "it is not theirs")
	}
	for _, number := range []int64{documents, keys} {
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("blind"), number)), "who cannot see it")
		_, err := k.Show(k.ctx, as("blind"), &review.ShowAsk{Number: number})
		require.Equal(t, codes.Forbidden, codes.Of(err))
		_, err = k.Reject(k.ctx, as("writer"), &review.RejectAsk{Number: number})
		require.Equal(t, codes.Forbidden, codes.Of(err))
	}
	half := k.held(k.apply(as("writer"), "live/a2.json", `{}`))
	require.Equal(t, []int64{half}, k.numbers(as("half"), false))
	require.NoError(t, k.approve(as("half"), half))
	for _, by := range []*access.Actor{nil, {Origin: access.OverHTTP}} {
		_, err := k.List(k.ctx, by, &review.ListAsk{})
		require.Equal(t, codes.NotIdentified, codes.Of(err))
		require.Equal(t, codes.NotIdentified, codes.Of(k.approve(by, documents)))
	}
}

// The author must be allowed to make the change when it is made.
func TestAnAuthorWhoMayNoLongerIsRefused(t *testing.T) {
	k := start(t)
	tokens, err := k.tokens.List(k.ctx, nil, &token.ListAsk{})
	require.NoError(t, err)
	numbers := []int64{k.held(k.apply(as("writer"), "live/a.json", `{"a":2}`)), k.held(k.write(as("writer"), put("live", "limits/a", "1")))}
	for _, one := range tokens.Tokens {
		if one.Name == "writer" {
			_, err := k.tokens.Revoke(k.ctx, nil, &token.RevokeAsk{ID: one.ID})
			require.NoError(t, err)
		}
	}
	for _, number := range numbers {
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
	}
	k.token(nil, "writer")
	require.NoError(t, k.apply(nil, "_access/rules.json", strings.Replace(rules, `"write", "delete"`, `"watch"`, 1)))
	for _, number := range numbers {
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
	}
	require.NoError(t, k.apply(nil, "_access/rules.json", rules))
	for _, number := range numbers {
		require.NoError(t, k.approve(as("max"), number))
	}
	require.Equal(t, `{"a":2}`, k.text("live/a.json"))
}

// A certificate that was revoked or has ended since the change was asked for proves nothing any more.
func TestAnAuthorWhoseCertificateIsRevokedIsRefused(t *testing.T) {
	k := start(t)
	a, err := authority.New()
	require.NoError(t, err)
	pair, err := a.Issue("carl", k.clock.Now().Add(24*time.Hour))
	require.NoError(t, err)
	loaded, err := pair.Certificate()
	require.NoError(t, err)
	caller, err := k.access.Admit(&control.Proof{Certificate: loaded.Leaf})
	require.NoError(t, err)
	carl := &access.Actor{Origin: access.OverTCP, Identity: caller.Who}
	documents, keys := k.held(k.apply(carl, "live/a.json", `{"a":2}`)), k.held(k.write(carl, put("live", "limits/a", "1")))
	k.revoked.Store(true)
	k.open() // it is kept with the change
	for _, number := range []int64{documents, keys} {
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
	}
	require.Equal(t, `{"a":1}`, k.text("live/a.json"))
	k.revoked.Store(false)
	require.NoError(t, k.approve(as("max"), documents))
	require.Equal(t, `{"a":2}`, k.text("live/a.json"))
	k.clock.Advance(25 * time.Hour)
	require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), keys)), "it has ended")
}

// A person's groups are those that the provider had them in when they signed in last, and settings make
// no one an administrator any more once they do not say so.
func TestAnAuthorWhoseGroupsHaveChangedIsRefused(t *testing.T) {
	k := start(t)
	signIn := func(name string, groups ...string) *access.Actor {
		s, err := k.tokens.OpenSession(k.ctx, nil, token.Start{Who: &access.Identity{Name: name, Groups: groups}})
		require.NoError(t, err)
		caller, err := k.access.Admit(&control.Proof{Session: s.Text})
		require.NoError(t, err)
		k.clock.Advance(time.Second)
		return &access.Actor{Origin: access.InConsole, Identity: caller.Who}
	}
	text := 1
	ask := func(by *access.Actor) int64 {
		text++
		return k.held(k.apply(by, "live/a.json", fmt.Sprintf(`{"a":%d}`, text)))
	}
	person := signIn("person:pat@example.org", "writers")
	number := ask(person)
	signIn("person:pat@example.org", "readers")
	require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
	signIn("person:pat@example.org", "writers", "readers")
	require.NoError(t, k.approve(as("max"), number))
	number = ask(person)
	open, err := k.tokens.Sessions(k.ctx, nil, &token.SessionsAsk{Who: "person:pat@example.org"})
	require.NoError(t, err)
	for i := range open.Sessions {
		_, err = k.tokens.EndOwnSessions(k.ctx, person, person.Identity, open.Sessions[i].ID)
		require.NoError(t, err)
	}
	require.NoError(t, k.approve(as("max"), number), "who has signed out since")

	for _, name := range []string{"person:pat@example.org", "token:stranger"} {
		k.admit(name)
		by := as("stranger")
		if name != "token:stranger" {
			by = signIn(name)
		} else {
			by.Identity.Groups = []string{policy.Administrators} // as the settings say
		}
		first := ask(by)
		require.NoError(t, k.approve(as("max"), first), name)
		second := ask(by)
		k.admit()
		require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), second)), name)
	}
}

// To approve a change is to approve when it ends, and what it depends on, too.
func TestAllTermsOfAChangeAreShown(t *testing.T) {
	k := start(t)
	require.NoError(t, k.write(as("zoe"), put("free", "seen", "yes")))
	ends, most := k.clock.Now().Add(time.Hour).UnixMilli(), int64(9)
	brief := put("live", "limits/x", "5")
	brief.TTL = time.Minute
	dated := put("live", "limits/a", "1")
	dated.Expires = ends
	_, err := k.txn(as("zoe"), kv.Txn{
		If:   []kv.Compare{kv.Absent("live", "limits/x"), {NS: "free", Key: "seen", Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue("yes")}},
		Then: []kv.Op{brief, dated, {Kind: kv.OpIncr, NS: "live", Key: "limits/n", Delta: 2, Initial: 3, Max: &most}},
	})
	number := k.held(err)
	require.Equal(t, []review.Part{
		{What: "kv:live/limits/x", Kind: review.Created, New: "5", Type: "string", TTL: 60_000},
		{What: "kv:live/limits/a", Kind: review.Created, New: "1", Type: "string", Expires: ends},
		{What: "kv:live/limits/n", Kind: review.Created, New: "+ 2", Type: "int", If: "begins with 3 where there is none, is then at most 9"},
		{What: "kv:live/limits/x", Kind: review.Requires, If: "version = 0"},
		{What: "kv:free/seen", Kind: review.Requires, If: "value = yes"},
	}, k.shown(as("max"), number).Parts)
	last := k.shown(as("writer"), number).Parts[4]
	require.Equal(t, review.Part{What: "kv", Kind: review.Requires, If: "something about a key that you may not read"}, last)
	made, err := k.tokens.Make(k.ctx, root(), &token.MakeAsk{Name: "friend", TTL: 60_000})
	require.NoError(t, err)
	require.Equal(t, made.Expires, k.shown(root(), made.Held).Parts[0].Expires)
}

func TestAMarkIsTakenBackOnlyByTwo(t *testing.T) {
	k := start(t)
	numbers := map[string]int64{}
	for what, text := range map[string]string{
		"less":        strings.Replace(rules, `"config:live/*", `, ``, 1),
		"weaker":      strings.Replace(rules, `"config:live/*"`, `"config:live/a*"`, 1),
		"none":        strings.Replace(rules, `"approval": ["config:live/*", "kv:live/limits*", "kv:match/only"],`, ``, 1),
		"no role":     "",
		"more rights": strings.Replace(rules, `"token:stranger"`, `"token:root"`, 1),
	} {
		require.NotEqual(t, rules, text, what)
		numbers[what] = k.held(k.apply(root(), "_access/rules.json", text))
	}
	err := k.apply(as("writer"), "_access/rules.json", "")
	require.Equal(t, codes.Forbidden, codes.Of(err), "who may not approve of what is marked")
	require.True(t, k.Marked("live/a.json"))
	k.token(nil, "second", policy.Administrators)
	second := as("second")
	second.Identity.Groups = []string{policy.Administrators}
	require.NoError(t, k.approve(second, numbers["none"]))
	require.Nil(t, k.access.Marks())
	require.NoError(t, k.apply(as("zoe"), "live/a.json", `{"a":2}`))
}

// Anyone who may make tokens could be two people at will.
func TestANewTokenNeedsASecondPerson(t *testing.T) {
	k := start(t)
	made, err := k.tokens.Make(k.ctx, root(), &token.MakeAsk{Name: "friend", Groups: []string{policy.Administrators}})
	require.NoError(t, err)
	require.Positive(t, made.Held)
	_, _, err = k.tokens.Verify(made.Text)
	require.Equal(t, codes.NotIdentified, codes.Of(err), "it is of no use yet")
	require.Equal(t, codes.Forbidden, codes.Of(k.approve(root(), made.Held)))
	shown := k.shown(root(), made.Held)
	require.Equal(t, []string{"a token for token:friend in the groups administrators"}, shown.Things)
	require.NotContains(t, plain(t, shown), made.Text[21:])
	require.NotContains(t, plain(t, shown), "digest")

	k.token(nil, "second", policy.Administrators)
	second := as("second")
	second.Identity.Groups = []string{policy.Administrators}
	require.NoError(t, k.approve(second, made.Held))
	who, _, err := k.tokens.Verify(made.Text)
	require.NoError(t, err)
	require.Equal(t, "token:friend", who.Name)
}

func TestWhatNobodyDecidesExpires(t *testing.T) {
	k := start(t)
	number := k.held(k.write(as("zoe"), put("match", "only", "x")))
	k.clock.Advance(7*24*time.Hour - time.Millisecond)
	require.Equal(t, []int64{number}, k.numbers(as("max"), false))
	k.clock.Advance(time.Millisecond)
	require.Empty(t, k.numbers(as("max"), true))
	require.Equal(t, codes.NotFound, codes.Of(k.approve(as("max"), number)))
	used, err := k.Used(k.ctx)
	require.NoError(t, err)
	require.Zero(t, used[0].N)
	require.Equal(t, number+1, k.held(k.write(as("zoe"), put("match", "only", "x"))))
}

// Setting the time of day moves neither when a change expires, nor when a decision is forgotten.
func TestSettingTheClockMovesNoChange(t *testing.T) {
	const keep, day = 7 * 24 * time.Hour, 24 * time.Hour
	for _, step := range []time.Duration{30 * day, -30 * day} {
		k := start(t)
		waits := k.held(k.write(as("zoe"), put("match", "only", "x")))
		number := k.held(k.write(as("zoe"), put("match", "only", "y")))
		k.clock.Step(step)
		k.clock.Advance(keep - day)
		require.Equal(t, k.clock.Now().Add(day).UnixMilli(), k.shown(as("max"), waits).Expires, "by the time of day")
		require.NoError(t, k.approve(as("max"), number))
		k.clock.Step(-2 * step)
		k.clock.Advance(day - time.Millisecond)
		require.Equal(t, []int64{waits}, k.numbers(as("max"), false))
		k.clock.Advance(time.Millisecond)
		require.Empty(t, k.numbers(as("max"), false), step)
		used, err := k.Used(k.ctx)
		require.NoError(t, err)
		require.Zero(t, used[0].N)
		k.clock.Step(step)
		k.clock.Advance(keep - day - time.Millisecond)
		require.Equal(t, []int64{number}, k.numbers(as("max"), true))
		k.clock.Advance(time.Millisecond)
		require.Empty(t, k.numbers(as("max"), true), step)
	}
}

// Nor when a token ends that was held for approval: its time began when it was asked for.
func TestSettingTheClockMovesNoTokenThatIsHeld(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := start(t)
		second := as("max")
		second.Identity.Groups = []string{policy.Administrators}
		ask := func(name string) *token.Made {
			made, err := k.tokens.Make(k.ctx, root(), &token.MakeAsk{Name: name, TTL: time.Hour.Milliseconds()})
			require.NoError(t, err)
			require.NotZero(t, made.Held)
			return made
		}
		made, late := ask("friend"), ask("late")
		k.clock.Step(step)
		k.clock.Advance(20 * time.Minute)
		require.Equal(t, k.clock.Now().Add(40*time.Minute).UnixMilli(), k.shown(second, made.Held).Parts[0].Expires, "by the time of day")
		require.NoError(t, k.approve(second, made.Held))
		k.clock.Step(-2 * step)
		k.clock.Advance(40*time.Minute - time.Millisecond)
		_, _, err := k.tokens.Verify(made.Text)
		require.NoError(t, err, step)
		k.clock.Advance(time.Millisecond)
		_, _, err = k.tokens.Verify(made.Text)
		require.Error(t, err, step)
		require.ErrorContains(t, k.approve(second, late.Held), "would have ended by now")
	}
}

func TestWhatIsHeldIsLimited(t *testing.T) {
	k := start(t, func(c *review.Config) { c.MaxChanges, c.MaxOf, c.MaxEach, c.MaxBytes = 3, 2, 2000, 3000 })
	ask := func(name, value string) error { return k.write(as(name), put("live", "limits/a", value)) }
	require.Equal(t, codes.TooLarge, codes.Of(ask("zoe", strings.Repeat("x", 2000))))
	first := k.held(ask("zoe", "1"))
	k.held(ask("zoe", "2"))
	err := ask("zoe", "3")
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "2 of yours")
	k.held(ask("max", "1"))
	err = ask("writer", "1")
	require.ErrorContains(t, err, "3 wait for it")
	used, err := k.Used(k.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, used[0].N)
	_, err = k.Withdraw(k.ctx, as("zoe"), &review.WithdrawAsk{Number: first})
	require.NoError(t, err)
	require.ErrorContains(t, ask("zoe", strings.Repeat("x", 1600)), "bytes")
	k.open() // a restart counts what is there
	k.held(ask("zoe", "3"))
	require.Equal(t, codes.Limit, codes.Of(ask("zoe", "3")))
	require.Empty(t, k.value("live", "limits/a"))
}

// What is asked for again because the answer was lost is not held twice.
func TestARequestWithATokenIsHeldOnce(t *testing.T) {
	k := start(t)
	ask := func(value, token string) error {
		_, err := k.txn(as("zoe"), kv.Txn{Then: []kv.Op{put("match", "only", value)}, Token: token, TokenNS: "match"})
		return err
	}
	number := k.held(ask("1", "t"))
	require.Equal(t, number, k.held(ask("1", "t")))
	require.Equal(t, codes.TokenReused, codes.Of(ask("2", "t")))
	used, err := k.Used(k.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, used[0].N)
	require.NoError(t, k.approve(as("max"), number))
	require.Equal(t, number, k.held(ask("1", "t")), "and not made twice")
	zoe := as("zoe")
	zoe.Token = "d"
	documents := k.held(k.apply(zoe, "live/a.json", `{"a":2}`))
	require.Equal(t, documents, k.held(k.apply(zoe, "live/a.json", `{"a":2}`)))
	require.Equal(t, codes.TokenReused, codes.Of(k.apply(zoe, "live/a.json", `{"a":3}`)))
}

func TestOfManyDecisionsOneCounts(t *testing.T) {
	for range 20 {
		k := start(t)
		number := k.held(k.apply(as("zoe"), "live/a.json", `{"a":2}`))
		var all sync.WaitGroup
		results := make([]error, 4)
		for i, do := range []func() error{
			func() error { return k.approve(as("max"), number) },
			func() error { return k.approve(root(), number) },
			func() error { _, err := k.Reject(k.ctx, root(), &review.RejectAsk{Number: number}); return err },
			func() error { _, err := k.Withdraw(k.ctx, as("zoe"), &review.WithdrawAsk{Number: number}); return err },
		} {
			all.Go(func() { results[i] = do() })
		}
		all.Wait()
		state := k.shown(as("zoe"), number).State
		switch {
		case results[0] == nil || results[1] == nil:
			require.Equal(t, review.Approved, state)
			late, again := results[1], as("max")
			if results[0] != nil {
				late, again = results[0], root()
			}
			require.Equal(t, codes.Conflict, codes.Of(late), "one of them has approved, and the other is told who")
			require.ErrorContains(t, late, "approved already, by token:")
			require.NoError(t, k.approve(again, number), "who has may ask again")
			require.Equal(t, `{"a":2}`, k.text("live/a.json"))
			require.Error(t, results[2])
			require.Error(t, results[3])
		default:
			require.NotEqual(t, results[2] == nil, results[3] == nil)
			require.Equal(t, `{"a":1}`, k.text("live/a.json"))
		}
	}
}

func TestWithoutAccessControlThereIsNothingToReview(t *testing.T) {
	k := start(t)
	r := review.Open(k.near, review.Config{Clock: k.clock})
	require.False(t, r.Marked("live/a.json"))
	_, err := kv.Commit(k.ctx, r.Guard(k.engine), &kv.Txn{Then: []kv.Op{put("match", "only", "x")}, Actor: as("zoe")})
	require.NoError(t, err)
	_, err = r.List(k.ctx, as("zoe"), &review.ListAsk{})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
}
