package kills

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/ledger"
	"confcenter/integration/process"
)

const kvKillRounds = 200 // in full; make test does five

// TestSoakKillState kills the server at random moments under a mixed load on the state
// store. After each start every acknowledged write is there, batches are whole, no
// increment has happened twice, revisions have not gone back, and one watch that resumes
// where it was sees every acknowledged change once.
func TestSoakKillState(t *testing.T) {
	rounds := whole(kvKillRounds, 5)
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	seed := uint64(time.Now().UnixNano())
	p, book, random := process.Start(t, conf), ledger.Open(t, seed), rand.New(rand.NewPCG(seed, 1))
	for round := range rounds {
		load := book.Load(p)
		<-time.After(time.Duration(random.IntN(120_000)) * time.Microsecond) // the random moment
		p.Kill()
		load.Killed()
		interruptedStarts(t, p, random, 60*time.Millisecond)
		p.Start()
		book.Check(p)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	book.NothingMissed(p)
	c := book.Counts()
	require.Greater(t, c.Acked, 10*rounds, "the load was no load")
	require.Zero(t, c.Lapses)
	t.Logf("%d kills of %d planned in full, %d acknowledged writes, none lost, %d increments sent again, none repeated; seed %d", rounds, kvKillRounds, c.Acked, c.Retried, seed)
}

// interruptedStarts kills the server while it starts, too.
func interruptedStarts(t *testing.T, p *process.Process, random *rand.Rand, within time.Duration) {
	t.Helper()
	for random.IntN(3) == 0 {
		cmd := p.Command()
		require.NoError(t, cmd.Start())
		<-time.After(time.Duration(random.IntN(int(within))))
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
}
