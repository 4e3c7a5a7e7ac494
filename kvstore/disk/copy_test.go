package disk

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
)

// copied is a copy that has been read to its end.
type copied struct {
	revision kv.Revision
	time     int64
	rows     [][2]string
}

// read reads a copy to its end, and closes it.
func read(t require.TestingT, c kv.Copy) copied {
	defer c.Close()
	got := copied{revision: c.Revision(), time: c.Time()}
	for {
		rows, err := c.Next(nil)
		if err == io.EOF {
			return got
		}
		require.NoError(t, err)
		for len(rows) > 0 {
			var pair [2]string
			for i := range pair {
				n, size := binary.Uvarint(rows)
				pair[i], rows = string(rows[size:size+int(n)]), rows[size+int(n):]
			}
			got.rows = append(got.rows, pair)
		}
	}
}

func (s *store) copy() copied {
	s.t.Helper()
	c, err := s.disk.Copy()
	require.NoError(s.t, err)
	return read(s.t, c)
}

func (c copied) each(yield func(key, value []byte) error) error {
	for _, row := range c.rows {
		if err := yield([]byte(row[0]), []byte(row[1])); err != nil {
			return err
		}
	}
	return nil
}

func (c copied) inspect() error {
	var i Inspector
	if err := c.each(i.Row); err != nil {
		return err
	}
	if err := i.End(); err != nil {
		return err
	}
	if i.Revision() != c.revision {
		return fmt.Errorf("it ends at revision %d, not %d", i.Revision(), c.revision)
	}
	return nil
}

// restore makes a store of a copy, elsewhere and an hour later.
func (c copied) restore(to Point) (Config, Restored, error) {
	cfg := testConfig(vfs.NewCrashableMem(), clocktest.NewFake(time.UnixMilli(c.time).Add(time.Hour)))
	r, err := Restore(cfg, c.each, c.time, to)
	return cfg, r, err
}

func TestACopyHasWhatWasThereWhenItBegan(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"}, op{"ns", "b", "1"})
	s.tables()
	s.put(op{"ns", "a", "2"})
	want := *s.model
	want.current = maps.Clone(s.current)
	c, err := s.disk.Copy()
	require.NoError(t, err)
	s.put(op{"ns", "a", "3"}, op{"ns", "b", ""})
	s.tables()
	got := read(t, c)
	require.Equal(t, want.rev, got.revision)
	require.NoError(t, got.inspect())
	cfg, r, err := got.restore(Point{})
	require.NoError(t, err)
	require.Equal(t, want.rev, r.Revision)
	loaded, d, err := load(cfg)
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, plain(want.current), plain(loaded.current))
	e, err := d.GetAt("ns", "a", 1)
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value.Data))
}

func TestRevisionsOfARestoredStoreAreNotThoseOfTheOldOne(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"})
	cfg, r, err := s.copy().restore(Point{})
	require.NoError(t, err)
	require.Equal(t, kv.Revision(1+2*time.Hour.Microseconds()), r.Next)
	loaded, d, err := load(cfg)
	require.NoError(t, err)
	require.Equal(t, r.Next, loaded.rev)
	for _, rev := range []kv.Revision{2, r.Next - 1} {
		_, err = d.GetAt("ns", "a", rev)
		require.ErrorIs(t, err, codes.Compacted)
		_, err = d.Changes(rev, 1<<20)
		require.ErrorIs(t, err, codes.Compacted)
	}
	again := &store{t: t, cfg: cfg, clock: cfg.Clock.(*clocktest.Fake), disk: d, model: loaded}
	again.put(op{"ns", "a", "2"})
	require.Equal(t, r.Next+1, again.rev)
	changes, err := d.Changes(r.Next, 1<<20)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	again.reopen()
	require.NoError(t, again.copy().inspect())
	require.NoError(t, again.disk.Close())
}

