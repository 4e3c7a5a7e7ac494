package client

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
)

// cached is a Config with a cache directory and a clock that the test moves.
func cached(t *testing.T, s *fakeServer) (Config, *clocktest.Fake) {
	cfg := quick(s)
	cfg.CacheDir = filepath.Join(t.TempDir(), "deep", "cache")
	fake := clocktest.NewFake(time.Unix(1_700_000_000, 0))
	cfg.Clock = fake
	return cfg, fake
}

func closed(t *testing.T, c *Client) {
	t.Helper()
	require.NoError(t, c.Close())
}

func TestStartWithoutAServer(t *testing.T) {
	s := newFakeServer(t, map[string]string{"main.json": `{"port":1}`, "a.json": `{"k":{"x":2}}`})
	s.mainConf = "main.json"
	cfg, fake := cached(t, s)

	c := dialWith(t, cfg)
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	_, err = c.Get(t.Context(), "absent.json")
	require.ErrorIs(t, err, codes.NotFound)
	h, err := Bind[settings](t.Context(), c, Query{Merged: true})
	require.NoError(t, err)
	require.False(t, h.Document().Stale())
	closed(t, c)
	s.stop()
	fake.Advance(time.Hour)

	var errs collector
	cfg.OnError = errs.add
	c = dialWith(t, cfg)
	require.False(t, c.Connected())
	require.Zero(t, c.ID())
	require.Equal(t, "main.json", c.MainConfig())

	d, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.True(t, d.Stale())
	require.Equal(t, time.Hour, d.Age())
	require.Equal(t, `{"k":{"x":2}}`, string(d.Raw()))
	d, err = c.GetConfig(t.Context(), Query{Name: "a.json", Path: "/k/x"})
	require.NoError(t, err, "cut from the whole document")
	require.Equal(t, `2`, string(d.Raw()))
	_, err = c.GetConfig(t.Context(), Query{Name: "a.json", Path: "/nothing"})
	require.ErrorIs(t, err, codes.NotFound)

	_, err = c.Get(t.Context(), "absent.json")
	require.ErrorIs(t, err, codes.NotFound, "the server said so")
	require.NotErrorIs(t, err, ErrUnreachable)
	_, err = c.Get(t.Context(), "unknown.json")
	require.ErrorIs(t, err, ErrUnreachable, "nobody ever said")
	require.NotErrorIs(t, err, codes.NotFound)
	_, err = c.GetConfig(t.Context(), Query{Name: "a.json", Merged: true})
	require.ErrorIs(t, err, ErrUnreachable, "the merged form is another document")
	_, err = c.Set(t.Context(), SetRequest{Name: "a.json", Contents: []byte(`1`)})
	require.ErrorIs(t, err, ErrUnreachable)

	h, err = Bind[settings](t.Context(), c, Query{Merged: true})
	require.NoError(t, err)
	require.Equal(t, 1, h.Load().Port)
	require.True(t, h.Document().Stale())
	eventually(t, func() bool { return errs.has(ErrUnreachable) }, "OnError is told")

	// The server comes back: what has changed is reported, what has not is
	// confirmed.
	st, w := watch(t, c, Query{Name: "a.json"})
	require.True(t, st.want(`{"k":{"x":2}}`).Stale())
	s.set("main.json", `{"port":2}`)
	s.restart()
	eventually(t, func() bool {
		fake.Advance(20 * time.Millisecond)
		return h.Load().Port == 2
	}, "the handle follows")
	eventually(t, func() bool { return !w.Document().Stale() }, "confirmed")
	require.False(t, h.Document().Stale())
	st.none()
}

// The age counts from when the server last confirmed the contents.
func TestAgeOfWhatWasFollowed(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	cfg, fake := cached(t, s)
	cfg.KeepAlive = 10 * time.Hour
	c := dialWith(t, cfg)
	_, w := watch(t, c, Query{Name: "a.json"})
	stored := w.Document().StoredAt()
	fake.Advance(5 * time.Hour)
	_, err := c.Clients(t.Context()) // the server is heard of, and has told of no change
	require.NoError(t, err)
	closed(t, c)
	s.stop()
	fake.Advance(time.Hour)
	c = dialWith(t, cfg)
	d, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	require.Equal(t, stored.Add(5*time.Hour), d.StoredAt())
	require.Equal(t, time.Hour, d.Age())
}

