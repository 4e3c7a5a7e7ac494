//go:build !race

package confstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/revisions"
	"confcenter/kv"
)

// TestWhatIsToldAndWhatIsReadBackAreTheSame changes documents in every way, and compares what a
// follower is told with what one reads back who was away since any revision.
func TestWhatIsToldAndWhatIsReadBackAreTheSame(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			m := newMemKit(t, map[string]string{"a.json": `{"n":1}`, "d/e.json": `{"o":{"x":1}}`})
			begin := m.Revisions().Revision()
			var all []string
			told := m.followAll()
			for step := range 60 {
				name := modelNames[random.IntN(len(modelNames))]
				text := fmt.Sprintf(`{"n":%d,"%c":{"%c":[%d]}}`, random.IntN(3), 'k'+random.Int32N(3), 'x'+random.Int32N(2), step)
				if name == "_meta.json" {
					text = metas[random.IntN(len(metas))]
				}
				switch random.IntN(8) {
				case 0, 1, 2:
					_, err := m.setAt(name, text, int32(noon.Unix())+int32(step))
					require.True(t, err == nil || codes.Of(err) == codes.Older || codes.Of(err) == codes.Storage, err)
				case 3:
					m.edit(name, text+"\n", noon.Unix()+int64(random.IntN(100)))
				case 4:
					m.write("c.json", text, noon.Unix())
					m.edit(name, text, noon.Unix())
				case 5:
					if _, err := m.mem.Get(m.path(name)); err == nil {
						m.remove(name)
					}
				case 6:
					m.clock.Advance(time.Duration(random.IntN(5)) * time.Second)
				case 7:
					if random.IntN(3) == 0 {
						all = append(all, revisionTexts(told())...)
						m.reopen()
						told = m.followAll()
					}
				}
			}
			all = append(all, revisionTexts(told())...)
			require.Greater(t, len(all), 30)
			changes := m.readBack(begin, 1, everything...)
			require.Equal(t, all, revisionTexts(changes))
			for i := range changes {
				require.Equal(t, revisionTexts(changes[i+1:]), revisionTexts(m.readBack(changes[i].Revision, 500, everything...)))
			}
			for _, name := range modelNames {
				for _, ns := range []string{revisions.Own, revisions.Resolved} {
					f := kv.Filter{NS: ns, Text: name, Exact: true}
					var want []string
					for _, c := range changes {
						want = append(want, revisionTexts([]kv.Change{{Revision: c.Revision, Events: f.Select(c.Events)}})...)
					}
					require.Equal(t, want, revisionTexts(m.readBack(begin, 1<<20, f)), "%v", f)
				}
			}
		})
	}
}
