package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// side is a rival whose server is this process, busy if the test says so.
func side(name string, order *[]string, busy bool, rates ...float64) *rival {
	n := 0
	return &rival{pid: os.Getpid(), run: func() sample {
		*order = append(*order, name)
		if busy {
			for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
			}
		} else {
			<-time.After(5 * time.Millisecond)
		}
		n++
		return sample{rate: rates[(n-1)%len(rates)], p99: 12}
	}}
}

func TestCompareTakesTurns(t *testing.T) {
	var order []string
	a, b := side("a", &order, true, 1, 2, 3), side("b", &order, true, 2)
	ratio := compare(a, b, 2)
	require.Equal(t, []string{"a", "b", "b", "a"}, order[:4])
	require.GreaterOrEqual(t, ratio, 0.5)
	require.LessOrEqual(t, ratio, 1.5)
	require.Contains(t, b.String(), "2/s (p99 12 µs)")
}

func TestDisturbedPairsAreMeasuredAgainAndThenTaken(t *testing.T) {
	var order []string
	a, b := side("a", &order, false, 3), side("b", &order, false, 2)
	ratio := compare(a, b, 2)
	require.Len(t, order, 2*2*maxAttempts)
	require.Equal(t, 1.5, ratio)
	require.Contains(t, a.String(), "disturbed")
}

func TestCompareStopsAtAFailure(t *testing.T) {
	failure := errors.New("lost")
	var order []string
	b := side("b", &order, true, 1)
	err := attempt(func() {
		compare(&rival{run: func() sample {
			check(failure)
			return sample{}
		}}, b, 3)
	})
	require.ErrorIs(t, err, failure)
	require.Empty(t, order)
}
