package placement_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/confstore/doclog"
	"confcenter/confstore/placement"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/kv"
)

var (
	boot    = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	before  = boot.Add(-time.Hour)
	since   = boot.Add(time.Hour)
	newest  = doclog.DigestOf([]byte("newest"))
	old     = doclog.DigestOf([]byte("old"))
	ancient = doclog.DigestOf([]byte("ancient"))
	other   = doclog.DigestOf([]byte("other"))
)

func TestWhatAFileIsAtAStart(t *testing.T) {
	again := placement.Start{Again: true, Boot: boot, Synced: 5}
	placed := again
	placed.Placed = true
	crashed := placement.Start{Boot: boot, Synced: 5}
	missing := placement.Found{Missing: true}
	file := func(d doclog.Digest, changed time.Time) placement.Found {
		return placement.Found{Digest: d, Changed: changed}
	}
	torn := placement.Found{Digest: other, Broken: true, Changed: before}
	set := placement.Known{Revision: 9, Hash: newest, Replaces: old}
	first := placement.Known{Revision: 9, Hash: newest}
	deleted := placement.Known{Revision: 9, Deleted: true, Replaces: old}
	durable := placement.Known{Revision: 5, Hash: newest, Replaces: old}
	for name, c := range map[string]struct {
		found placement.Found
		known placement.Known
		start placement.Start
		want  placement.Verdict
	}{
		"the newest, whatever happened":                   {file(newest, since), set, crashed, placement.InPlace},
		"deleted and gone":                                {missing, deleted, crashed, placement.InPlace},
		"durable, then changed":                           {file(old, before), durable, crashed, placement.Edited},
		"durable, then removed":                           {missing, durable, crashed, placement.Edited},
		"killed before the rename":                        {file(old, before), set, again, placement.Place},
		"killed before the rename of the first":           {missing, first, again, placement.Place},
		"killed before the removal":                       {file(old, before), deleted, again, placement.Place},
		"killed, and put back as it was":                  {file(old, since), set, placed, placement.Edited},
		"killed, and changed before the rename":           {file(other, since), set, again, placement.Edited},
		"killed, and removed before the rename":           {missing, set, again, placement.Edited},
		"killed, and removed after it":                    {missing, first, placed, placement.Edited},
		"killed, and changed after it":                    {file(other, since), set, placed, placement.Edited},
		"killed before the removal, and changed":          {file(other, since), deleted, again, placement.Edited},
		"power lost before the rename":                    {file(old, before), set, crashed, placement.Place},
		"power lost, and changed since":                   {file(old, since), set, crashed, placement.Edited},
		"power lost, and other contents since":            {file(other, since), set, crashed, placement.Edited},
		"power lost, and an older version came back":      {file(ancient, before), set, crashed, placement.PlaceAside},
		"power lost, and the file with it":                {missing, set, crashed, placement.Place},
		"power lost with the first":                       {missing, first, crashed, placement.Place},
		"power lost in the middle of it":                  {torn, set, crashed, placement.PlaceAside},
		"power lost, but what is there was never ours":    {file(other, before), set, crashed, placement.Edited},
		"power lost, and the removal with it":             {file(old, before), deleted, crashed, placement.Place},
		"power lost, and an older one instead of nothing": {file(ancient, before), deleted, crashed, placement.PlaceAside},
	} {
		c.known.Since = func(rev kv.Revision) ([]doclog.Digest, error) {
			require.EqualValues(t, 5, rev)
			return []doclog.Digest{old, ancient}, nil
		}
		got, err := placement.Judge(c.found, c.known, c.start)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
	set.Since = func(kv.Revision) ([]doclog.Digest, error) { return nil, errors.New("damaged") }
	_, err := placement.Judge(file(other, before), set, crashed)
	require.ErrorContains(t, err, "damaged")
}

// What is marked survives a kill; what is durable survives a loss of power, and the rest counts as
// not marked.
func TestMarksSurviveWhatTheySay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		disk := atomicfiletest.NewMem(time.Now)
		disk.MakeDir("data")
		open := func(boot string) (*placement.Marks, atomicfile.Root) {
			root, err := disk.OpenRoot("data")
			require.NoError(t, err)
			m, err := placement.Open(root, boot)
			require.NoError(t, err)
			return m, root
		}
		m, root := open("boot0")
		require.False(t, m.Again())
		placed, durable, boots, written := map[string]kv.Revision{}, kv.Revision(0), 0, false
		for rev := kv.Revision(1); rev < 30; rev++ {
			switch rapid.SampledFrom([]string{"place", "place", "place", "advance", "kill", "power"}).Draw(r, "what") {
			case "place":
				name := rapid.SampledFrom([]string{"a.json", "b/ü \".json", "c.json"}).Draw(r, "name")
				require.NoError(t, m.Place(name, rev, placement.Identity{Inode: 7, Size: int64(rev), Mtime: -1, Change: 2}))
				placed[name], written = rev, true
			case "advance":
				require.NoError(t, m.Advance(rev))
				durable, written = rev, true
			case "kill":
				require.NoError(t, m.Close())
				root.Close()
				m, root = open(fmt.Sprint("boot", boots))
				require.Equal(t, written, m.Again())
			case "power":
				disk = disk.Crash(func() bool { return rapid.Bool().Draw(r, "kept") })
				boots++
				m, root = open(fmt.Sprint("boot", boots))
				require.False(t, m.Again())
				require.GreaterOrEqual(t, m.Synced(), durable)
				clear(placed)
				require.NoError(t, m.Advance(m.Synced()), "as a start does when it is through")
				written = true
			}
			require.Equal(t, durable, m.Synced())
			for name, at := range placed {
				require.True(t, m.Placed(name, at), "%s at %d", name, at)
				require.Equal(t, at+1 <= durable, m.Placed(name, at+1))
			}
		}
		require.NoError(t, m.Close())
	})
}

func TestDamagedMarksCountAsNone(t *testing.T) {
	disk := atomicfiletest.NewMem(time.Now)
	disk.MakeDir("data")
	root, err := disk.OpenRoot("data")
	require.NoError(t, err)
	m, err := placement.Open(root, "boot")
	require.NoError(t, err)
	require.NoError(t, m.Advance(3))
	require.NoError(t, m.Place("a.json", 4, placement.Identity{}))
	require.NoError(t, m.Place("b.json", 5, placement.Identity{}))
	data, err := disk.Get("data/" + placement.MarksName)
	require.NoError(t, err)
	for cut := range data {
		for _, damage := range [][]byte{data[:cut], append(append(append([]byte(nil), data[:cut]...), data[cut]^1), data[cut+1:]...)} {
			require.NoError(t, disk.Put("data/"+placement.MarksName, damage, time.Now()))
			m, err := placement.Open(root, "boot")
			require.NoError(t, err)
			require.Contains(t, []kv.Revision{0, 3}, m.Synced())
			if m.Placed("b.json", 5) {
				require.True(t, m.Placed("a.json", 4))
			}
			require.False(t, m.Placed("a.json", 5))
		}
	}
}
