package guard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/access/seal"
	"confcenter/codes"
	"confcenter/kv"
)

func TestASecretIsRevealedToThoseWithTheRightToWhereItComesFrom(t *testing.T) {
	base := guardtest.Sealed(t, "config:base.json", `{"pw":{"$seal":"hunter2"},"n":1}`)
	plain := `{"pw":"hunter2","n":1}`
	for _, c := range []struct {
		rules []string
		want  string
	}{
		{[]string{"reveal config:base.json"}, plain},
		{[]string{"reveal config:b*"}, plain},
		{[]string{"* config:heir.json"}, base},
		{[]string{"read config", "write config", "watch config", "history config", "inherit config"}, base},
		{[]string{"reveal config", "-reveal config:base.json"}, base},
		{[]string{"reveal kv"}, base},
	} {
		require.Equal(t, c.want, string(guardtest.Caller(t, c.rules...).Revealed(guardtest.Ring(), []byte(base))), c.rules)
	}
	require.Equal(t, plain, string((*guard.Caller)(nil).Revealed(guardtest.Ring(), []byte(base))), "there is no access control")
	require.Equal(t, base, string(new(guard.Caller).Revealed(guardtest.Ring(), []byte(base))))
	require.Equal(t, base, string((*guard.Caller)(nil).Revealed(nil, []byte(base))), "there is no key")
	text := []byte(plain)
	require.Same(t, &text[0], &(*guard.Caller)(nil).Revealed(guardtest.Ring(), text)[0], "nothing is copied in vain")
}

// A role's secrets belong to the roles; what is not known to be anybody's is nobody's.
func TestAnOriginThatIsNobodysIsNotRevealed(t *testing.T) {
	all := guardtest.Caller(t, "* config", "* kv")
	for _, origin := range []string{"", "config", "cert:a", "_access/a.json", seal.OfDocument + policy.RolePrefix + "a.json"} {
		require.False(t, all.Reveals(origin), origin)
	}
	require.True(t, guardtest.Caller(t, "grant roles").Reveals(seal.OfDocument+policy.RolePrefix+"a.json"))
}

func jsonPut(ns, key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.JSONValue([]byte(text))}
}

func TestAKeysSecretBelongsToTheKey(t *testing.T) {
	for _, at := range []struct{ ns, key, rule string }{{"game", "k", "kv:game/k"}, {"a/b%", "c/d", "kv:a%2Fb%25/c%2Fd"}} {
		txn := kv.Txn{Then: []kv.Op{jsonPut(at.ns, at.key, `{"pw":{"$seal":"hunter2"},"n":1}`), put("game", "other")}, Else: []kv.Op{jsonPut(at.ns, at.key, `{"$seal":"hunter3"}`)}}
		require.NoError(t, guard.SealTxn(guardtest.Ring(), &txn))
		for _, op := range append(txn.Then, txn.Else...) {
			require.NotContains(t, string(op.Value.Data), "hunter")
		}
		require.Equal(t, "v", string(txn.Then[1].Value.Data), "the others stay")
		require.Empty(t, txn.Asked)
		e := &kv.Entry{NS: "copied", Key: "elsewhere", Value: txn.Then[0].Value}
		see := func(rules ...string) string {
			return string(guardtest.Caller(t, rules...).Revealer(guardtest.Ring, true).Entry(e).Value.Data)
		}
		require.Equal(t, `{"pw":"hunter2","n":1}`, see("reveal "+at.rule))
		require.NotContains(t, see("* kv:copied", "reveal kv:game/other", "reveal config"), "hunter")
		require.NotContains(t, see("* kv", "-reveal "+at.rule), "hunter")
		require.NotContains(t, string(e.Value.Data), "hunter", "the entry is everybody's")
		e.Value.Type = kv.String
		require.Same(t, e, guardtest.Caller(t, "* kv").Revealer(guardtest.Ring, true).Entry(e), "a text is what it is")
	}
}

// A request that is repeated with its token is the same though it is sealed to something else, and what
// is remembered of it is of no use without the keys.
func TestATokenStandsForWhatWasAskedToBeSealed(t *testing.T) {
	asked := func(text string, more ...kv.Op) string {
		txn := kv.Txn{Token: "t", TokenNS: "game", Then: append([]kv.Op{jsonPut("game", "k", `{"$seal":"`+text+`"}`)}, more...)}
		require.NoError(t, guard.SealTxn(guardtest.Ring(), &txn))
		require.NotEmpty(t, txn.Asked)
		return string(txn.Asked)
	}
	two := int64(2)
	first := asked("x")
	require.Equal(t, first, asked("x"))
	for _, other := range []string{
		asked("y"), asked("x", put("game", "l")), asked("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1}),
		asked("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1, Max: &two}), asked("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1, Min: &two}),
	} {
		require.NotEqual(t, first, other)
	}
	txn := kv.Txn{Token: "t", TokenNS: "game", Then: []kv.Op{jsonPut("game", "k", `{"n":1}`)}}
	require.NoError(t, guard.SealTxn(guardtest.Ring(), &txn))
	require.Empty(t, txn.Asked, "others are as before")
}

