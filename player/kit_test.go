package player

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
	"confcenter/player/field"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// player is the owner most tests are about.
var player = field.Owner{App: "1", Region: "1", Logic: "user", ID: "100"}

// kit is a Storage in a test.
type kit struct {
	*Storage
	t       testing.TB
	clock   *clocktest.Fake
	engine  kvstore.Engine
	sql     *database // nil: none
	cfg     Config
	fences  map[int]kv.Revision
	stopped bool
}

// start opens a Storage without a database.
func start(t testing.TB) *kit { return startOn(t, nil) }

// startOn opens a Storage that is landed in a database.
func startOn(t testing.TB, sql *database, change ...func(*Config)) *kit {
	fake := clocktest.NewFake(time.Unix(1_700_000_000, 0))
	k := &kit{t: t, clock: fake, engine: memory.New(memory.Config{Clock: fake}), sql: sql, fences: map[int]kv.Revision{}}
	k.cfg = Config{Store: k.engine, Clock: fake, Settings: field.Defaults()}
	k.cfg.Settings.Idle = 0
	if sql != nil {
		k.cfg.Backing = sql
	}
	for _, fn := range change {
		fn(&k.cfg)
	}
	k.open()
	t.Cleanup(func() {
		k.shut()
		require.NoError(t, k.engine.Close())
	})
	return k
}

// moved takes the place of a store that has lost its data directory.
func moved(c *Config) { c.Moved = true }

func (k *kit) open() {
	var err error
	k.Storage, err = Open(k.cfg)
	require.NoError(k.t, err)
	k.stopped, k.cfg.Moved = false, false // which is for one start
}

func (k *kit) shut() {
	if !k.stopped {
		require.NoError(k.t, k.Storage.Close())
		k.stopped = true
	}
}

// reopen ends the Storage, but not the store.
func (k *kit) reopen() {
	k.shut()
	k.open()
}

type outcome struct {
	out *field.Outcome
	err error
}

func (k *kit) try(w *field.Write) (*field.Outcome, error) {
	k.t.Helper()
	got := make(chan outcome, 1)
	k.Do(w, func(out *field.Outcome, err error) { got <- outcome{out, err} })
	select {
	case o := <-got:
		return o.out, o.err
	case <-time.After(patience):
		require.FailNow(k.t, "the write was not answered")
		panic("not reached")
	}
}

func (k *kit) do(w *field.Write) *field.Outcome {
	k.t.Helper()
	out, err := k.try(w)
	require.NoError(k.t, err)
	return out
}

func puts(fields map[string]string) (list []field.Field) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, field.Field{Name: name, Value: []byte(fields[name])})
	}
	return list
}

func (k *kit) update(o field.Owner, fields map[string]string) *field.Outcome {
	k.t.Helper()
	return k.do(&field.Write{Owner: o, Kind: field.Update, Fields: puts(fields)})
}

func (k *kit) incr(o field.Owner, name string, by int64) string {
	k.t.Helper()
	out := k.do(&field.Write{Owner: o, Kind: field.Incr, Deltas: []field.Delta{{Name: name, By: by}}})
	return string(out.Fields[0].Value)
}

func (k *kit) remove(o field.Owner, names ...string) *field.Outcome {
	k.t.Helper()
	return k.do(&field.Write{Owner: o, Kind: field.Remove, Names: names})
}

func texts(fields []field.Field) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		m[f.Name] = string(f.Value)
	}
	return m
}

// warm reads fields from memory; ok is false if that does not know them.
func (k *kit) warm(o field.Owner, names ...string) (fields []field.Field, ok bool) {
	g := getOf(o, names...)
	both := []Get{g, g}
	var alone []field.Field
	for before := !ok; before != ok; { // else it has just become known which owners the database has
		_, before = k.Storage.get(&o, names, nil, nil)
		k.GetEach(both)
		alone, ok = k.Storage.get(&o, names, nil, nil)
	}
	require.NoError(k.t, both[0].Err)
	require.Equal(k.t, both[0].Fields, both[1].Fields)
	require.Equal(k.t, ok, !both[0].Cold)
	require.ElementsMatch(k.t, alone, both[0].Fields)
	return both[0].Fields, ok
}

