package confstore

import (
	"os"
	"testing"

	"confcenter/confstore/snapshot"

	"github.com/stretchr/testify/require"
)

func TestOpenLoadsTheDirectory(t *testing.T) {
	k := newKit(t, map[string]string{
		"_meta.json":      `{"conf_inherit":{"app1-dev.json":"common.json app1.json"}}`,
		"common.json":     `{"a": 1.50, "c": "x"}`,
		"app1.json":       `{"a": 2}`,
		"app1-dev.json":   `{"b": 3}`,
		"sub/deep/x.json": `[1, 2]`,
		"plain.txt":       `no`,
		"x.json.bak":      `{}`,
		".hidden.json":    `{}`,
		".git/y.json":     `{}`,
		"broken.json":     `{`,
	})
	require.Equal(t, []string{"_meta.json", "app1-dev.json", "app1.json", "common.json", "sub/deep/x.json"}, k.Snapshot().Names())
	require.Equal(t, `{"a":1.50,"c":"x"}`, k.text("common"))
	require.JSONEq(t, `{"a":2,"b":3,"c":"x"}`, k.merged("app1-dev"))
	require.Equal(t, `[1,2]`, k.text("sub/deep/x.json"))
	value, found, ready := k.Snapshot().Find([]byte("app1-dev")).Lookup(true, []byte("/c"))
	require.True(t, found && ready)
	require.Equal(t, `"x"`, string(value))
}

func TestSetIsReadableAndOnTheDisk(t *testing.T) {
	k := newKit(t, nil)
	r := k.mustSet("new/a.json", `{"k":[1,{}]}`)
	require.Positive(t, r.Mtime)
	b := k.next()
	require.Equal(t, []string{"new/a.json"}, names(b))
	require.True(t, b.Changes[0].Own)
	require.Equal(t, `{"k":[1,{}]}`, k.text("new/a"))
	text, err := os.ReadFile(k.path("new/a.json"))
	require.NoError(t, err)
	require.Equal(t, "{\n    \"k\": [\n        1,\n        {}\n    ]\n}\n", string(text))
	k.none()
}

func TestEditedFileBecomesABatch(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	before := k.mtime("a.json")
	k.put("a.json", `{"v":2}`)
	b := k.next()
	require.Equal(t, []string{"a.json"}, names(b))
	require.Greater(t, k.mtime("a.json"), before)
	require.Equal(t, `{"v":2}`, k.text("a"))
	require.Equal(t, b.Snapshot, k.Snapshot())
}

func TestRemovedFileLeavesATombstoneAcrossRestart(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	require.NoError(t, os.Remove(k.path("a.json")))
	b := k.next()
	require.True(t, b.Changes[0].Node.Deleted())
	k.reopen()
	n := k.Snapshot().Node("a.json")
	require.True(t, n.Known() && n.Deleted())
	require.Equal(t, "{}", k.text("a"))
	require.Equal(t, b.Changes[0].Node.Mtime(false), n.Mtime(false))
}

func TestACancelledSubscriptionIsNotToldAgain(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	entered, leave := make(chan string, 2), make(chan struct{})
	calls := 0 // by the store's goroutine, read when that is past
	cancelBatches := m.Subscribe(func(*snapshot.Batch) {
		calls++
		entered <- "batch"
		<-leave
	})
	cancelNames := m.Follow(func(*snapshot.Snapshot, []string) { calls++ })
	require.NoError(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("2")}, func(SetResult, error) {}))
	<-entered
	cancelled := make(chan struct{})
	go func() {
		cancelBatches()
		close(cancelled)
	}()
	select {
	case <-cancelled:
		require.Fail(t, "it does not wait for the call under way")
	default:
	}
	close(leave)
	<-cancelled
	cancelNames()
	m.mustSet("a.json", `3`)
	m.inside(func() { require.Equal(t, 2, calls) })
	cancelBatches()
	require.Equal(t, []string{"a.json"}, names(m.next()), "others are told all the same")
	m.next()
}
