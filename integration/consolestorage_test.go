//go:build soak

package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	gateway "confcenter/server/http"
)

func TestConsoleStorage(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "storage", view{})
	other := secondClient(t, p)
	update := func(logic, id, body string) {
		t.Helper()
		other.ask(http.MethodPatch, "storage/1/1/"+url.PathEscape(logic)+"/"+url.PathEscape(id), nil, body)
	}
	tb.run("nothing_yet", func(t *testing.T) {
		tb.sees(".split.storage", "No player has fields yet.")
		tb.sees("#landing-sum", "There is no database")
	})
	const hostile = `<img src=x onerror=alert(1)>/&:%`
	for i := range 3 {
		update("player", fmt.Sprint("p", i), fmt.Sprintf(`{"fields":{"gold":"%d","name":"Ann"}}`, i))
	}
	update("guild", "g1", `{"fields":{"rank":"1"}}`)
	update(hostile, hostile, `{"fields":{"<b>":"<i>x</i>"},"bytes":{"pic":"/wA="}}`)
	tb.load("storage")
	tb.run("owners", func(t *testing.T) {
		tb.sees("#owner-count", "5 owners")
		tb.write("#kind", "player")
		tb.sees("#owner-count", "3 owners")
		tb.write("#owner-id", "p2")
		tb.until(`document.querySelectorAll("#owners .row").length === 1`)
	})
	tb.run("the_fields_of_one", func(t *testing.T) {
		tb.pick("owners", "p2")
		tb.sees("#owner-name", "p2")
		tb.sees("#fields", "Ann")
		require.Equal(t, "#/storage/1/1/player/p2", eval[string](tb, "location.hash"))
	})
	tb.run("fields_are_up_to_date", func(t *testing.T) {
		update("player", "p2", `{"fields":{"name":"Bea"}}`)
		tb.sees("#fields", "Bea")
	})
	tb.run("an_owner_that_is_not_listed_is_opened_by_its_id", func(t *testing.T) {
		tb.write("#kind", "guild")
		tb.write("#owner-id", "g1")
		tb.key("\r")
		tb.sees("#owner-name", "g1")
	})
	tb.run("ids_and_values_are_text", func(t *testing.T) {
		tb.load("storage/1/1/" + url.PathEscape(hostile) + "/" + url.PathEscape(hostile))
		tb.sees("#owner-name", hostile)
		tb.sees("#fields", "<i>x</i>")
		tb.sees("#fields .badge", "base64")
	})
	tb.run("in_chinese", func(t *testing.T) {
		tb.click("#language")
		tb.sees(".page-storage", "个所有者")
	})
}

// landed is a gateway on player storage with a database that a test plays.
type landed struct {
	*player.Storage
	t      *testing.T
	engine kvstore.Engine
	fence  kv.Revision
}

// noRows is a database that has nothing.
type noRows struct{}

func (noRows) Admit(player.Judge, bool) {}

func (noRows) Fields(context.Context, field.Owner, []string) ([]field.Row, error) {
	return nil, nil
}
func (noRows) All(context.Context, field.Owner) ([]field.Row, error)         { return nil, nil }
func (noRows) Owners(context.Context, player.OwnerQuery, func([]byte)) error { return nil }
func (noRows) Purge(context.Context, player.Purge) (player.Purged, error) {
	return player.Purged{}, nil
}
func (noRows) Tables(context.Context) ([]string, error) { return nil, nil }

func startLanded(t *testing.T) (*landed, *Process) {
	t.Helper()
	l := &landed{t: t, engine: memory.New(memory.Config{})}
	var err error
	l.Storage, err = player.Open(player.Config{Store: l.engine, Backing: noRows{}})
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{Listen: "127.0.0.1:0"}, gateway.Stores{State: l.engine, StateStats: l.engine.Stats, Storage: l.Storage}, nil)
	require.NoError(t, err)
	require.NoError(t, g.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), servertest.Patience)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
		require.NoError(t, l.Close())
		require.NoError(t, l.engine.Close())
	})
	ns, key := player.LockOf(0)
	lock := kv.PutTxn(ns, key, kv.StringValue("test"))
	lock.System = true
	held, err := kv.Commit(t.Context(), l.engine, lock)
	require.NoError(t, err)
	l.fence = held.Ops[0].Entry.Create
	return l, &Process{HTTP: g.Addr().String()}
}

// land plays a lander whose database refuses the fields called bad.
func (l *landed) land() (rows int) {
	l.t.Helper()
	batch, err := l.Dirty(l.t.Context(), 0, 0)
	require.NoError(l.t, err)
	if batch == nil {
		return 0
	}
	var failed []field.Failure
	for i := range batch.Rows {
		if row := &batch.Rows[i]; row.Name == "bad" {
			failed = append(failed, field.Failure{Table: row.Table(), Key: row.Key(), Reason: "Data too long for column 'value'"})
		}
	}
	require.NoError(l.t, l.Landed(l.t.Context(), l.fence, batch, failed))
	return len(batch.Rows)
}

func TestConsoleLanding(t *testing.T) {
	l, p := startLanded(t)
	other := secondClient(t, p)
	other.ask(http.MethodPatch, "storage/1/1/player/7", nil, `{"fields":{"good":"1","bad":"2"}}`)
	tb := startBrowser(t).open(p, "storage", view{})
	tb.run("what_is_still_to_be_landed", func(t *testing.T) {
		tb.sees("#landing-sum", "2 fields to land")
		tb.sees("#dirty-tables", "dirtyKey:0")
		tb.pick("owners", "7")
		tb.until(`document.querySelectorAll("#fields .badge.unsaved").length === 2`)
	})
	tb.run("landed_and_refused", func(t *testing.T) {
		require.Equal(t, 2, l.land())
		tb.sees("#fields .badge.good", "landed")
		tb.sees("#fields .badge.broken", "refused")
		tb.load("storage")
		tb.sees("#landing-sum", "0 fields to land · 1 refused")
		tb.sees("#refused", "Data too long for column 'value'")
	})
	tb.run("retry", func(t *testing.T) {
		require.Zero(t, l.land(), "its time has not come")
		tb.click("#retry-0")
		tb.told("1 field is tried again.")
		require.Eventually(t, func() bool { return l.land() == 1 }, servertest.Patience, time.Millisecond)
		tb.until(`document.querySelector("#refused td:nth-child(4)").textContent === "2"`)
		tb.click("#retry-all")
		require.Eventually(t, func() bool { return l.land() == 1 }, servertest.Patience, time.Millisecond)
	})
	tb.run("give_up", func(t *testing.T) {
		tb.click("#drop-0")
		tb.write("#confirm-word", "bad")
		tb.click("#confirm-yes")
		tb.sees("#refused .badge", "given up")
		tb.misses("#drop-all")
		require.EqualValues(t, 1, l.Status()[0].Dropped)
		require.Equal(t, map[string]any{"bad": "2", "good": "1"}, other.ask(http.MethodGet, "storage/1/1/player/7", nil, "")["fields"], "the value stays")
	})
	tb.run("give_all_up", func(t *testing.T) {
		for _, owner := range []string{"8", "9"} {
			other.ask(http.MethodPatch, "storage/1/1/player/"+owner, nil, `{"fields":{"bad":"3"}}`)
			require.NotZero(t, l.land())
		}
		tb.sees("#landing-sum", "2 refused")
		tb.click("#drop-all")
		tb.sees("#confirm", "Give up landing 2 fields?")
		tb.click("#confirm-yes")
		tb.misses("#drop-all")
		require.EqualValues(t, 3, l.Status()[0].Dropped)
	})
}
