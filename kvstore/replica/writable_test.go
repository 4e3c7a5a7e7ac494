package replica

import (
	"errors"
	"testing"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

func TestWritableSaysWhyWritesAreNotTaken(t *testing.T) {
	b := onFake(t, Config{})
	require.NoError(t, b.Writable())
	full := codes.Errorf(codes.Quota, "full")
	b.disk.set(nil, full, nil)
	require.Equal(t, full, b.Writable(), "although deletes are taken")
	b.disk.set(errors.New("no such sector"), nil, nil)
	require.NoError(t, b.Writable())
	_, err := b.do(kv.PutTxn("a", "k", kv.IntValue(1)))
	require.Error(t, err)
	require.ErrorIs(t, b.Writable(), codes.Storage, "a write has failed: there will be no more")
	require.NoError(t, b.Store.Close())

	b = onFake(t, Config{})
	require.NoError(t, b.Store.Close())
	require.ErrorIs(t, b.Writable(), codes.Closed)
}
