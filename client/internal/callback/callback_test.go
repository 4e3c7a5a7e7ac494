package callback

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// While a slow function is busy items wait, the first or the newest of them. The first are
// passed on even if the end comes meanwhile.
func TestBacklogIsBounded(t *testing.T) {
	for first, want := range map[bool][]string{true: {"began", "0", "1", "2"}, false: {"began", "7", "8", "9"}} {
		began, goOn := make(chan struct{}), make(chan struct{})
		var got []string
		r := NewRunner(nil)
		b := NewBacklog(r, 3, first, func(item string) {
			if got = append(got, item); item == "began" {
				close(began)
				<-goOn
			}
		})
		b.Put("began")
		<-began
		for i := range 10 {
			b.Put(strconv.Itoa(i))
		}
		if first {
			require.False(t, r.Stop(clock.Real(), time.Millisecond))
		}
		close(goOn)
		if !first {
			require.Eventually(t, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.running == 0
			}, time.Minute, time.Millisecond)
		}
		require.True(t, r.Stop(clock.Real(), time.Minute))
		require.Equal(t, want, got)
		b.Put("late")
		require.True(t, r.Stop(clock.Real(), time.Minute))
		require.Equal(t, want, got)
	}
}
