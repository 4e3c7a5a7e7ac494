package log_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
)

// A build before wrote large changes in parts, and may have ended when they counted and were not yet in
// place: what is served would be older than what was acknowledged.
func TestAChangeThatABuildBeforeLeftInPartsIsRefused(t *testing.T) {
	b := newBed(t)
	defer b.close()
	b.commit(set("a.json", "old"))
	_, err := kv.Commit(t.Context(), b.store, &kv.Txn{System: true, Then: []kv.Op{
		{Kind: kv.OpPut, NS: kv.ConfigNamespace, Key: "log", Value: kv.JSONValue([]byte(`{"epoch":"` + b.log.Epoch() + `","seq":2,"parts":1}`))},
	}})
	require.NoError(t, err)
	_, err = log.Open(t.Context(), b.store, "")
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, "that build, which finishes it")
}
