//go:build !race || soak

package player

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/player/field"
)

// Reads always agree with a plain map, whatever lands, leaves memory, is loaded or is killed in
// between; and in the end so does the database.
func TestStorageAgreesWithAPlainMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sql := newDatabase()
		k := startPurging(t, sql)
		if purges := rapid.Bool().Draw(rt, "purges"); purges {
			k.cfg.Settings.Purge = purgeAge
			require.NoError(rt, k.Set(t.Context(), k.cfg.Settings))
		}
		type last struct {
			value string
			at    time.Time
		}
		model, gone := map[field.Owner]map[string]string{}, map[field.Ref]last{}
		versions := map[field.Ref]int64{}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			o := player
			o.ID = rapid.SampledFrom([]string{"1", "10", "a:b"}).Draw(rt, "owner")
			f := field.Ref{Owner: o, Name: rapid.SampledFrom([]string{"a", "b", ":c"}).Draw(rt, "field")}
			if model[o] == nil {
				model[o] = map[string]string{}
			}
			fields := model[o]
			old, there := fields[f.Name]
			set := func(value string, out *field.Outcome, err error) {
				require.NoError(rt, err)
				fields[f.Name] = value
				delete(gone, f)
				require.Greater(rt, out.Fields[0].Version, versions[f])
				versions[f] = out.Fields[0].Version
				if len(out.Prev) > 0 {
					require.Equal(rt, old, string(out.Prev[0].Value))
				}
			}
			prev := rapid.Bool().Draw(rt, "prev")
			switch rapid.IntRange(0, 10).Draw(rt, "step") {
			case 0:
				value := rapid.SampledFrom([]string{"1", "text", ""}).Draw(rt, "value")
				out, err := k.try(&field.Write{Owner: o, Kind: field.Update, Fields: []field.Field{{Name: f.Name, Value: []byte(value)}}, WantPrev: prev})
				set(value, out, err)
				require.Equal(rt, prev && there, len(out.Prev) > 0)
			case 1:
				out, err := k.try(&field.Write{Owner: o, Kind: field.Incr, Deltas: []field.Delta{{Name: f.Name, By: 2}}, WantPrev: prev})
				n, isNumber := strconv.Atoi(old)
				if there && isNumber != nil {
					require.ErrorIs(rt, err, codes.WrongType)
					break
				}
				set(strconv.Itoa(n+2), out, err)
				require.Equal(rt, fields[f.Name], string(out.Fields[0].Value))
			case 2:
				k.remove(o, f.Name)
				if there {
					delete(fields, f.Name)
					gone[f] = last{old, k.clock.Now()}
				}
			case 3:
				_, err := k.try(&field.Write{Owner: o, Kind: field.Restore, Names: []string{f.Name}})
				was, wasThere := gone[f]
				if age := k.Settings().Purge; age > 0 && k.clock.Now().Sub(was.at) >= age {
					wasThere = false
				}
				if there || wasThere {
					require.NoError(rt, err)
				} else {
					require.ErrorIs(rt, err, codes.NotFound)
				}
				if wasThere {
					fields[f.Name] = was.value
					delete(gone, f)
				}
			case 4:
				require.Equal(rt, fields, k.all(o))
			case 5:
				k.landOnce(0)
			case 6, 7:
				k.chill()
			case 8:
				k.reopen()
			case 9:
				want := map[string]string{}
				if there {
					want[f.Name] = old
				}
				require.Equal(rt, want, k.get(o, f.Name))
			case 10:
				if k.Settings().Purge > 0 {
					k.shut() // and with it the purge that goes by the clock
					k.round()
					k.open()
				}
			}
		}
		for o, fields := range model {
			require.Equal(rt, fields, k.all(o))
		}
		k.land()
		for o, fields := range model {
			require.Equal(rt, fields, sql.live(o))
			list, _, err := k.Owners(t.Context(), "1", "1", "", "", 0)
			require.NoError(rt, err)
			require.Equal(rt, len(fields) > 0, slices.Contains(list, o), fmt.Sprint(maps.Keys(fields)))
		}
		k.shut()
		require.NoError(rt, k.engine.Close())
	})
}
