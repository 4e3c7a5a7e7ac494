//go:build !race || soak

package disk

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
)

// A store with everything in it is restored as of each of its revisions: as it was then, or not at
// all, and then the revision that is named as the oldest possible one is possible.
func TestRestoreAsOfEachRevision(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := newStore(t, func(c *Config) {
				c.LogBytes, c.TableBytes, c.HistoryVersions = 1<<30, 1<<30, 3
				if seed >= 8 { // no key without history: it reaches farther back than the log
					c.HistoryVersions = 0
				}
				if seed%2 == 1 {
					c.LogAge = 10 * time.Second
				}
			})
			was := map[kv.Revision]map[name]string{}
			shelf := map[kv.Revision]string{}
			for range 36 {
				s.clock.Advance(time.Second)
				switch random.IntN(8) {
				case 0:
					s.tables()
					continue
				case 1:
					key := fmt.Sprint(random.IntN(5))
					if seed >= 8 { // what was written over is gone with the log
						key = fmt.Sprint(s.rev)
					}
					s.shelve(key, fmt.Sprint(random.IntN(100)))
				default:
					ns := []string{"ns", "ns2", "@storage/t"}[random.IntN(3)]
					if seed >= 8 {
						ns = "ns"
					}
					s.put(op{ns, fmt.Sprint(random.IntN(4)), []string{"", "x", "y"}[random.IntN(3)] + "z"}, op{ns, fmt.Sprint(10 + random.IntN(4)), ""})
				}
				was[s.rev], shelf[s.rev] = plain(s.current), s.listed("")
			}
			c := s.copy()
			require.NoError(t, c.inspect())
			oldest := kv.Revision(0)
			for rev := s.rev; rev >= 1; rev-- {
				cfg, r, err := c.restore(Point{Revision: rev})
				if err != nil {
					require.ErrorIs(t, err, codes.Compacted)
					named := oldestPossible.FindStringSubmatch(err.Error())
					require.NotNil(t, named, err)
					n, _ := strconv.Atoi(named[1])
					require.Equal(t, oldest, kv.Revision(n))
					continue
				}
				require.Equal(t, rev, r.Revision)
				if oldest = rev; rev%7 != 0 && rev > 3 {
					continue
				}
				loaded, d, err := load(cfg)
				require.NoError(t, err)
				require.Equal(t, was[rev], plain(loaded.current), rev)
				restored := &store{t: t, cfg: cfg, disk: d, model: loaded}
				require.Equal(t, shelf[rev], restored.listed(""), rev)
				require.NoError(t, d.Close())
			}
			if seed%2 == 0 || seed >= 8 {
				require.Equal(t, kv.Revision(1), oldest)
			}
			_, _, err := c.restore(Point{Revision: s.rev + 1})
			require.ErrorIs(t, err, codes.FutureRevision)
		})
	}
}
