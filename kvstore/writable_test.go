package kvstore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
)

func TestWritableSaysWhyWritesAreNotTaken(t *testing.T) {
	b := onFake(t, Config{})
	require.NoError(t, b.Writable())
	require.Nil(t, b.Trouble())
	full := codes.Errorf(codes.Quota, "full")
	b.disk.set(nil, full, nil)
	require.Equal(t, full, b.Writable(), "although deletes are taken")
	require.Equal(t, health.Full, b.Trouble().Kind)
	b.disk.set(nil, full, full)
	_, err := b.do(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "a", Key: "k"}}})
	require.NoError(t, err, "there is nothing to delete")
	_, err = b.do(&kv.Txn{System: true, Lessens: true, Then: kv.PutTxn("a", "k", kv.IntValue(1)).Then})
	require.NoError(t, err, "though not even deletes are taken")
	_, err = b.do(&kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "a", Key: "k"}}})
	require.Equal(t, full, err)
	b.disk.set(errors.New("no such sector"), nil, nil)
	require.NoError(t, b.Writable())
	_, err = b.do(kv.PutTxn("a", "k", kv.IntValue(1)))
	require.Error(t, err)
	require.ErrorIs(t, b.Writable(), codes.Storage, "a write has failed: there will be no more")
	require.Equal(t, health.Failed, b.Trouble().Kind)
	require.True(t, b.Trouble().Restart)
	require.NoError(t, b.Store.Close())

	b = onFake(t, Config{})
	require.NoError(t, b.Store.Close())
	require.ErrorIs(t, b.Writable(), codes.Closed)
}