func TestCopiesEndWithTheStore(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"})
	c, err := s.disk.Copy()
	require.NoError(t, err)
	closed, err := s.disk.Copy()
	require.NoError(t, err)
	closed.Close()
	require.NoError(t, s.disk.Close())
	_, err = c.Next(nil)
	require.ErrorIs(t, err, codes.Closed)
	c.Close()
	s.open()
}

func TestACopyGivesWayWhenTheDiskIsFull(t *testing.T) {
	free := uint64(1 << 40)
	s := newStore(t, func(c *Config) { c.Free = func() (uint64, error) { return free, nil } })
	s.put(op{"ns", "a", "1"})
	c, err := s.disk.Copy()
	require.NoError(t, err)
	defer c.Close()
	free = 1
	s.disk.gate.measure()
	_, err = c.Next(nil)
	require.ErrorIs(t, err, codes.Storage)
	require.NotEmpty(t, s.copy().rows, "one that is begun then is all the operator has")
}

var oldestPossible = regexp.MustCompile(`the oldest possible one is (\d+)`)

func TestRestoreAsOfATime(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"})
	at := s.clock.Now().UnixMilli()
	s.clock.Advance(time.Minute)
	s.put(op{"ns", "a", "2"})
	c := s.copy()
	for time, want := range map[int64]kv.Revision{at: 1, at + 59_999: 1, at + 60_000: 2, at + 90_000: 2} {
		_, r, err := c.restore(Point{Time: time})
		require.NoError(t, err)
		require.Equal(t, want, r.Revision)
	}
	_, _, err := c.restore(Point{Time: at - 1})
	require.ErrorIs(t, err, codes.Compacted)
}

func TestLeasesAndTokensAreRestoredAsTheyWere(t *testing.T) {
	s := newStore(t, nil)
	grant := s.commit(s.clock.Now())
	grant.Leases = []kvstore.LeaseChange{{ID: 1, TTL: time.Minute, Owner: &access.Identity{Name: "token:a"}}}
	grant.Token = &kvstore.Token{NS: "ns", Name: "t1", Revision: 1, Time: s.clock.Now().UnixMilli()}
	require.NoError(t, s.disk.Append([]kvstore.Commit{grant}))
	end := s.commit(s.clock.Now())
	end.Leases = []kvstore.LeaseChange{{ID: 1, Ended: true}, {ID: 2, TTL: time.Second}}
	end.Token = &kvstore.Token{NS: "ns", Name: "t2", Revision: 2, Time: s.clock.Now().UnixMilli()}
	require.NoError(t, s.disk.Append([]kvstore.Commit{end}))
	for rev, want := range map[kv.Revision]kvstore.LeaseChange{1: grant.Leases[0], 2: end.Leases[1]} {
		cfg, _, err := s.copy().restore(Point{Revision: rev})
		require.NoError(t, err)
		loaded, d, err := load(cfg)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.Equal(t, map[kv.LeaseID]kvstore.LeaseChange{want.ID: want}, loaded.leases)
		require.Len(t, loaded.tokens, int(rev))
	}
}

