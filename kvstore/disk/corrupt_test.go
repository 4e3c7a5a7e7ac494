package disk

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// damages is what is done to a file, at several places of it.
var damages = []struct {
	name  string
	where int // how many places
	do    func(t *testing.T, fs *vfs.MemFS, path string, data []byte, at int)
}{
	{"removed", 1, func(t *testing.T, fs *vfs.MemFS, path string, _ []byte, _ int) {
		require.NoError(t, fs.Remove(path))
	}},
	{"emptied", 1, func(t *testing.T, fs *vfs.MemFS, path string, _ []byte, _ int) { rewrite(t, fs, path, nil) }},
	{"truncated", 6, func(t *testing.T, fs *vfs.MemFS, path string, data []byte, at int) {
		rewrite(t, fs, path, data[:at])
	}},
	{"flipped", 10, func(t *testing.T, fs *vfs.MemFS, path string, data []byte, at int) {
		changed := append([]byte(nil), data...)
		changed[at] ^= 1 << (at % 8)
		rewrite(t, fs, path, changed)
	}},
	{"zeroed", 3, func(t *testing.T, fs *vfs.MemFS, path string, data []byte, at int) {
		changed := append([]byte(nil), data...)
		clear(changed[at:min(at+512, len(changed))])
		rewrite(t, fs, path, changed)
	}},
}

func rewrite(t *testing.T, fs *vfs.MemFS, path string, data []byte) {
	file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = file.Write(append([]byte(nil), data...))
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
}

func contents(t *testing.T, fs *vfs.MemFS, path string) []byte {
	data, err := fs.UnsafeGetFileDataBuffer(path)
	require.NoError(t, err)
	return append([]byte(nil), data...)
}

func files(t *testing.T, fs vfs.FS) (paths []string) {
	for _, dir := range []string{"data", "data/db"} {
		names, err := fs.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			if name != databaseDir && name != "LOCK" {
				paths = append(paths, dir+"/"+name)
			}
		}
	}
	return paths
}

// damage tries all damages on copies of a file system, and returns why each copy
// was refused; "" if it was not.
func (s *store) damage(t *testing.T, fs *vfs.MemFS, path string, random *rand.Rand) (texts []string) {
	data := contents(t, fs, path)
	for _, damage := range damages {
		places := inFull(damage.where, 1+damage.where/4)
		for i := range places {
			at := 0
			if len(data) > 0 {
				at = (i*len(data) + random.IntN(len(data))) / places
			}
			if len(data) == 0 && damage.name != "removed" {
				continue
			}
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: random})
			damage.do(t, clone, path, data, at)
			texts = append(texts, s.survey(t, clone, fmt.Sprintf("%s %s at %d of %d", path, damage.name, at, len(data))))
		}
	}
	return texts
}

// survey opens a damaged copy: refused with a reason, or as the model says.
func (s *store) survey(t *testing.T, fs *vfs.MemFS, what string) string {
	cfg := s.cfg
	cfg.FS = fs
	loaded, d, err := load(cfg)
	if err != nil {
		require.Equal(t, codes.Storage, codes.Of(err), "%s: %v", what, err)
		text, _, _ := strings.Cut(strings.TrimPrefix(codes.Message(err), "the store cannot be opened: "), ":")
		return text
	}
	defer d.Close()
	require.Equal(t, s.rev, loaded.rev, what)
	require.Equal(t, plain(s.current), plain(loaded.current), what)
	s.surveyReads(t, d, what)
	return ""
}

// surveyReads reads everything back: each answer is right, or an error. It ends at
// the second error, as each takes the database long: it looks for the flipped bit.
func (s *store) surveyReads(t *testing.T, d *Disk, what string) {
	refused := 0
	for after, _ := d.Floors(); after < s.rev; after += 1 + s.rev/8 {
		changes, err := d.Changes(after, 1<<20)
		if err != nil {
			if refused++; refused == 2 {
				return
			}
			continue
		}
		require.Equal(t, s.rev, changes[len(changes)-1].Revision, what)
		for i := range changes {
			want := s.changes[int(after)+i]
			require.Equal(t, want.Revision, changes[i].Revision, what)
			require.Len(t, changes[i].Events, len(want.Events), what)
			for j := range want.Events {
				require.Equal(t, text(want.Events[j].Entry), text(changes[i].Events[j].Entry), what)
			}
		}
	}
	for id := range s.past {
		for rev := s.rev; rev > 0; rev -= 1 + s.rev/4 {
			e, err := d.GetAt(id.ns, id.key, rev)
			if err != nil {
				if refused++; refused >= 2 {
					return
				}
				continue
			}
			require.Equal(t, text(s.at(id, rev)), text(e), "%s: %v at %d", what, id, rev)
		}
	}
}