func getOf(o field.Owner, names ...string) Get {
	g := Get{App: []byte(o.App), Region: []byte(o.Region), Logic: []byte(o.Logic), ID: []byte(o.ID)}
	for _, name := range names {
		g.Names = append(g.Names, []byte(name))
	}
	return g
}

// get reads fields, from the database if need be.
func (k *kit) get(o field.Owner, names ...string) map[string]string {
	k.t.Helper()
	fields, ok := k.warm(o, names...)
	if !ok {
		var err error
		fields, err = k.Load(context.Background(), o, names)
		require.NoError(k.t, err)
	}
	return texts(fields)
}

func (k *kit) field(o field.Owner, name string) field.Field {
	k.t.Helper()
	fields, err := k.Load(context.Background(), o, []string{name})
	require.NoError(k.t, err)
	require.Len(k.t, fields, 1)
	return fields[0]
}

// all reads all fields, in small pages.
func (k *kit) all(o field.Owner) map[string]string {
	k.t.Helper()
	m := map[string]string{}
	for ask := (field.Ask{Limit: 3}); ; {
		page, err := k.GetAll(context.Background(), o, ask)
		require.NoError(k.t, err)
		maps.Copy(m, texts(page.Fields))
		if !page.More {
			return m
		}
		ask.After, ask.Revision = page.Fields[len(page.Fields)-1].Name, page.Revision
	}
}

// lock takes the lock of a dirty table, as a lander does.
func (k *kit) lock(table int) kv.Revision {
	k.t.Helper()
	if fence := k.fences[table]; fence != 0 {
		return fence
	}
	ns, key := LockOf(table)
	res, err := k.commit(context.Background(), kv.PutTxn(ns, key, kv.StringValue("test")))
	require.NoError(k.t, err)
	k.fences[table] = res.Ops[0].Entry.Create
	return k.fences[table]
}

// land lands batches until there is nothing to land at present. It returns how many there
// were.
func (k *kit) land() (batches int) {
	k.t.Helper()
	for table := range k.Settings().Tables {
		for k.landOnce(table) {
			batches++
		}
	}
	return batches
}

func (k *kit) landOnce(table int) bool {
	k.t.Helper()
	ctx := context.Background()
	b, err := k.Dirty(ctx, table, 0)
	require.NoError(k.t, err)
	if b == nil {
		return false
	}
	if k.sql == nil {
		return false
	}
	failed, newer, err := k.sql.write(b)
	if err != nil {
		return false
	}
	if newer > 0 {
		require.NoError(k.t, k.Newer(ctx, newer))
		return true
	}
	require.NoError(k.t, k.Landed(ctx, k.lock(table), b, failed))
	return true
}

// database is a Backing in memory: rows by table and primary key, kept honest by the
// conditional upsert of the real ones.
type database struct {
	mu     sync.Mutex
	rows   map[string]map[string]field.Row // guarded by mu
	reads  int                             // queries for fields and owners; guarded by mu
	down   bool                            // guarded by mu
	poison func(*field.Row) bool           // rows it refuses; guarded by mu
	writes int                             // statements; guarded by mu
	put    int                             // rows; guarded by mu
	hold   chan struct{}                   // if not nil, reads wait for it; guarded by mu

	admit sync.Mutex // held while the database is judged
	is    Identity   // guarded by mu
	judge Judge      // guarded by mu
}

func (d *database) Admit(judge Judge, _ bool) {
	d.set(func(d *database) { d.judge = judge })
}

// admitted has the database be judged, as if each query came over a new connection.
func (d *database) admitted(ctx context.Context) error {
	d.admit.Lock()
	defer d.admit.Unlock()
	for {
		d.mu.Lock()
		is, judge, tables := d.is, d.judge, slices.Sorted(maps.Keys(d.rows))
		d.mu.Unlock()
		want, err := judge(ctx, is, func() ([]string, error) { return tables, nil })
		if err != nil || want == is {
			return err
		}
		d.set(func(d *database) { d.is = want })
	}
}

func newDatabase() *database { return &database{rows: map[string]map[string]field.Row{}} }

func (d *database) read(ctx context.Context) error {
	d.mu.Lock()
	d.reads++
	hold, down := d.hold, d.down
	d.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if down {
		return codes.Errorf(codes.Unreachable, "the database is down")
	}
	return d.admitted(ctx)
}

