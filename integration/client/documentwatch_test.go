package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/confstore"
	"confcenter/internal/memory"
	"confcenter/kv"
)

func watchDocuments(t *testing.T, c *client.Client, o client.DocumentWatchOptions) *client.DocumentWatch {
	t.Helper()
	w, err := insisting(func() (*client.DocumentWatch, error) { return c.WatchDocuments(t.Context(), o) })
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// changed returns the next notice that has changes, as text.
func changed(t *testing.T, w *client.DocumentWatch) (n client.DocumentNotice, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var err error
		n, err = w.Next(ctx)
		require.NoError(t, err)
		if n.Kind != kv.Changed || len(n.Changes) > 0 {
			break
		}
	}
	for _, c := range n.Changes {
		text += fmt.Sprintf("%s %s was %s\n", c.Name, c.Contents, c.Old)
	}
	return n, text
}

// A watch on documents goes on behind restarts of the server, with what happened before, between
// and after, each change once.
func TestAWatchOnDocumentsGoesOnBehindRestarts(t *testing.T) {
	srv, c := real(t, clienttest.Options{})
	set := func(name, contents string) {
		t.Helper()
		_, err := insisting(func() (client.SetResult, error) {
			return c.Set(t.Context(), client.SetRequest{Name: name, Contents: []byte(contents)})
		})
		require.NoError(t, err)
	}
	set("base.json", `{"n":0}`)
	set("_meta.json", `{"conf_inherit":{"one.json":"base.json","two.json":"base.json"}}`)
	set("one.json", `{"own":1}`)
	set("two.json", `{"own":2}`)
	other := dial(t, srv.Address(), "watcher")
	w := watchDocuments(t, other, client.DocumentWatchOptions{Merged: true, State: true})
	for n, _ := changed(t, w); n.Kind != kv.Synced; {
		n, _ = changed(t, w)
	}
	part := watchDocuments(t, other, client.DocumentWatchOptions{Name: "one", Path: "/n", Merged: true})
	var last client.DocumentNotice
	for i := 1; i <= 12; i++ {
		set("base.json", fmt.Sprintf(`{"n":%d}`, i))
		if i%3 == 0 {
			srv.Restart()
		}
	}
	for i := 1; i <= 12; i++ {
		n, text := changed(t, w)
		require.Equal(t, fmt.Sprintf("base.json {\"n\":%d} was {\"n\":%d}\none.json {\"n\":%d,\"own\":1} was {\"n\":%d,\"own\":1}\ntwo.json {\"n\":%d,\"own\":2} was {\"n\":%d,\"own\":2}\n",
			i, i-1, i, i-1, i, i-1), text)
		require.Greater(t, n.Revision, last.Revision)
		last = n
		_, text = changed(t, part)
		require.Equal(t, fmt.Sprintf("one.json %d was %d\n", i, i-1), text)
	}
	paths, err := last.Changes[1].Paths()
	require.NoError(t, err)
	require.Equal(t, []client.PathChange{{Path: "/n", Old: []byte("11"), New: []byte("12")}}, paths)
	from := watchDocuments(t, other, client.DocumentWatchOptions{Name: "base.json", From: last.Revision - 1})
	_, text := changed(t, from)
	require.Equal(t, "base.json {\"n\":12} was {\"n\":11}\n", text)
}

// A base can have so many heirs that a revision of all of them takes more memory than there is for
// that: a watch on all begins anew, and misses nothing of what is there.
func TestAWatchOnTooManyHeirsBeginsAnew(t *testing.T) {
	files, heirs := map[string]string{"base.json": `{"n":0}`}, []string(nil)
	for i := range 40 {
		name := fmt.Sprintf("heirs/%02d.json", i)
		files[name] = `{}`
		heirs = append(heirs, fmt.Sprintf(`%q:"base.json"`, name))
	}
	files["_meta.json"] = `{"conf_inherit":{` + strings.Join(heirs, ",") + `}}`
	_, c := real(t, clienttest.Options{Files: files, Store: confstore.Config{Caches: memory.NewPool(1 << 20)}})
	all := watchDocuments(t, c, client.DocumentWatchOptions{Prefix: "heirs/", Merged: true})
	one := watchDocuments(t, c, client.DocumentWatchOptions{Name: "heirs/07", Merged: true})
	set := func(contents string) {
		_, err := c.Set(t.Context(), client.SetRequest{Name: "base.json", Contents: []byte(contents)})
		require.NoError(t, err)
	}
	set(`{"n":1}`)
	n, _ := changed(t, all)
	require.Len(t, n.Changes, 40)
	long := fmt.Sprintf(`{"s":%q}`, strings.Repeat("x", 50_000))
	set(long)
	n, _ = changed(t, all)
	require.Equal(t, kv.Resync, n.Kind)
	there := map[string]string{}
	for n.Kind != kv.Synced {
		n, _ = changed(t, all)
		for _, d := range n.Changes {
			there[d.Name] = string(d.Contents)
		}
	}
	require.Len(t, there, 40)
	for name, contents := range there {
		require.Equal(t, long, contents, name)
	}
	_, text := changed(t, one)
	require.Equal(t, "heirs/07.json {\"n\":1} was {\"n\":0}\n", text)
	_, text = changed(t, one)
	require.Equal(t, fmt.Sprintf("heirs/07.json %s was {\"n\":1}\n", long), text)
	_, err := c.Set(t.Context(), client.SetRequest{Name: "heirs/03.json", Contents: []byte(`{"s":1}`)})
	require.NoError(t, err)
	_, text = changed(t, all)
	require.Equal(t, fmt.Sprintf("heirs/03.json {\"s\":1} was %s\n", long), text)
}
