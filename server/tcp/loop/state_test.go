package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyWhatCanFollowFollowsAState(t *testing.T) {
	waits := []inputState{forReader, forReplies, forRoom, forTurn, forPause, forWorker}
	legal := map[inputState][]inputState{
		reading: append([]inputState{closing, dead}, waits...),
		closing: {shut, dead},
		shut:    {dead},
	}
	for _, s := range waits {
		legal[s] = []inputState{reading, closing, dead}
	}
	for from := reading; from < inputStates; from++ {
		for to := reading; to < inputStates; to++ {
			s := from
			moved := s.become(to)
			require.Contains(t, append(legal[from], from), s)
			if moved {
				require.Contains(t, legal[from], to, "%d to %d", from, to)
				require.Equal(t, to, s)
			} else {
				require.NotContains(t, legal[from], to, "%d to %d", from, to)
				require.Equal(t, from, s, "what is refused changes nothing")
			}
		}
		require.Equal(t, from >= closing, from.over())
	}
}

// A worker ends its own wait: what else happens meanwhile must not have the frame
// that it works for taken twice.
func TestNothingButItsWorkerResumesAConnectionThatWaitsForOne(t *testing.T) {
	s, _ := newConn(t, Limits{})
	s.Away(func() {}, func(*Loop) {})
	s.resume()
	s.drained()
	require.Equal(t, forWorker, s.state)
	require.False(t, s.wait(forRoom), "it takes no frame that could find a queue full")
	s.Group().workers.jobs[0]()
	s.Loop.Wake()
	require.Equal(t, reading, s.state)
}
