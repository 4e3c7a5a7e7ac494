package confstore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/change"
	"confcenter/kvstore/memory"
)

// What is done to a file while it is being replaced is not lost: it is an edit that comes after
// the write.
func TestAnEditDuringAWriteComesAfterIt(t *testing.T) {
	const old, set, edited = `{"v":"old"}`, `{"v":"set"}`, `{"v":"edited"}`
	replace := func(k *kit) {
		k.put("../elsewhere.json", edited)
		require.NoError(t, os.Rename(k.path("../elsewhere.json"), k.path("a.json")))
	}
	for what, c := range map[string]struct {
		before, written string // "" is none
		edit            func(*kit)
		want            string
	}{
		"replaced during a set":    {old, set, replace, edited},
		"written during a set":     {old, set, func(k *kit) { k.put("a.json", edited) }, edited},
		"created during a set":     {"", set, replace, edited},
		"removed during a set":     {old, set, func(k *kit) { require.NoError(t, os.Remove(k.path("a.json"))) }, ""},
		"replaced during a delete": {old, "", replace, edited},
		"touched during a set":     {old, set, func(k *kit) { k.touch("a.json", 1000) }, set},
	} {
		t.Run(what, func(t *testing.T) {
			files := map[string]string{"b.json": old}
			if c.before != "" {
				files["a.json"] = c.before
			}
			k := newKit(t, files)
			require.NoError(t, k.Close())
			state := &watched{Store: k.cfg.State.(*memory.Store)}
			k.cfg.State = state
			k.open()
			made := 0
			state.hook = func(step string) error {
				if step == "commit" && made == 0 {
					c.edit(k)
					made++
				}
				return nil
			}
			list := []change.Document{{Name: "a.json"}, write("b.json", set)}
			if c.written != "" {
				list[0].File = []byte(c.written)
			}
			result, err := changeNow(t, k.Store, change.Request{Documents: list})
			require.NoError(t, err)
			require.Len(t, result.Documents, 2)
			served := func() string {
				if k.Snapshot().Node("a.json").Deleted() {
					return ""
				}
				return k.text("a.json")
			}
			k.await("the edit", func() bool { return served() == c.want })
			require.Equal(t, set, k.text("b.json"))
			k.Reload()
			require.Equal(t, c.want, served())
			text, _ := os.ReadFile(k.path("a.json"))
			require.Equal(t, c.want, string(text))
			d, err := k.writer.log.Document("a.json")
			require.NoError(t, err)
			versions, err := k.writer.log.Versions(t.Context(), "a.json", 0, 10)
			require.NoError(t, err)
			if c.want != c.written {
				require.Greater(t, d.Revision, result.Revision, "a version of its own")
				versions = versions[1:]
			}
			require.Equal(t, c.written, string(versions[0].File), "what was set is a version, too")
			require.Equal(t, result.Revision, versions[0].Revision)
			k.reopen()
			require.Equal(t, c.want, served())
		})
	}
}