// Versions of the cache are used for the same server's data only.
func TestCacheOfAnotherEpoch(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`, "b.json": `1`})
	cfg, fake := cached(t, s)
	c := dialWith(t, cfg)
	watch(t, c, Query{Name: "a.json"})
	watch(t, c, Query{Name: "b.json"})
	closed(t, c)
	s.stop()

	c = dialWith(t, cfg)
	a, _ := watch(t, c, Query{Name: "a.json"})
	b, _ := watch(t, c, Query{Name: "b.json"})
	a.want(`1`)
	b.want(`1`)
	s.change(func(s *fakeServer) {
		s.epoch, s.clock = "e2", 5
		s.docs = map[string]fakeDoc{"a.json": {5, `2`}, "b.json": {5, `1`}}
	})
	s.restart()
	eventually(t, func() bool {
		fake.Advance(20 * time.Millisecond)
		return c.Connected()
	}, "it comes back")
	a.want(`2`)
	s.set("b.json", `3`)
	b.want(`3`)
	a.none()
}

// Without a cache, or with one that never saw a server, there is nothing to start
// from.
func TestNothingToStartFrom(t *testing.T) {
	cfg := Config{Addrs: []string{nowhere(t)}, CacheDir: t.TempDir()}
	_, err := Dial(t.Context(), cfg)
	require.ErrorIs(t, err, ErrUnreachable)

	s := newFakeServer(t, nil)
	cfg, _ = cached(t, s)
	closed(t, dialWith(t, cfg))
	s.stop()
	cfg.Name = "another"
	_, err = Dial(t.Context(), cfg)
	require.ErrorIs(t, err, ErrUnreachable, "the cache is of another program")
	cfg.Name = "app1"
	closed(t, dialWith(t, cfg))
}

// A directory that cannot be made is told to OnError. It fails Dial only where the
// cache would have been needed.
func TestCacheDirThatCannotBeMadeDoesNotFailDial(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	var errs collector
	cfg := quick(s)
	cfg.CacheDir, cfg.OnError = filepath.Join(file, "cache"), errs.add
	c := dialWith(t, cfg)
	eventually(t, func() bool { return errs.has(codes.Storage) }, "OnError is told")
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	closed(t, c)

	cfg.Addrs = []string{nowhere(t)}
	_, err = Dial(t.Context(), cfg)
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorIs(t, err, codes.Storage)
}

// A damaged file is reported and not used, whatever the damage, and is mended by
// the next answer of a server.
func TestDamagedCache(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"k":"value"}`, "b.json": `{}`})
	cfg, _ := cached(t, s)
	c := dialWith(t, cfg)
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	_, err = c.Get(t.Context(), "b.json")
	require.NoError(t, err)
	closed(t, c)
	s.stop()

	path := filepath.Join(cfg.CacheDir, fileName(kindConfig, feedKey{name: "a.json"}))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm(), "it may hold secrets")
	other, err := os.ReadFile(filepath.Join(cfg.CacheDir, fileName(kindConfig, feedKey{name: "b.json"})))
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-3] ^= 1
	for about, file := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), ' '), "a bit flipped": flipped,
		"something else": []byte("hello"), "another document's": other, "no header": whole[:len(cacheMagic)+64],
	} {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		var errs collector
		cfg.OnError = errs.add
		c := dialWith(t, cfg)
		_, err := c.Get(t.Context(), "a.json")
		require.ErrorIs(t, err, ErrUnreachable, about)
		eventually(t, func() bool { return errs.has(errDamaged) && errs.has(codes.Storage) }, about)
		closed(t, c)
	}

	s.restart()
	c = dialWith(t, cfg)
	_, err = c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	closed(t, c)
	mended, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(whole), string(mended))
}

// Where the cache would have been needed to start, OnError has been told of the damage
// when Dial fails.
func TestDamagedCacheIsToldBeforeDialFails(t *testing.T) {
	s := newFakeServer(t, nil)
	cfg, _ := cached(t, s)
	closed(t, dialWith(t, cfg))
	s.stop()
	path := filepath.Join(cfg.CacheDir, fileName(kindMain, feedKey{name: cfg.Name, path: cfg.Tag}))
	require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
	for range 20 {
		var errs collector
		cfg.OnError = errs.add
		_, err := Dial(t.Context(), cfg)
		require.ErrorIs(t, err, ErrUnreachable)
		require.True(t, errs.has(errDamaged))
	}
}