// Whatever is missing from a copy, or another than it was, is noticed, or does not count.
func TestAnInspectorFindsMissingAndDamagedRows(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"}, op{"ns", "b", "1"})
	s.shelve("x", "1")
	s.tables()
	s.put(op{"ns", "a", "2"})
	s.put(op{"ns", "a", "3"})
	good := s.copy()
	require.NoError(t, good.inspect())
	without := func(kind byte, nth int) copied {
		bad := copied{revision: good.revision}
		for _, row := range good.rows {
			if row[0][0] == kind {
				if nth--; nth == -1 {
					continue
				}
			}
			bad.rows = append(bad.rows, row)
		}
		return bad
	}
	require.ErrorContains(t, without(metaKind, 0).inspect(), "missing")
	require.ErrorIs(t, without(logKind, 2).inspect(), errGap)
	require.Error(t, without(logKind, 3).inspect())
	for i, row := range good.rows {
		bad := copied{revision: good.revision, rows: append([][2]string(nil), good.rows...)}
		bad.rows[i] = [2]string{row[0], row[1][:len(row[1])/2]}
		if row[0][0] != currentKind && row[0][0] != archiveKind && row[0][0] != historyKind { // a value may have any length
			require.Error(t, bad.inspect(), row[0])
		}
		bad.rows[i] = [2]string{"\x01" + row[0], row[1]}
		require.Error(t, bad.inspect(), row[0])
	}
	huge := kv.Entry{Value: kv.BytesValue(make([]byte, kv.MaxValue+1)), Create: 1, Mod: 1, Version: 1}
	var i Inspector
	require.ErrorContains(t, i.Row(nameKey(nil, currentKind, "ns", "huge"), appendEntry(nil, &huge)), "the limit is")
}

// closed copies a store's directory to a file system of its own, as if the process had ended.
func (s *store) closed() Config {
	s.t.Helper()
	cfg := s.cfg
	cfg.FS = s.cfg.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	return cfg
}

func TestVerifyFindsASoundStore(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"ns", "a", "1"}, op{"ns", "b", "1"})
	s.shelve("x", "1")
	s.tables()
	s.put(op{"ns", "a", "2"})
	entries := map[string]string{}
	v, err := Verify(s.closed(), func(e *kv.Entry) error {
		entries[e.NS+" "+e.Key] = string(e.Value.Data)
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, v.Faults)
	require.Equal(t, s.rev, v.Revision)
	require.Equal(t, map[string]string{"ns a": "2", "ns b": "1", archive + " x": "1"}, entries)
	_, err = Verify(testConfig(vfs.NewCrashableMem(), s.clock), nil)
	require.ErrorIs(t, err, codes.Storage)
}

// Each file of a store is damaged in many places: Verify says so, or nothing is wrong with what
// is read, as in the room between two blocks.
func TestVerifyFindsDamage(t *testing.T) {
	s := newStore(t, nil)
	for i := range 50 {
		s.put(op{"ns", fmt.Sprint(i), fmt.Sprint("value", i)})
	}
	s.shelve("x", "1")
	s.tables()
	s.put(op{"ns", "a", "last"})
	found := 0
	good := s.closed()
	dir := good.FS.PathJoin(good.Dir, databaseDir)
	names, err := good.FS.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		info, err := good.FS.Stat(good.FS.PathJoin(dir, name))
		require.NoError(t, err)
		for at := int64(0); at < info.Size(); at += max(1, info.Size()/8) {
			cfg := s.closed()
			damage(t, cfg.FS, cfg.FS.PathJoin(dir, name), at)
			if v, err := Verify(cfg, nil); err != nil || len(v.Faults) > 0 {
				found++
				continue
			}
			loaded, d, err := load(cfg)
			require.NoError(t, err, "%s at %d is not noticed", name, at)
			require.NoError(t, d.Close())
			loaded.equal(t, s.model)
		}
	}
	require.Greater(t, found, 10)
	cfg := s.closed()
	require.NoError(t, cfg.FS.Remove(cfg.FS.PathJoin(cfg.Dir, markName)))
	v, err := Verify(cfg, nil)
	require.NoError(t, err)
	require.Len(t, v.Faults, 1)
}

