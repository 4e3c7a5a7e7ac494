package kvtest

import (
	"testing"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

func TestMemoryKeepsWhatIsOnItsDisk(t *testing.T) {
	disk := &MemoryDisk{}
	m := NewMemory(MemoryConfig{Disk: disk})
	answer := make(chan error, 1)
	require.NoError(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(5)), func(_ *kv.Result, err error) { answer <- err }))
	require.NoError(t, <-answer)
	before, revision := m.Get([]byte("ns"), []byte("key"))
	m.Kill()

	m = NewMemory(MemoryConfig{Disk: disk})
	after, again := m.Get([]byte("ns"), []byte("key"))
	require.Equal(t, before, after)
	require.Equal(t, revision, again)
	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(5)), nil), codes.Closed)
}

func TestMemoryRefusesWhatItsQueueCannotTake(t *testing.T) {
	m := NewMemory(MemoryConfig{MaxQueue: 2})
	held, release := make(chan struct{}), make(chan struct{})
	nothing := func(*kv.Result, error) {}
	require.NoError(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(5)), func(*kv.Result, error) {
		close(held)
		<-release
	}))
	<-held
	require.NoError(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(6)), nothing))
	require.NoError(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(7)), nothing))
	require.ErrorIs(t, m.Commit(kv.PutTxn("ns", "key", kv.IntValue(8)), nothing), codes.Busy)
	require.Equal(t, int64(2), m.Stats().Queue)
	close(release)
	require.NoError(t, m.Close())
	require.Equal(t, uint64(1), m.Stats().Busy)
}