func (d *database) Fields(ctx context.Context, o field.Owner, names []string) (list []field.Row, err error) {
	if err := d.read(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if r, ok := d.rows[o.Table()][field.Ref{Owner: o, Name: name}.Key()]; ok {
			list = append(list, r)
		}
	}
	return list, nil
}

func (d *database) All(ctx context.Context, o field.Owner) (list []field.Row, err error) {
	if err := d.read(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows[o.Table()] {
		if r.Owner == o {
			list = append(list, r)
		}
	}
	return list, nil
}

func (d *database) Owners(ctx context.Context, q OwnerQuery, each func(key []byte)) error {
	if err := d.admitted(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return codes.Errorf(codes.Unreachable, "the database is down")
	}
	found := map[string]bool{}
	for _, r := range d.rows[field.Owner{App: q.App, Region: q.Region}.Table()] {
		if (q.Removed || !r.Removed) && r.Owner.Key() > q.After && (q.Logic == "" || r.Owner.Logic == q.Logic) {
			found[r.Owner.Key()] = true
		}
	}
	list := slices.Sorted(maps.Keys(found))
	for _, key := range list[:min(q.Limit, len(list))] {
		each([]byte(key))
	}
	return nil
}

func (d *database) Purge(_ context.Context, p Purge) (done Purged, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return done, codes.Errorf(codes.Unreachable, "the database is down")
	}
	rows := d.rows[field.Owner{App: p.App, Region: p.Region}.Table()]
	owners := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		r := rows[key]
		if owner := r.Owner.Key(); owner > p.After {
			owners[owner] = true
		}
	}
	list := slices.Sorted(maps.Keys(owners))
	if done.More = len(list) > 2; done.More { // small slices
		list = list[:2]
		done.Next = list[1]
	}
	for key, r := range rows {
		if slices.Contains(list, r.Owner.Key()) && r.Removed && r.RemovedAt <= p.Removed && r.Version < p.Below {
			delete(rows, key)
			done.Rows++
		}
	}
	return done, nil
}

func (d *database) Tables(ctx context.Context) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, codes.Errorf(codes.Unreachable, "the database is down")
	}
	d.mu.Unlock()
	err := d.admitted(ctx)
	if d.mu.Lock(); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(d.rows)), nil
}

// write writes a batch. newer is the greatest version of a row that is not older than what was
// to be written but differs from it.
func (d *database) write(b *field.Batch) (failed []field.Failure, newer int64, err error) {
	if err := d.admitted(context.Background()); err != nil {
		return nil, 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, 0, codes.Errorf(codes.Unreachable, "the database is down")
	}
	d.writes++
	for i := range b.Rows {
		r := b.Rows[i].Row
		if d.poison != nil && d.poison(&r) {
			failed = append(failed, field.Failure{Table: r.Table(), Key: r.Key(), Reason: "poison"})
			continue
		}
		if old, ok := d.rows[r.Table()][r.Key()]; ok {
			if old.Version > r.Version || old.Version == r.Version && string(old.Value) != string(r.Value) {
				newer = max(newer, old.Version)
				continue
			}
			r.Created = old.Created
		}
		d.insertLocked(r)
		d.put++
	}
	return failed, newer, nil
}

func (d *database) insert(rows ...field.Row) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range rows {
		d.insertLocked(r)
	}
}

func (d *database) insertLocked(r field.Row) {
	table := r.Table()
	if d.rows[table] == nil {
		d.rows[table] = map[string]field.Row{}
	}
	d.rows[table][r.Key()] = r
}

func (d *database) row(o field.Owner, name string) field.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[o.Table()][field.Ref{Owner: o, Name: name}.Key()]
}

func (d *database) set(change func(*database)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *database) queries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// live is the text of all live rows of an owner.
func (d *database) live(o field.Owner) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := map[string]string{}
	for _, r := range d.rows[o.Table()] {
		if r.Owner == o && !r.Removed {
			m[r.Name] = string(r.Value)
		}
	}
	return m
}

func numbers(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("f%03d", i)] = strings.Repeat("v", i%7+1)
	}
	return m
}
