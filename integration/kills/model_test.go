package kills

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
)

const modelKillRounds = 60 // of each model, in full; make test does five

// asker is a program that asks a model until its server is killed, and knows what it was answered.
type asker interface {
	// step asks once more. It remembers what it asks, until it is answered.
	step(ctx context.Context, c *client.Client) error
	// faults compares what the server has with what was answered. What was asked and not
	// answered is there as a whole or not at all.
	faults(ctx context.Context, c *client.Client) ([]string, error)
}

// killModels lets askers ask and kills their server at random moments, again and again.
func killModels(t *testing.T, p *process.Process, random *rand.Rand, askers []asker, check func(ctx context.Context, c *client.Client) ([]string, error)) {
	rounds := whole(modelKillRounds, 5)
	steps := 0
	for range rounds {
		steps += stepsUntilKilled(t, p, random, askers)
		interruptedStarts(t, p, random, 60*time.Millisecond)
		p.Start()
		untilSound(t, p, servertest.Patience, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := check(ctx, c)
			for _, one := range askers {
				more, wrong := one.faults(ctx, c)
				list, err = append(list, more...), errors.Join(err, wrong)
			}
			return list, err
		})
	}
	require.Greater(t, steps, rounds, "the load was no load")
	t.Logf("%d kills of %d planned in full, %d acknowledged steps, none lost", rounds, modelKillRounds, steps)
}

// untilSound looks until there is no fault, because the server finishes what was interrupted.
func untilSound(t *testing.T, p *process.Process, patience time.Duration, look func(ctx context.Context, c *client.Client) ([]string, error)) {
	t.Helper()
	withClient(t, p, patience, func(ctx context.Context, c *client.Client) {
		for last := []string{"never seen"}; ; {
			list, err := look(ctx, c)
			require.NoError(t, err, "%q", last)
			if last = list; len(last) == 0 {
				return
			}
			<-time.After(50 * time.Millisecond) // look again
		}
	})
}

// withClient connects for as long as do takes.
func withClient(t *testing.T, p *process.Process, patience time.Duration, do func(ctx context.Context, c *client.Client)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{p.Addr}, Name: "check"})
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	do(ctx, c)
}

// stepsUntilKilled returns how many steps were answered.
func stepsUntilKilled(t *testing.T, p *process.Process, random *rand.Rand, askers []asker) (steps int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	counts, errs := make([]int, len(askers)), make([]error, len(askers))
	var running sync.WaitGroup
	for i, one := range askers {
		c, err := client.Dial(ctx, client.Config{Addrs: []string{p.Addr}, Name: "program"})
		require.NoError(t, err)
		running.Go(func() {
			defer func() { _ = c.Close() }()
			for {
				err := one.step(ctx, c)
				if ctx.Err() != nil || errors.Is(err, client.ErrUnreachable) {
					return // killed
				}
				if err != nil {
					errs[i] = err
					return
				}
				counts[i]++
			}
		})
	}
	<-time.After(time.Duration(random.IntN(150_000)) * time.Microsecond) // the random moment
	p.Kill()
	cancel()
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, n := range counts {
		steps += n
	}
	return steps
}
