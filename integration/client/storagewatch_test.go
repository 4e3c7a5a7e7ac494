package client_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/kv"
)

// The code of docs/storage.md comes first, word for word.

func followBag(ctx context.Context, bag *client.Owner, show func(fields map[string][]byte)) error {
	w, err := bag.Watch(ctx, client.WatchOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	fields, err := bag.All(ctx) // also those that only the database has
	if err != nil {
		return err
	}
	show(fields)
	for n, err := range w.Events(ctx) {
		if err == nil && n.Kind == kv.Resync { // changes are lost for good
			fields, err = bag.All(ctx)
		}
		if err != nil {
			return err
		}
		for _, change := range n.Changes {
			if change.Removed {
				delete(fields, change.Name)
			} else {
				fields[change.Name] = change.Value
			}
		}
		show(fields)
	}
	return nil
}

// watchFields waits for a watch of fields, which must succeed.
func watchFields(t *testing.T, open func(context.Context, client.WatchOptions) (*client.FieldWatch, error), opts client.WatchOptions) *client.FieldWatch {
	t.Helper()
	w, err := open(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w
}

// told requires that these come next, however many of them are in a notice.
func told(t *testing.T, w *client.FieldWatch, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for len(got) < len(want) {
		n, err := w.Next(ctx)
		require.NoError(t, err, "after %q", got)
		if n.Kind == kv.Synced {
			got = append(got, "synced")
		}
		for _, c := range n.Changes {
			require.LessOrEqual(t, c.Revision, n.Revision)
			text := fmt.Sprintf("%s %s:%s.%s=%s", n.Kind, c.Owner.Logic, c.Owner.ID, c.Name, c.Value)
			if c.Removed {
				text += " (removed)"
			}
			got = append(got, text)
		}
	}
	require.Equal(t, want, got)
}

func TestStorageChangeNotificationOfAnOwner(t *testing.T) {
	c, o := bag(t)
	ctx := t.Context()
	w := watchFields(t, o.Watch, client.WatchOptions{})
	for _, other := range []*client.Owner{c.Storage().Owner("bag", "4"), c.Storage().Owner("bag", "42:"), c.Storage().Owner("bags", "42"), c.StorageOf("1", "2").Owner("bag", "42")} {
		update(t, other, "gold", "0")
	}
	done := update(t, o, "gold", "1", "name:", "Ann")
	n, err := w.Next(ctx)
	require.NoError(t, err)
	gold := client.FieldChange{Revision: done.Revision, Value: []byte("1")}
	gold.Owner.App, gold.Owner.Region, gold.Owner.Logic, gold.Owner.ID, gold.Name = "1", "1", "bag", "42", "gold"
	name := gold
	name.Name, name.Value = "name:", []byte("Ann")
	require.Equal(t, client.FieldNotice{Kind: kv.Changed, Revision: done.Revision, Changes: []client.FieldChange{gold, name}}, n)

	_, err = o.Incr(ctx, map[string]int64{"gold": 4})
	require.NoError(t, err)
	_, err = o.Remove(ctx, []string{"gold"})
	require.NoError(t, err)
	_, err = o.Restore(ctx, []string{"gold"})
	require.NoError(t, err)
	later := []string{"changed bag:42.gold=5", "changed bag:42.gold=5 (removed)", "changed bag:42.gold=5"}
	told(t, w, later...)
	told(t, watchFields(t, o.Watch, client.WatchOptions{From: done.Revision}), later...)
	_, err = o.Remove(ctx, []string{"name:"})
	require.NoError(t, err)
	told(t, watchFields(t, o.Watch, client.WatchOptions{State: true}), "state bag:42.gold=5", "state bag:42.name:=Ann (removed)", "synced")

	told(t, w, "changed bag:42.name:=Ann (removed)")
	w.Stop()
	_, err = w.Next(ctx)
	require.ErrorIs(t, err, client.ErrClosed)
}

func TestStorageChangeNotificationOfARegion(t *testing.T) {
	c, _ := bag(t)
	s := c.Storage()
	all := watchFields(t, func(ctx context.Context, o client.WatchOptions) (*client.FieldWatch, error) {
		return s.Watch(ctx, "", o)
	}, client.WatchOptions{})
	kind := func(ctx context.Context, o client.WatchOptions) (*client.FieldWatch, error) {
		return s.Watch(ctx, "bag", o)
	}
	bags := watchFields(t, kind, client.WatchOptions{})
	update(t, s.Owner("bag", "a:b"), "k", "1")
	update(t, s.Owner("guild", "7"), "k", "2")
	update(t, c.StorageOf("1", "2").Owner("bag", "7"), "k", "3")
	update(t, s.Owner("bag", "7"), "k", "4")
	told(t, all, "changed bag:a:b.k=1", "changed guild:7.k=2", "changed bag:7.k=4")
	told(t, bags, "changed bag:a:b.k=1", "changed bag:7.k=4")
	told(t, watchFields(t, kind, client.WatchOptions{State: true}), "state bag:a:b.k=1", "state bag:7.k=4", "synced")
}

// Connections break at random: every change is told once, in its order.
func TestStorageChangeNotificationUnderLoss(t *testing.T) {
	const writes = 300
	srv, c := real(t, clienttest.Options{})
	o := c.Storage().Owner("bag", "42")
	w := watchFields(t, o.Watch, client.WatchOptions{})
	begun, stop := shaking(srv)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range writes {
			if i == writes-1 {
				<-begun
			}
			if _, err := insisting(func() (client.Changed, error) { return o.Incr(t.Context(), map[string]int64{"n": 1}) }); err != nil {
				t.Error(err)
			}
		}
	})
	for sum := 0; sum < writes; {
		n, err := w.Next(t.Context())
		require.NoError(t, err)
		for _, change := range n.Changes {
			sum++
			require.Equal(t, strconv.Itoa(sum), string(change.Value))
		}
	}
	wg.Wait()
	stop()
}

