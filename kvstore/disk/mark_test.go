package disk

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kvstore"
)

// The mark says of which format the store is. One of a build before is opened, and is of this one from
// then on, so that the build before refuses it by name; so does this one with a later format.
func TestTheMarkSaysTheFormatOfTheStore(t *testing.T) {
	fsys := vfs.NewMem()
	open := func() error {
		d, _, err := OpenLog(Config{Dir: "data", FS: fsys}, kvstore.Loader{})
		if err == nil {
			err = d.Close()
		}
		return err
	}
	require.NoError(t, open())
	path := fsys.PathJoin("data", markName)
	say := func(format uint32) {
		s, known, err := readMark(fsys, path)
		require.NoError(t, err)
		require.True(t, known)
		s.format, s.sequence = format, s.sequence+1
		file, err := fsys.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		for i := range 2 {
			slot := s.encode()
			_, err := file.WriteAt(slot[:], int64(i)*slotStride)
			require.NoError(t, err)
		}
		require.NoError(t, file.Close())
	}
	say(markVersion - 1)
	require.NoError(t, open())
	s, _, err := readMark(fsys, path)
	require.NoError(t, err)
	require.EqualValues(t, markVersion, s.format)
	say(markVersion + 1)
	err = open()
	require.Equal(t, codes.Storage, codes.Of(err))
	require.ErrorContains(t, err, "the store was written by a newer version: its format is 4, this one reads up to 3")
}
