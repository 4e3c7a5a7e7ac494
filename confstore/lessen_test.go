package confstore

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// TestAChangeThatTakesAwayIsMadeThoughTheDiskIsFull: alone, whatever waits with it, and though something
// was edited before that could not be remembered.
func TestAChangeThatTakesAwayIsMadeThoughTheDiskIsFull(t *testing.T) {
	k := newMemKit(t, map[string]string{"_access/r.json": `{"n":9}`, "a.json": `{"n":1}`})
	k.cfg.Lessens = func(name string, before, contents []byte) bool {
		return strings.HasPrefix(name, "_access/") && len(contents) < len(before)
	}
	k.reopen()
	full := k.cfg.State.(interface{ SetFull(bool) })
	full.SetFull(true)
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte(`{}`)})
	require.Equal(t, codes.Storage, codes.Of(err))
	_, err = k.set(SetRequest{Name: "_access/r.json", Contents: []byte(`{"n":10}`)})
	require.Equal(t, codes.Storage, codes.Of(err), "it does not take away")
	_, err = k.set(SetRequest{Name: "_access/r.json", Contents: []byte(`{"n":8}`)})
	require.Equal(t, codes.Storage, codes.Of(err))

	k.edit("a.json", `{"n":2}`, 2000)
	require.Equal(t, `{"n":2}`, k.text("a.json"), "it is served")
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, 3)
	k.inside(func() { // so that they wait together
		for _, name := range []string{"b.json", "_access/r.json", "c.json"} {
			require.NoError(t, k.Set(SetRequest{Name: name, Contents: []byte(`{}`)}, func(_ SetResult, err error) { answers <- answer{name, err} }))
		}
	})
	for range 3 {
		a := <-answers
		want := codes.Storage
		if a.name == "_access/r.json" {
			want = codes.OK
		}
		require.Equal(t, want, codes.Of(a.err), "%s: %v", a.name, a.err)
	}
	require.Equal(t, `{}`, k.text("_access/r.json"))
	full.SetFull(false)
	k.await("the edit is remembered", func() bool {
		k.clock.Advance(time.Minute)
		return len(k.unsavedNames()) == 0
	})
	k.reopen()
	require.Equal(t, `{}`, k.text("_access/r.json"))
	require.Equal(t, `{"n":2}`, k.text("a.json"))
}

// unsavedNames are the documents that the log does not have as they are served.
func (k *kit) unsavedNames() (names []string) {
	k.inside(func() {
		for name := range k.writer.unsaved {
			names = append(names, name)
		}
	})
	return names
}