// damage changes a byte of a file.
func damage(t *testing.T, fsys vfs.FS, path string, at int64) {
	t.Helper()
	file, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	var b [1]byte
	_, err = file.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 0x55
	_, err = file.WriteAt(b[:], at)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

// Where only history knows, a lease that has ended is there again for a while, and so are its keys;
// one that came later is not.
func TestHistoryBringsBackKeysWithLeases(t *testing.T) {
	s := newStore(t, func(c *Config) { c.LogAge = time.Second })
	grant := s.commit(s.clock.Now(), op{"ns", "a", "1"})
	grant.Leases = []kvstore.LeaseChange{{ID: 1, TTL: time.Hour}}
	grant.Events[0].Entry.Lease = 1
	require.NoError(t, s.disk.Append([]kvstore.Commit{grant}))
	at := s.clock.Now().UnixMilli()
	s.clock.Advance(time.Minute)
	end := s.commit(s.clock.Now(), op{"ns", "a", ""}, op{"ns", "b", "2"})
	end.Leases = []kvstore.LeaseChange{{ID: 1, Ended: true}, {ID: 2, TTL: time.Hour}}
	require.NoError(t, s.disk.Append([]kvstore.Commit{end}))
	s.tables()
	s.clock.Advance(time.Minute)
	s.put(op{"ns", "c", "3"})
	s.tables()
	floor, _ := s.disk.Floors()
	require.Equal(t, kv.Revision(2), floor)
	for _, to := range []Point{{Revision: 1}, {Time: at}, {Time: at + 1}} {
		cfg, r, err := s.copy().restore(to)
		require.NoError(t, err)
		require.Equal(t, kv.Revision(1), r.Revision)
		loaded, d, err := load(cfg)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.Equal(t, map[name]string{{"ns", "a"}: text(grant.Events[0].Entry)}, plain(loaded.current))
		require.Equal(t, map[kv.LeaseID]kvstore.LeaseChange{1: {ID: 1, TTL: unknownLease}}, loaded.leases)
	}
	s.put(op{"@storage/t", "x", "1"})
	_, _, err := s.copy().restore(Point{Revision: 1})
	require.ErrorIs(t, err, codes.Compacted)
	require.ErrorContains(t, err, "the oldest possible one is 2")
}

// An entry that may stay does not stand in the way, however often it has changed.
func TestWhatStaysIsNotUndone(t *testing.T) {
	s := newStore(t, func(c *Config) { c.LogAge, c.HistoryVersions = time.Second, 2 })
	s.put(op{"ns", "a", "1"})
	s.shelve("x", "1")
	s.clock.Advance(time.Minute)
	for i := range 10 {
		s.put(op{"ns", "position", fmt.Sprint(i)})
	}
	s.put(op{"ns", "a", "2"})
	s.shelve("x", "1")
	s.tables()
	s.clock.Advance(time.Minute)
	s.put(op{"ns", "b", "1"})
	s.tables()
	_, _, err := s.copy().restore(Point{Revision: 2})
	require.ErrorIs(t, err, codes.Compacted)
	cfg, _, err := s.copy().restore(Point{Revision: 2, Stays: func(ns, key string) bool { return key == "position" || ns == archive }})
	require.NoError(t, err)
	loaded, d, err := load(cfg)
	require.NoError(t, err)
	restored := &store{t: t, cfg: cfg, disk: d, model: loaded}
	require.Equal(t, "x=1 ", restored.listed(""))
	require.NoError(t, d.Close())
	require.Len(t, loaded.current, 2)
	require.Equal(t, "1", string(loaded.current[name{"ns", "a"}].Value.Data))
	require.Equal(t, "9", string(loaded.current[name{"ns", "position"}].Value.Data))
}

// Rows of a backup may come from anyone.
func FuzzInspector(f *testing.F) {
	s := newStore(f, nil)
	s.put(op{"ns", "a", "1"}, op{"ns", "b", "1"})
	s.tables()
	s.put(op{"ns", "a", "2"})
	s.tables()
	s.put(op{"ns", "a", "3"})
	for _, row := range s.copy().rows {
		f.Add([]byte(row[0]), []byte(row[1]))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		i := Inspector{Entry: func(e *kv.Entry) error { return kv.CheckPair(e.NS, e.Key) }}
		if i.Row(metaKey, meta{}.encode()) == nil && i.Row(key, value) == nil {
			_ = i.End()
		}
	})
}