func TestStorageChangeNotificationRefusesByName(t *testing.T) {
	c, o := bag(t)
	try := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"key, prefix and prev must not be set": try(o.Watch(t.Context(), client.WatchOptions{Key: "gold"})),
		"prefix and prev":                      try(c.Storage().Watch(t.Context(), "", client.WatchOptions{Prefix: "bag:"})),
		`watch of "bag:42"`:                    try(o.Watch(t.Context(), client.WatchOptions{Prev: true})),
		"owner_id is empty":                    try(c.Storage().Owner("bag", "").Watch(t.Context(), client.WatchOptions{})),
		"regionId is empty":                    try(c.StorageOf("1", "").Watch(t.Context(), "bag", client.WatchOptions{})),
	} {
		require.ErrorContains(t, err, what)
		require.NotEqual(t, codes.Internal, codes.Of(err), what)
	}
	_, err := o.Watch(t.Context(), client.WatchOptions{From: 1 << 40})
	require.ErrorIs(t, err, codes.FutureRevision)
}

func TestStorageFollowingABag(t *testing.T) {
	_, o := bag(t)
	update(t, o, "gold", "1", "name", "Ann")
	shown, followed := make(chan map[string]string, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		followed <- followBag(ctx, o, func(fields map[string][]byte) {
			texts := map[string]string{}
			for name, value := range fields {
				texts[name] = string(value)
			}
			shown <- texts
		})
	}()
	until := func(want map[string]string) {
		for !maps.Equal(want, <-shown) {
		}
	}
	until(map[string]string{"gold": "1", "name": "Ann"})
	update(t, o, "gold", "2", "level", "3")
	_, err := o.Remove(t.Context(), []string{"name"})
	require.NoError(t, err)
	until(map[string]string{"gold": "2", "level": "3"})
	cancel()
	require.ErrorIs(t, <-followed, context.Canceled)
}