func TestWhatCannotBeSealedInKeysIsRefused(t *testing.T) {
	ask := `{"$seal":"hunter2"}`
	for _, c := range []struct {
		ring *seal.Ring
		txn  kv.Txn
		code codes.Code
	}{
		{nil, kv.Txn{Then: []kv.Op{jsonPut("a", "k", ask)}}, codes.NotImplemented},
		{guardtest.Ring().Opening(), kv.Txn{Token: "t", Then: []kv.Op{jsonPut("a", "k", ask)}}, codes.NotImplemented},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{jsonPut("a", "k", `{"$seal":"hunter2","b":1}`)}}, codes.BadRequest},
		{guardtest.Ring(), kv.Txn{If: []kv.Compare{{NS: "a", Key: "k", Target: kv.CompareValue, Value: kv.JSONValue([]byte(ask))}}}, codes.BadRequest},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{jsonPut("a", "k", `{"$seal":"`+strings.Repeat("x", kv.MaxValue-20)+`"}`)}}, codes.TooLarge},
		{nil, kv.Txn{Then: []kv.Op{toSeal(kv.StringValue("hunter2"))}}, codes.NotImplemented},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{toSeal(kv.Value{Type: kv.Int, Data: []byte("hunter2")})}}, codes.BadValue},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{toSeal(kv.JSONValue([]byte("hunter2")))}}, codes.BadValue},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{toSeal(kv.StringValue("hunter2\xff"))}}, codes.BadValue},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{toSeal(kv.JSONValue([]byte(ask)))}}, codes.BadRequest},
		{guardtest.Ring(), kv.Txn{Then: []kv.Op{toSeal(kv.StringValue("hunter2" + strings.Repeat("x", kv.MaxValue-20)))}}, codes.TooLarge},
	} {
		err := guard.SealTxn(c.ring, &c.txn)
		require.Equal(t, c.code, codes.Of(err))
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func toSeal(v kv.Value) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: "game", Key: "k", Value: v, Seal: true}
}

// A value of any type is kept as a mark of type json, which no reader takes for the value, and is what it
// was to those who may know it.
func TestAnyTypeCanBeSealed(t *testing.T) {
	may, none := guardtest.Caller(t, "reveal kv:game/k"), guardtest.Caller(t, "* kv", "-reveal kv:game/k")
	for _, v := range []kv.Value{
		kv.StringValue("hunter2"), kv.StringValue(""), kv.StringValue("\"quoted\" \\ \n  "), kv.StringValue("$secret:v1:a:b:kv:game/k"),
		kv.IntValue(-12), kv.DoubleValue(1.5), kv.BoolValue(true), kv.BytesValue([]byte{0, 255, '"'}), kv.BytesValue([]byte{}), kv.JSONValue([]byte(`{"a":"hunter2"}`)),
	} {
		txn := kv.Txn{Token: "t", Then: []kv.Op{toSeal(v)}}
		require.NoError(t, guard.SealTxn(guardtest.Ring(), &txn))
		op := txn.Then[0]
		require.False(t, op.Seal)
		require.NotEmpty(t, txn.Asked)
		require.True(t, op.Value.Sealed())
		require.Equal(t, kv.JSON, op.Value.Type)
		require.NoError(t, op.Value.Check())
		require.NotContains(t, string(op.Value.Data), "hunter2")

		e := &kv.Entry{NS: "copied", Key: "elsewhere", Value: op.Value}
		require.Equal(t, v, may.Revealer(guardtest.Ring, true).Entry(e).Value)
		require.Equal(t, op.Value, none.Revealer(guardtest.Ring, true).Entry(e).Value)
		_, err := none.Revealer(guardtest.Ring, true).Entry(e).Value.Int()
		require.ErrorIs(t, err, codes.WrongType)
		require.ErrorContains(t, err, "sealed")
		within := &kv.Entry{Value: kv.JSONValue([]byte(`{"a":` + string(op.Value.Data) + `}`))}
		require.NoError(t, may.Revealer(guardtest.Ring, true).Entry(within).Value.Check(), "within other JSON it is JSON")
	}
}

// What somebody has written that looks like a mark is what they have written.
func TestWhatLooksLikeAMarkIsNone(t *testing.T) {
	txn := kv.Txn{Then: []kv.Op{toSeal(kv.StringValue("hunter2"))}}
	require.NoError(t, guard.SealTxn(guardtest.Ring(), &txn))
	mark := txn.Then[0].Value
	for _, v := range []kv.Value{
		{Type: kv.String, Data: mark.Data}, {Type: kv.Bytes, Data: mark.Data}, kv.JSONValue([]byte(`"$secret:v2:k:AAAA:kv:game/k"`)),
		kv.JSONValue([]byte(`"$secret:v3:k:AAAA:kv:game/k"`)), kv.JSONValue([]byte(`{` + string(mark.Data) + `:1}`)),
	} {
		e := &kv.Entry{NS: "game", Key: "k", Value: v}
		require.Equal(t, v, guardtest.Caller(t, "* kv").Revealer(guardtest.Ring, true).Entry(e).Value)
	}
	require.False(t, kv.StringValue("$secret:v1:").Sealed())
	require.False(t, kv.JSONValue([]byte(`"$secret"`)).Sealed())
}
