package kills

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In full; make test does five.
const (
	landingKillRounds = 80
	landerStops       = 50
)

// H31 and H32: two landers share four dirty tables, and each in turn stands still for longer
// than its claims last, in the middle of its work. A table has one owner at a time, and no row
// ever gives way to an older one.
func TestSoakLandersStandStill(t *testing.T) {
	l := startPlayers(t, 1)
	claims, stops := l.holders(), whole(landerStops, 5)
	for i := range stops {
		lander, name := l.landers[i%2], fmt.Sprint("lander-", i%2)
		claims.await(l, name)
		lander.Signal(syscall.SIGSTOP)
		l.landsAll(l.acked()) // by the other one, when the claims have ended
		lander.Signal(syscall.SIGCONT)
	}
	l.stop()
	acked := l.agrees()
	require.Empty(t, claims.seenTwice())
	t.Logf("%d stops of %d planned in full, %d acknowledged writes, no row older than before", stops, landerStops, acked)
}

// The kernel ends the connection of a lander that is killed, and its claims end with that: no one
// waits for as long as they could have lasted.
func TestSoakKillLandersWithLongClaims(t *testing.T) {
	l := startPlayers(t, 86_400)
	claims := l.holders()
	for i := range 4 {
		lander := l.landers[i%2]
		claims.await(l, fmt.Sprint("lander-", i%2))
		lander.Kill()
		l.landsAll(l.acked()) // by the other one
		lander.Start()
	}
	l.stop()
	l.agrees()
	require.Empty(t, claims.seenTwice())
}

// H28, and the same for all: server, landers and database are killed at random moments, also
// two at a time. In the end the rows are what the store has, nothing acknowledged is missing,
// and no row has ever given way to an older one.
func TestSoakKillLanding(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random, rounds, kills := rand.New(rand.NewPCG(seed, 1)), whole(landingKillRounds, 5), 0
	l := startPlayers(t, 1)
	victims := [][2]func(){
		{l.server.Kill, l.server.Start},
		{l.landers[0].Kill, l.landers[0].Start},
		{l.landers[1].Kill, l.landers[1].Start},
		{func() { l.mariadb.Kill(t) }, func() { l.mariadb.Start(t) }},
	}
	pause := func() { <-time.After(time.Duration(random.IntN(150_000)) * time.Microsecond) } // the random moment
	for round := range rounds {
		chosen := victims[round%len(victims):][:1]
		if random.IntN(2) == 0 {
			random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
			chosen = victims[:2]
		}
		for _, v := range chosen {
			pause()
			v[0]()
			kills++
		}
		pause()
		for _, v := range chosen {
			v[1]()
		}
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
	l.landsAll(l.acked())
	l.stop()
	acked := l.agrees()
	require.Greater(t, acked, int64(10*rounds), "the load was no load")
	t.Logf("%d kills in %d rounds of %d planned in full, %d acknowledged writes, none lost, no row older than before; seed %d", kills, rounds, landingKillRounds, acked, seed)
}
