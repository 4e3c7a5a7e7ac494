package player

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kvstore"
	"confcenter/kvstore/disk"
	"confcenter/kvstore/disk/disktest"
	"confcenter/player/field"
)

// onDisk puts the kit on the embedded engine.
func onDisk(t *testing.T, sql *database, change ...func(*disk.StoreConfig)) (k *kit, restart func()) {
	k = startOn(t, sql, func(c *Config) { c.Settings = field.Defaults() })
	k.shut()
	require.NoError(t, k.engine.Close())
	sql.set(func(d *database) { d.is = Identity{} }) // which was of the engine that it began with
	fs := disktest.New()
	open := func() {
		// The clock of these tests leaps while a write is under way: that is no disk that hangs.
		const patience = 100 * time.Hour
		cfg := disk.StoreConfig{Disk: disk.Config{Dir: "state", FS: fs, HangAfter: patience}, Engine: kvstore.Config{Clock: k.clock, WriteTimeout: patience}}
		for _, fn := range change {
			fn(&cfg)
		}
		store, err := disk.Open(cfg)
		require.NoError(t, err)
		var engine kvstore.Engine = store
		k.engine, k.cfg.Store = engine, engine
		k.open()
	}
	open()
	return k, func() {
		k.shut()
		require.NoError(t, k.engine.Close())
		open()
	}
}

func TestH30AcknowledgedFieldsAreReadAndLandAfterARestart(t *testing.T) {
	sql := newDatabase()
	k, restart := onDisk(t, sql)
	versions := map[string]int64{}
	for i := range 50 {
		name := strconv.Itoa(i)
		versions[name] = k.update(player, map[string]string{name: "v" + name}).Fields[0].Version
	}
	k.remove(player, "7")
	restart()
	all := k.all(player)
	require.Len(t, all, 49)
	for name := range all {
		require.Equal(t, versions[name], k.field(player, name).Version)
	}
	k.land()
	require.Equal(t, all, sql.live(player))

	// What has left memory is found again, wherever it is.
	require.Equal(t, 50, k.chill())
	restart()
	require.Equal(t, all, k.all(player))
	require.Equal(t, "1", k.incr(player, "n", 1))
	require.Greater(t, k.field(player, "n").Version, versions["49"])
	k.land()
	restart()
	k.settle()
	require.Zero(t, k.Status()[0].Dirty)
	require.Empty(t, k.get(field.Owner{App: "1", Region: "1", Logic: "user", ID: "new"}, "a"))
}

func TestAFullStoreLandsAndTakesWritesAgainOnceFieldsHaveLeft(t *testing.T) {
	sql := newDatabase()
	k, _ := onDisk(t, sql, func(c *disk.StoreConfig) { c.Engine.Store = memory.NewPool(1 << 20) })
	n := 0
	for _, size := range []int{32 << 10, 1 << 10, 1} { // down to the last byte
		for {
			if _, err := k.try(&field.Write{Owner: field.Owner{App: "1", Region: "1", Logic: "user", ID: strconv.Itoa(n)}, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: make([]byte, size)}}}); err != nil {
				require.ErrorIs(t, err, codes.Quota)
				break
			}
			n++
		}
	}
	claim, err := k.Claim(t.Context(), 0, "lander")
	require.NoError(t, err)
	k.fences[0] = claim.Fence
	require.Equal(t, n, k.chill())
	require.Len(t, sql.live(field.Owner{App: "1", Region: "1", Logic: "user", ID: "0"}), 1)
	k.update(player, map[string]string{"a": "1"})
}
