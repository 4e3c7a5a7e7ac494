package kills

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/dbtest"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/player/landing"
	_ "confcenter/player/landing/mysql" // the database that is landed in
)

const (
	playerWriters  = 4
	ownersOfWriter = 6
)

// playerLoad is a server that does not land itself, two landers, MariaDB, and writers with
// owners of their own, whose numbers only rise.
type playerLoad struct {
	t        *testing.T
	server   *process.Process
	landers  [2]*process.Program
	mariadb  *dbtest.Server
	db       *landing.Database
	database string // its name
	client   *client.Client

	owners   []*playerOwner
	stopping chan struct{}
	writers  sync.WaitGroup
}

// playerOwner is what one writer knows of one owner: n and gone are set to the same number, sum
// is raised by 1, and gone is sometimes removed.
type playerOwner struct {
	id          string
	sent, acked atomic.Int64 // numbers
	raised      atomic.Int64 // increments that were acknowledged
	unknown     atomic.Int64 // writes of which no one knows whether they took effect
}

// startPlayers starts all of it. Claims last for lockTime seconds.
func startPlayers(t *testing.T, lockTime int) *playerLoad {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "landing.json"),
		fmt.Appendf(nil, `{"homo.dirty.landing.delayTime":1,"homo.dirty.tableNum":4,"homo.dirty.lock.expireTime":%d,"homo.dirty.landing.batchNum":7}`, lockTime), 0o644))
	l := &playerLoad{t: t, mariadb: dbtest.MariaDB(t), stopping: make(chan struct{})}
	dsn := l.mariadb.Database(t)
	l.database = regexp.MustCompile(`/(\w+)\?`).FindStringSubmatch(dsn)[1]
	var err error
	l.db, err = landing.OpenDatabase(dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.db.Close()) })
	l.server = process.Start(t, conf, "--landing", dsn, "--lander=false")
	for i := range l.landers {
		l.landers[i] = process.StartLander(t, l.server, dsn, fmt.Sprint("lander-", i))
	}
	l.client = l.dial()
	t.Cleanup(func() { require.NoError(t, l.client.Close()) })
	for i := range playerWriters * ownersOfWriter {
		l.owners = append(l.owners, &playerOwner{id: strconv.Itoa(i)})
	}
	l.write(l.client.Storage(), l.owners[0])
	l.landsAll([]int64{1})
	l.witness()
	for i := range playerWriters {
		own := l.owners[i*ownersOfWriter:][:ownersOfWriter]
		c := l.dial()
		l.writers.Go(func() {
			defer c.Close()
			for round := 0; ; round++ {
				select {
				case <-l.stopping:
					return
				default:
					l.write(c.Storage(), own[round%len(own)])
				}
			}
		})
	}
	return l
}

func (l *playerLoad) dial() *client.Client {
	c, err := client.Dial(l.t.Context(), client.Config{Addrs: []string{l.server.Addr}, Name: "player", StateWaits: true, MaxBackoff: 50 * time.Millisecond})
	require.NoError(l.t, err)
	return c
}

// write changes an owner in each of the ways there are.
func (l *playerLoad) write(s *client.Storage, o *playerOwner) {
	owner, ctx := s.Owner("player", o.id), context.Background()
	n := o.sent.Add(1)
	text := []byte(strconv.FormatInt(n, 10))
	if _, err := owner.Update(ctx, map[string][]byte{"n": text, "gone": text}); err == nil {
		o.acked.Store(n)
	}
	if _, err := owner.Incr(ctx, map[string]int64{"sum": 1}); err == nil {
		o.raised.Add(1)
	} else {
		o.unknown.Add(1)
	}
	if n%3 == 0 {
		_, _ = owner.Remove(ctx, []string{"gone"}) // whether it did is seen in the end
	}
}

// witness has MariaDB note each row that gives way to an older one.
func (l *playerLoad) witness() {
	db := l.mariadb.DB(l.t)
	for _, statement := range []string{
		"CREATE TABLE " + l.database + ".older (what VARCHAR(255))",
		"CREATE TRIGGER " + l.database + ".witness BEFORE UPDATE ON " + l.database + ".`1_1` FOR EACH ROW " +
			"IF NEW.up_version < OLD.up_version OR CAST(NEW.value AS SIGNED) < CAST(OLD.value AS SIGNED) THEN " +
			"INSERT INTO older VALUES (CONCAT(OLD.primary_key, ' ', OLD.value, ' v', OLD.up_version, ' -> ', NEW.value, ' v', NEW.up_version)); END IF",
	} {
		_, err := db.Exec(statement)
		require.NoError(l.t, err, statement)
	}
}

// stop ends the writers once their last writes are answered.
func (l *playerLoad) stop() {
	close(l.stopping)
	l.writers.Wait()
}

// acked are the numbers acknowledged so far.
func (l *playerLoad) acked() (list []int64) {
	for _, o := range l.owners {
		list = append(list, o.acked.Load())
	}
	return list
}

