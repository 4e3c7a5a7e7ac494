package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReminderIsDueOnceAMinute(t *testing.T) {
	var r Reminder
	trouble, now := &Trouble{}, time.Unix(1000, 0)
	count := func(seconds int, trouble *Trouble) (due int) {
		for range seconds {
			if r.Due(now, trouble) {
				due++
			}
			now = now.Add(time.Second)
		}
		return due
	}
	require.Zero(t, count(100, nil))
	require.Zero(t, count(60, trouble), "its begin is logged by others")
	require.Equal(t, 1, count(60, trouble))
	require.Equal(t, 1, count(60, &Trouble{}), "another one in its place")
	require.Zero(t, count(1, nil))
	require.Zero(t, count(60, trouble))
}
