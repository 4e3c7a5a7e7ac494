package edge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/server/edge"
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
		require.Equal(t, c.want, string(asked(guardtest.Caller(t, c.rules...), guardtest.Ring()).Revealed([]byte(base))), c.rules)
	}
	require.Equal(t, plain, string(asked(nil, guardtest.Ring()).Revealed([]byte(base))), "there is no access control")
	require.Equal(t, base, string(asked(new(guard.Caller), guardtest.Ring()).Revealed([]byte(base))))
	require.Equal(t, base, string(asked(nil, nil).Revealed([]byte(base))), "there is no key")
	text := []byte(plain)
	require.Same(t, &text[0], &asked(nil, guardtest.Ring()).Revealed(text)[0], "nothing is copied in vain")
}

// asked is a request of a caller, where there are such keys.
func asked(c *guard.Caller, ring *secret.Ring) *edge.Request {
	return &edge.Request{Edge: &edge.Edge{Ring: func() *secret.Ring { return ring }}, Room: new(edge.Room), Rights: c}
}

func put(ns, key string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue("v")}
}

func jsonPut(ns, key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.JSONValue([]byte(text))}
}

func TestAKeysSecretBelongsToTheKey(t *testing.T) {
	for _, at := range []struct{ ns, key, rule string }{{"game", "k", "kv:game/k"}, {"a/b%", "c/d", "kv:a%2Fb%25/c%2Fd"}} {
		txn := kv.Txn{Then: []kv.Op{jsonPut(at.ns, at.key, `{"pw":{"$seal":"hunter2"},"n":1}`), put("game", "other")}, Else: []kv.Op{jsonPut(at.ns, at.key, `{"$seal":"hunter3"}`)}}
		require.NoError(t, asked(nil, guardtest.Ring()).Seal(&txn))
		for _, op := range append(txn.Then, txn.Else...) {
			require.NotContains(t, string(op.Value.Data), "hunter")
		}
		require.Equal(t, "v", string(txn.Then[1].Value.Data), "the others stay")
		require.Empty(t, txn.Asked)
		e := &kv.Entry{NS: "copied", Key: "elsewhere", Value: txn.Then[0].Value}
		see := func(rules ...string) string {
			return string(asked(guardtest.Caller(t, rules...), guardtest.Ring()).Revealer(true).Entry(e).Value.Data)
		}
		require.Equal(t, `{"pw":"hunter2","n":1}`, see("reveal "+at.rule))
		require.NotContains(t, see("* kv:copied", "reveal kv:game/other", "reveal config"), "hunter")
		require.NotContains(t, see("* kv", "-reveal "+at.rule), "hunter")
		require.NotContains(t, string(e.Value.Data), "hunter", "the entry is everybody's")
		e.Value.Type = kv.String
		require.Same(t, e, asked(guardtest.Caller(t, "* kv"), guardtest.Ring()).Revealer(true).Entry(e), "a text is what it is")
	}
}

// A request that is repeated with its token is the same though it is sealed to something else, and what
// is remembered of it is of no use without the keys.
func TestATokenStandsForWhatWasAskedToBeSealed(t *testing.T) {
	sealing := func(text string, more ...kv.Op) string {
		txn := kv.Txn{Token: "t", TokenNS: "game", Then: append([]kv.Op{jsonPut("game", "k", `{"$seal":"`+text+`"}`)}, more...)}
		require.NoError(t, asked(nil, guardtest.Ring()).Seal(&txn))
		require.NotEmpty(t, txn.Asked)
		return string(txn.Asked)
	}
	two := int64(2)
	first := sealing("x")
	require.Equal(t, first, sealing("x"))
	for _, other := range []string{
		sealing("y"), sealing("x", put("game", "l")), sealing("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1}),
		sealing("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1, Max: &two}), sealing("x", kv.Op{Kind: kv.OpIncr, NS: "game", Key: "n", Delta: 1, Min: &two}),
	} {
		require.NotEqual(t, first, other)
	}
	txn := kv.Txn{Token: "t", TokenNS: "game", Then: []kv.Op{jsonPut("game", "k", `{"n":1}`)}}
	require.NoError(t, asked(nil, guardtest.Ring()).Seal(&txn))
	require.Empty(t, txn.Asked, "others are as before")
}

func TestWhatCannotBeSealedInKeysIsRefused(t *testing.T) {
	ask := `{"$seal":"hunter2"}`
	for _, c := range []struct {
		ring *secret.Ring
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
		err := asked(nil, c.ring).Seal(&c.txn)
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
		require.NoError(t, asked(nil, guardtest.Ring()).Seal(&txn))
		op := txn.Then[0]
		require.False(t, op.Seal)
		require.NotEmpty(t, txn.Asked)
		require.True(t, op.Value.Sealed())
		require.Equal(t, kv.JSON, op.Value.Type)
		require.NoError(t, op.Value.Check())
		require.NotContains(t, string(op.Value.Data), "hunter2")

		e := &kv.Entry{NS: "copied", Key: "elsewhere", Value: op.Value}
		require.Equal(t, v, asked(may, guardtest.Ring()).Revealer(true).Entry(e).Value)
		require.Equal(t, op.Value, asked(none, guardtest.Ring()).Revealer(true).Entry(e).Value)
		_, err := asked(none, guardtest.Ring()).Revealer(true).Entry(e).Value.Int()
		require.ErrorIs(t, err, codes.WrongType)
		require.ErrorContains(t, err, "sealed")
		within := &kv.Entry{Value: kv.JSONValue([]byte(`{"a":` + string(op.Value.Data) + `}`))}
		require.NoError(t, asked(may, guardtest.Ring()).Revealer(true).Entry(within).Value.Check(), "within other JSON it is JSON")
	}
}

// A written value that only looks like a mark is read as it was written.
func TestWhatLooksLikeAMarkIsNone(t *testing.T) {
	txn := kv.Txn{Then: []kv.Op{toSeal(kv.StringValue("hunter2"))}}
	require.NoError(t, asked(nil, guardtest.Ring()).Seal(&txn))
	mark := txn.Then[0].Value
	for _, v := range []kv.Value{
		{Type: kv.String, Data: mark.Data}, {Type: kv.Bytes, Data: mark.Data}, kv.JSONValue([]byte(`"$secret:v2:k:AAAA:kv:game/k"`)),
		kv.JSONValue([]byte(`"$secret:v3:k:AAAA:kv:game/k"`)), kv.JSONValue([]byte(`{` + string(mark.Data) + `:1}`)),
	} {
		e := &kv.Entry{NS: "game", Key: "k", Value: v}
		require.Equal(t, v, asked(guardtest.Caller(t, "* kv"), guardtest.Ring()).Revealer(true).Entry(e).Value)
	}
	require.False(t, kv.StringValue("$secret:v1:").Sealed())
	require.False(t, kv.JSONValue([]byte(`"$secret"`)).Sealed())
}