// A cache that cannot be written is reported; everything else goes on.
func TestCacheThatCannotBeWritten(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	cfg, _ := cached(t, s)
	var errs collector
	cfg.OnError = errs.add
	c := dialWith(t, cfg)
	require.NoError(t, os.RemoveAll(cfg.CacheDir))
	_, err := c.Get(t.Context(), "a.json")
	require.NoError(t, err)
	eventually(t, func() bool { return errs.has(codes.Storage) }, "OnError is told")
}

// What killed processes have left goes away, what a living one writes stays.
func TestCacheIsSwept(t *testing.T) {
	cfg := Config{CacheDir: t.TempDir()}.withDefaults()
	for name, age := range map[string]time.Duration{".confcenter-1.tmp": 2 * abandoned, ".confcenter-2.tmp": abandoned / 2, "other.tmp": 2 * abandoned} {
		path := filepath.Join(cfg.CacheDir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, at, at))
	}
	ca, err := openCache(&cfg, func(err error) { t.Error(err) })
	require.NoError(t, err)
	defer ca.close()
	files, err := os.ReadDir(cfg.CacheDir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, ".confcenter-2.tmp", files[0].Name())
}

// What the cache knows to be on disk is bounded, and old news do not replace newer.
func TestCacheStore(t *testing.T) {
	cfg := Config{CacheDir: t.TempDir()}.withDefaults()
	ca, err := openCache(&cfg, func(err error) { t.Error(err) })
	require.NoError(t, err)
	defer ca.close()
	key := feedKey{name: "a.json"}
	doc := func(mtime int32, epoch, raw string) *Document {
		return &Document{Name: "a.json", Mtime: mtime, epoch: epoch, raw: []byte(raw), stored: time.Now()}
	}
	ca.store(key, doc(5, "e", `5`))
	ca.store(key, doc(4, "e", `4`))
	require.Equal(t, `5`, string(ca.load(key).Raw()))
	ca.store(key, doc(4, "f", `4`))
	require.Equal(t, `4`, string(ca.load(key).Raw()), "of another server")
	for i := range maxWritten {
		ca.written[feedKey{name: string(rune(i))}] = writtenState{}
	}
	ca.store(feedKey{name: "b.json"}, doc(1, "e", `1`))
	require.Len(t, ca.written, 1)
}

// What is written is read again as it was.
func TestCacheEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &entry{
			kind: rapid.SampledFrom([]string{kindConfig, kindMain}).Draw(t, "kind"),
			key:  feedKey{rapid.String().Draw(t, "name"), rapid.String().Draw(t, "path"), rapid.Bool().Draw(t, "merged"), rapid.Bool().Draw(t, "marks")}, epoch: rapid.String().Draw(t, "epoch"),
			mtime: rapid.Int32().Draw(t, "mtime"), stored: time.UnixMilli(rapid.Int64Range(0, 1<<40).Draw(t, "stored")),
		}
		if e.exists = rapid.Bool().Draw(t, "exists"); e.exists {
			e.raw = []byte(rapid.SampledFrom([]string{`{}`, `{"k":[1.50,"x"]}`, `null`, `7`}).Draw(t, "raw"))
		}
		got, err := decodeEntry(e.encode())
		require.NoError(t, err)
		require.Equal(t, e, got)
	})
}

// No file makes the decoder fail in any other way than by an error, and what it
// takes it would write in the same words.
func FuzzDecodeEntry(f *testing.F) {
	e := &entry{kind: kindConfig, key: feedKey{"a.json", "/k", true, false}, mtime: 5, epoch: "e", stored: time.UnixMilli(1), exists: true, raw: []byte(`{"k":1}`)}
	good := e.encode()
	f.Add(good)
	f.Add(good[:len(good)-2])
	f.Add((&entry{kind: kindMain}).encode())
	f.Add([]byte(cacheMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		e, err := decodeEntry(file)
		if err != nil {
			require.Nil(t, e)
			return
		}
		again, err := decodeEntry(e.encode())
		require.NoError(t, err)
		require.Equal(t, e, again)
	})
}
