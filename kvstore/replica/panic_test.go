package replica

import (
	"testing"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

// A fault of the committer ends writing as a failed disk does, and nothing else.
func TestAPanicOfTheCommitterEndsWriting(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(kv.PutTxn("a", "k", kv.StringValue("kept")))
	b.allow()
	<-first
	b.disk.mu.Lock()
	b.disk.panics = "planted"
	b.disk.mu.Unlock()
	flying := b.begin(kv.PutTxn("a", "k", kv.StringValue("lost?")))
	<-b.disk.entered
	behind := b.begin(kv.PutTxn("a", "k", kv.IntValue(1)))
	b.disk.gate <- struct{}{}
	require.ErrorIs(t, (<-flying).err, codes.Timeout, "nobody knows")
	require.ErrorIs(t, (<-behind).err, codes.Storage)
	require.ErrorIs(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(1)), nil), codes.Storage)
	require.Equal(t, health.Stopped, b.Trouble().Kind)
	require.True(t, b.Trouble().Restart)
	require.Equal(t, "kept", b.text("a", "k"))
	v := b.View()
	defer v.Close()
	_, err := v.Get("a", "k")
	require.NoError(t, err)
	_, err = b.Changes(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1, b.Stats().Panics)
	require.Zero(t, b.Stats().Queue)
}

// Likewise if it comes before the group was looked at.
func TestAPanicBetweenGroupsAnswersTheNext(t *testing.T) {
	b := onFake(t, Config{})
	b.must(put("k", "kept"))
	b.disk.mu.Lock()
	b.disk.lost = "planted"
	b.disk.mu.Unlock()
	_, err := b.do(kv.PutTxn("a", "k", kv.IntValue(1)))
	require.ErrorIs(t, err, codes.Storage, "it was not tried")
	require.Equal(t, "kept", b.text("a", "k"))
	require.Equal(t, health.Stopped, b.Trouble().Kind)
	require.Zero(t, b.Stats().Queue)
}

// Likewise if it comes after those who waited were answered.
func TestAPanicOfALogThatHungAnswersNobodyTwice(t *testing.T) {
	b := gated(t, Config{})
	b.disk.panics = "planted"
	flying := b.begin(kv.PutTxn("a", "k", kv.IntValue(1)))
	<-b.disk.entered
	require.ErrorIs(t, b.patience(flying).err, codes.Timeout)
	b.disk.gate <- struct{}{}
	<-b.committer.ended
	require.Empty(t, flying)
	require.Equal(t, health.Stopped, b.Trouble().Kind)
	require.Zero(t, b.Stats().Queue)
}

// Who is told may panic without harm to others.
func TestAPanicOfACallerIsContained(t *testing.T) {
	b := onFake(t, Config{})
	require.NoError(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(1)), func(*kv.Result, error) { panic("planted") }))
	_, err := b.CommitEach(panicking{}, writesOf(kv.PutTxn("a", "k", kv.IntValue(2))))
	require.NoError(t, err)
	b.must(put("k", "3"))
	require.Equal(t, "3", b.text("a", "k"))
	b.settled() // of one group, callers of several transactions are told last
	require.EqualValues(t, 2, b.Stats().Panics)
	require.Nil(t, b.Trouble())
}

type panicking struct{}

func (panicking) Committed([]*kv.Write) { panic("planted") }

// A follower that panics has missed something, but the others have not.
func TestAPanicOfAFollowerEndsWritingAfterTheOthersWereTold(t *testing.T) {
	b := onFake(t, Config{})
	b.Follow(func(*kv.Batch) { panic("planted") })
	told := make(chan *kv.Batch, 1)
	b.Follow(func(batch *kv.Batch) { told <- batch })
	_, err := b.do(kv.PutTxn("a", "k", kv.IntValue(1)))
	require.ErrorIs(t, err, codes.Timeout)
	require.EqualValues(t, 1, (<-told).Changes[0].Revision)
	require.Equal(t, "1", b.text("a", "k"))
	require.Equal(t, health.Stopped, b.Trouble().Kind)
}
