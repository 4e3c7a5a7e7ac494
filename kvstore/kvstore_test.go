package kvstore_test

import (
	"strings"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"

	"github.com/stretchr/testify/require"
)

func TestEnginesRefuseWhatTheyAreNotCapableOf(t *testing.T) {
	grant := kv.Op{Kind: kv.OpGrant, TTL: time.Minute}
	put := kv.Op{Kind: kv.OpPut, NS: "a", Key: "k", Value: kv.StringValue("v")}
	long := put
	long.Value = kv.StringValue(strings.Repeat("x", kv.MaxValue))
	for name, c := range map[string]struct {
		txn  *kv.Txn
		lack func(*kvstore.Capabilities)
		code codes.Code
	}{
		"many operations": {&kv.Txn{Else: make([]kv.Op, 129)}, func(c *kvstore.Capabilities) { c.ManyOps = false }, codes.TooManyOps},
		"many bytes":      {&kv.Txn{Then: []kv.Op{long, long}}, func(c *kvstore.Capabilities) { c.LargeTxns = false }, codes.TooLarge},
		"grant and put":   {&kv.Txn{Then: []kv.Op{grant, put}}, func(c *kvstore.Capabilities) { c.TxnLeases = false }, codes.BadOp},
		"revoke on a condition": {
			&kv.Txn{If: []kv.Compare{kv.Absent("a", "k")}, Then: []kv.Op{{Kind: kv.OpRevoke, Lease: 1}}},
			func(c *kvstore.Capabilities) { c.TxnLeases = false }, codes.BadOp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			able := kvstore.Everything()
			require.NoError(t, able.Check(c.txn))
			c.lack(&able)
			require.ErrorIs(t, able.Check(c.txn), c.code)
		})
	}
	var able kvstore.Capabilities
	require.NoError(t, able.Check(&kv.Txn{Then: []kv.Op{grant}, Token: "t", TokenNS: "a"}), "alone, a token does not matter")
	require.NoError(t, able.Check(&kv.Txn{Then: make([]kv.Op, 128)}))
	require.NoError(t, able.Check(&kv.Txn{Then: []kv.Op{long}}), "any single value")
}