// landsAll waits until the database has those numbers, or later ones.
func (l *playerLoad) landsAll(want []int64) {
	l.t.Helper()
	l.eventually("the database does not get what was acknowledged", func() error {
		for i, n := range want {
			rows, err := l.rows(l.owners[i])
			if err != nil {
				return err
			}
			if has, _ := strconv.ParseInt(string(rows["n"].Value), 10, 64); has < n {
				return fmt.Errorf("owner %s has %d of %d", l.owners[i].id, has, n)
			}
		}
		return nil
	})
}

func (l *playerLoad) rows(o *playerOwner) (map[string]field.Row, error) {
	list, err := l.db.All(l.t.Context(), field.Owner{App: "1", Region: "1", Logic: "player", ID: o.id})
	rows := map[string]field.Row{}
	for _, r := range list {
		rows[r.Name] = r
	}
	return rows, err
}

// eventually waits until look finds nothing wrong.
func (l *playerLoad) eventually(what string, look func() error) {
	l.t.Helper()
	var wrong error
	for tick, late := time.NewTicker(20*time.Millisecond), time.After(2*servertest.Patience); ; {
		if wrong = look(); wrong == nil {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-late:
			require.FailNow(l.t, what, "%v\nserver:\n%s\nlanders:\n%s\n\n%s", wrong, l.server.Said(), l.landers[0].Said(), l.landers[1].Said())
		}
	}
}

// agrees checks, once the writers have ended, that the database comes to have what the store
// has, that nothing acknowledged is missing, and that no row has ever given way to an older one.
func (l *playerLoad) agrees() (acked int64) {
	l.t.Helper()
	for _, o := range l.owners {
		fields, err := l.client.Storage().Owner("player", o.id).GetVersions(l.t.Context(), "n", "sum", "gone")
		require.NoError(l.t, err)
		in := map[string]client.StorageField{}
		for _, f := range fields {
			in[f.Name] = f
		}
		number := func(name string) int64 { n, _ := strconv.ParseInt(string(in[name].Value), 10, 64); return n }
		require.GreaterOrEqual(l.t, number("n"), o.acked.Load(), "n of owner %s", o.id)
		require.LessOrEqual(l.t, number("n"), o.sent.Load(), "n of owner %s", o.id)
		require.GreaterOrEqual(l.t, number("sum"), o.raised.Load(), "sum of owner %s", o.id)
		require.LessOrEqual(l.t, number("sum"), o.raised.Load()+o.unknown.Load(), "sum of owner %s", o.id)
		l.eventually("the database differs from the store", func() error {
			rows, err := l.rows(o)
			if err != nil {
				return err
			}
			for _, name := range []string{"n", "sum", "gone"} {
				f, lives := in[name]
				r, there := rows[name]
				if there == r.Removed && lives || there && !r.Removed && !lives ||
					lives && (string(r.Value) != string(f.Value) || r.Version != f.Version) {
					return fmt.Errorf("owner %s, %s: %+v in the store, %+v in the database", o.id, name, f, r)
				}
			}
			return nil
		})
		acked += o.acked.Load() + o.raised.Load()
	}
	tables, err := l.client.Landing().Status(l.t.Context())
	require.NoError(l.t, err)
	for _, table := range tables {
		require.Zero(l.t, table.Refused, table.List)
	}
	var older sql.NullString
	require.NoError(l.t, l.mariadb.DB(l.t).QueryRow("SELECT GROUP_CONCAT(what) FROM "+l.database+".older").Scan(&older))
	require.Empty(l.t, older.String, "rows that gave way to older ones")
	return acked
}

// holders follows who has which dirty table.
type holders struct {
	mu    sync.Mutex
	of    map[string]string // guarded by mu: the lander by lock
	twice []string          // guarded by mu: claims of what another lander had
}

// holders watches the claims until the test ends.
func (l *playerLoad) holders() *holders {
	w, err := l.client.KV(field.Landing).Watch(l.t.Context(), client.WatchOptions{Prefix: "lock/", State: true})
	require.NoError(l.t, err)
	h := &holders{of: map[string]string{}}
	var all sync.WaitGroup
	all.Go(func() {
		for notice, err := range w.Events(context.Background()) {
			if err != nil {
				return
			}
			h.see(notice.Events)
		}
	})
	l.t.Cleanup(func() { w.Stop(); all.Wait() })
	return h
}

func (h *holders) see(events []kv.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		had, has := h.of[e.Entry.Key], ""
		if e.Kind == kv.Put {
			has = string(e.Entry.Value.Data)
		}
		if had != "" && has != "" && had != has {
			h.twice = append(h.twice, fmt.Sprintf("%s: %s, then %s", e.Entry.Key, had, has))
		}
		h.of[e.Entry.Key] = has
	}
}

// await waits until a lander has a dirty table.
func (h *holders) await(l *playerLoad, lander string) {
	l.t.Helper()
	l.eventually(lander+" gets no table", func() error {
		if !h.has(lander) {
			return errors.New("it has none")
		}
		return nil
	})
}

// has reports whether a lander has a dirty table.
func (h *holders) has(lander string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.of {
		if one == lander {
			return true
		}
	}
	return false
}

func (h *holders) seenTwice() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.twice
}
