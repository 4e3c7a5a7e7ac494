package place_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/kv"
)

var (
	boot    = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	before  = boot.Add(-time.Hour)
	since   = boot.Add(time.Hour)
	newest  = log.DigestOf([]byte("newest"))
	old     = log.DigestOf([]byte("old"))
	ancient = log.DigestOf([]byte("ancient"))
	other   = log.DigestOf([]byte("other"))
)

func TestWhatAFileIsAtAStart(t *testing.T) {
	again := place.Start{Again: true, Boot: boot, Synced: 5}
	placed := again
	placed.Placed = true
	crashed := place.Start{Boot: boot, Synced: 5}
	missing := place.Found{Missing: true}
	file := func(d log.Digest, changed time.Time) place.Found {
		return place.Found{Digest: d, Changed: changed}
	}
	torn := place.Found{Digest: other, Broken: true, Changed: before}
	set := place.Known{Revision: 9, Hash: newest, Replaces: old}
	first := place.Known{Revision: 9, Hash: newest}
	deleted := place.Known{Revision: 9, Deleted: true, Replaces: old}
	durable := place.Known{Revision: 5, Hash: newest, Replaces: old}
	for name, c := range map[string]struct {
		found place.Found
		known place.Known
		start place.Start
		want  place.Verdict
	}{
		"the newest, whatever happened":                   {file(newest, since), set, crashed, place.InPlace},
		"deleted and gone":                                {missing, deleted, crashed, place.InPlace},
		"durable, then changed":                           {file(old, before), durable, crashed, place.Edited},
		"durable, then removed":                           {missing, durable, crashed, place.Edited},
		"killed before the rename":                        {file(old, before), set, again, place.Place},
		"killed before the rename of the first":           {missing, first, again, place.Place},
		"killed before the removal":                       {file(old, before), deleted, again, place.Place},
		"killed, and put back as it was":                  {file(old, since), set, placed, place.Edited},
		"killed, and changed before the rename":           {file(other, since), set, again, place.Edited},
		"killed, and removed before the rename":           {missing, set, again, place.Edited},
		"killed, and removed after it":                    {missing, first, placed, place.Edited},
		"killed, and changed after it":                    {file(other, since), set, placed, place.Edited},
		"killed before the removal, and changed":          {file(other, since), deleted, again, place.Edited},
		"power lost before the rename":                    {file(old, before), set, crashed, place.Place},
		"power lost, and changed since":                   {file(old, since), set, crashed, place.Edited},
		"power lost, and other contents since":            {file(other, since), set, crashed, place.Edited},
		"power lost, and an older version came back":      {file(ancient, before), set, crashed, place.PlaceAside},
		"power lost, and the file with it":                {missing, set, crashed, place.Place},
		"power lost with the first":                       {missing, first, crashed, place.Place},
		"power lost in the middle of it":                  {torn, set, crashed, place.PlaceAside},
		"power lost, but what is there was never ours":    {file(other, before), set, crashed, place.Edited},
		"power lost, and the removal with it":             {file(old, before), deleted, crashed, place.Place},
		"power lost, and an older one instead of nothing": {file(ancient, before), deleted, crashed, place.PlaceAside},
	} {
		c.known.Since = func(rev kv.Revision) ([]log.Digest, error) {
			require.EqualValues(t, 5, rev)
			return []log.Digest{old, ancient}, nil
		}
		got, err := place.Judge(c.found, c.known, c.start)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
	set.Since = func(kv.Revision) ([]log.Digest, error) { return nil, errors.New("damaged") }
	_, err := place.Judge(file(other, before), set, crashed)
	require.ErrorContains(t, err, "damaged")
}

// What is marked survives a kill; what is durable survives a loss of power, and the rest counts as
// not marked.
func TestMarksSurviveWhatTheySay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		disk := atomicfiletest.NewMem(time.Now)
		disk.MakeDir("data")
		open := func(boot string) (*place.Marks, atomicfile.Root) {
			root, err := disk.OpenRoot("data")
			require.NoError(t, err)
			m, err := place.Open(root, boot)
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
				require.NoError(t, m.Place(name, rev, place.Identity{Inode: 7, Size: int64(rev), Mtime: -1, Change: 2}))
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
	m, err := place.Open(root, "boot")
	require.NoError(t, err)
	require.NoError(t, m.Advance(3))
	require.NoError(t, m.Place("a.json", 4, place.Identity{}))
	require.NoError(t, m.Place("b.json", 5, place.Identity{}))
	data, err := disk.Get("data/" + place.MarksName)
	require.NoError(t, err)
	for cut := range data {
		for _, damage := range [][]byte{data[:cut], append(append(append([]byte(nil), data[:cut]...), data[cut]^1), data[cut+1:]...)} {
			require.NoError(t, disk.Put("data/"+place.MarksName, damage, time.Now()))
			m, err := place.Open(root, "boot")
			require.NoError(t, err)
			require.Contains(t, []kv.Revision{0, 3}, m.Synced())
			if m.Placed("b.json", 5) {
				require.True(t, m.Placed("a.json", 4))
			}
			require.False(t, m.Placed("a.json", 5))
		}
	}
}
