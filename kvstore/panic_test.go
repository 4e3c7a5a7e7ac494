package kvstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
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

// Likewise if it is in what a caller or a follower does with what it is told.
func TestAPanicOfWhoIsToldEndsWriting(t *testing.T) {
	for name, begin := range map[string]func(b *bench) error{
		"caller": func(b *bench) error {
			return b.Commit(kv.PutTxn("a", "k", kv.StringValue("1")), func(*kv.Result, error) { panic("planted") })
		},
		"caller of several": func(b *bench) error {
			_, err := b.CommitEach(panicking{}, writesOf(kv.PutTxn("a", "k", kv.StringValue("1"))))
			return err
		},
		"follower": func(b *bench) error {
			b.Follow(func(*kv.Batch) { panic("planted") })
			return b.Commit(kv.PutTxn("a", "k", kv.StringValue("1")), func(*kv.Result, error) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := onFake(t, Config{})
			require.NoError(t, begin(b))
			<-b.committer.ended
			require.Equal(t, "1", b.text("a", "k"))
			require.Equal(t, health.Stopped, b.Trouble().Kind)
			require.EqualValues(t, 1, b.Stats().Panics)
		})
	}
}

type panicking struct{}

func (panicking) Committed([]*kv.Write) { panic("planted") }
