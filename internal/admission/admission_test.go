package admission

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
)

var (
	here  = netip.MustParseAddr("127.0.0.1")
	there = netip.MustParseAddr("192.0.2.7")
)

// visit lets a peer in whose connection ends when it is told to leave.
func visit(t *testing.T, f *Front, peer netip.Addr) (p *Place, evicted *bool) {
	t.Helper()
	p, err := f.Admit(peer)
	require.NoError(t, err)
	evicted = new(bool)
	require.True(t, p.Evictable(func() { *evicted = true; p.Leave() }))
	return p, evicted
}

func TestTheOldestSilentStrangerMakesRoom(t *testing.T) {
	l := New(Limits{Unidentified: 3})
	tcp, web := l.Front(8, memory.TCPCost), l.Front(8, memory.TCPCost)
	talker, talkerOut := visit(t, tcp, here)
	talker.Spoke()
	_, oldestOut := visit(t, web, here) // another front's, but they share the limiter
	_, newerOut := visit(t, tcp, here)

	visit(t, tcp, there)
	require.True(t, *oldestOut)
	require.False(t, *newerOut)
	visit(t, tcp, there)
	require.True(t, *newerOut)
	require.False(t, *talkerOut, "has sent something")
	require.Equal(t, 3, l.Unidentified())
	require.EqualValues(t, 2, l.Count.Evicted.Load())
}

func TestWhoHasSaidHalfIsTheLastToGo(t *testing.T) {
	f := New(Limits{Unidentified: 1}).Front(8, memory.TCPCost)
	p, out := visit(t, f, here)
	p.Spoke()
	visit(t, f, here)
	require.True(t, *out)
}

func TestAnAddressWithManyMakesRoomForItsOwn(t *testing.T) {
	l := New(Limits{Unidentified: 32})
	f := l.Front(8, memory.TCPCost)
	_, lonelyOut := visit(t, f, here) // the oldest of all
	talker, out := visit(t, f, there)
	crowd := []*bool{out}
	for range 30 {
		_, out := visit(t, f, there)
		crowd = append(crowd, out)
	}
	talker.Spoke()
	visit(t, f, there)
	require.False(t, *crowd[0], "it has said something")
	require.True(t, *crowd[1])
	require.False(t, *lonelyOut)
}

func TestWhoWasSettledBeforeHasAShareOfTheLobby(t *testing.T) {
	l := New(Limits{Unidentified: 8})
	f := l.Front(8, memory.TCPCost)
	p, _ := visit(t, f, there)
	require.NoError(t, p.Settle(""))
	var back []*bool
	for range 2 {
		_, out := visit(t, f, there)
		back = append(back, out)
	}
	addr := netip.MustParseAddr("10.0.0.1")
	for range 64 {
		visit(t, f, addr)
		addr = addr.Next()
	}
	require.False(t, *back[0])
	require.False(t, *back[1])
	visit(t, f, there)
	visit(t, f, there)
	require.True(t, *back[0], "but no more than that")
}

func TestSettledConnectionsAreNotInTheLobby(t *testing.T) {
	l := New(Limits{Unidentified: 1})
	f := l.Front(8, memory.TCPCost)
	p, out := visit(t, f, here)
	require.NoError(t, p.Settle("game"))
	visit(t, f, here)
	require.False(t, *out)
	require.Equal(t, 1, l.Unidentified())
	require.NoError(t, p.Settle("game"), "again")
}

func TestSomePlacesAreKeptForWhoWasThereBefore(t *testing.T) {
	f := New(Limits{Unidentified: 64}).Front(32, memory.TCPCost) // of which 2 are kept
	first, _ := visit(t, f, there)
	require.NoError(t, first.Settle("known"))
	first.Leave()

	addr := netip.MustParseAddr("10.0.0.1")
	for range 30 {
		p, _ := visit(t, f, addr)
		require.NoError(t, p.Settle(""))
		addr = addr.Next()
	}
	p, _ := visit(t, f, addr)
	require.Equal(t, codes.Busy, codes.Of(p.Settle("unheard of")))
	require.NoError(t, p.Settle("known"), "its name is known")
	p, _ = visit(t, f, there)
	require.NoError(t, p.Settle("renamed"), "its address is known")
	p, _ = visit(t, f, there)
	require.Equal(t, codes.Busy, codes.Of(p.Settle("known")), "there is none left at all")
}

func TestProbesNeedNoPlace(t *testing.T) {
	l := New(Limits{Unidentified: 8})
	f := l.Front(1, memory.TCPCost)
	p, _ := visit(t, f, here)
	require.True(t, p.SettleIfRoom(""))
	probe, _ := visit(t, f, here)
	require.False(t, probe.SettleIfRoom(""))
	require.Zero(t, l.Count.Settled.Load(), "nobody was refused")
	p.Leave()
	require.True(t, probe.SettleIfRoom(""))
}

func TestOneAddressHasItsLimit(t *testing.T) {
	l := New(Limits{Unidentified: 64, PerAddress: 2, Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	f := l.Front(64, memory.TCPCost)
	p, _ := visit(t, f, there)
	require.NoError(t, p.Settle(""))
	visit(t, f, there)
	_, err := l.Front(64, memory.TCPCost).Admit(there)
	require.Equal(t, codes.Busy, codes.Of(err), "the other front counts too")
	_, err = f.Admit(netip.AddrFrom16(there.As16()))
	require.Error(t, err, "so does its other spelling")
	for range 8 {
		visit(t, f, here)
	}
	p.Leave()
	p.Leave() // once counts
	visit(t, f, there)
	_, err = f.Admit(there)
	require.Error(t, err)
	require.EqualValues(t, 3, l.Count.Address.Load())
}

func TestNewcomersWaitForThoseOnTheirWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{Unidentified: 1})
		f := l.Front(8, memory.TCPCost)
		var stuck []*Place
		for range leavingMost + 1 {
			p, err := f.Admit(here)
			require.NoError(t, err)
			p.Evictable(func() {}) // and does not end
			stuck = append(stuck, p)
		}
		var in, refused atomic.Int64
		for range 3 {
			go func() {
				if _, err := f.Admit(there); err != nil {
					refused.Add(1)
				} else {
					in.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.Zero(t, in.Load()+refused.Load())
		stuck[0].Leave()
		synctest.Wait()
		require.EqualValues(t, 1, in.Load(), "at the cost of the last of them")
		stuck[leavingMost-1].Leave()
		synctest.Wait()
		require.EqualValues(t, 2, in.Load())
		f.Close()
		synctest.Wait()
		require.EqualValues(t, 1, refused.Load())
	})
}

func TestEvictedBeforeItIsKnownHow(t *testing.T) {
	f := New(Limits{Unidentified: 1}).Front(8, memory.TCPCost)
	early, err := f.Admit(here)
	require.NoError(t, err)
	visit(t, f, here)
	require.False(t, early.Evictable(func() { t.Error("it is the caller who closes it") }))
	early.Leave()
}

func TestACloseFrontHasItsStrangersLeave(t *testing.T) {
	l := New(Limits{Unidentified: 8})
	closed, open := l.Front(8, memory.TCPCost), l.Front(8, memory.TCPCost)
	_, out := visit(t, closed, here)
	p, settledOut := visit(t, closed, here)
	require.NoError(t, p.Settle(""))
	_, otherOut := visit(t, open, here)
	closed.Close()
	require.Equal(t, []bool{true, false, false}, []bool{*out, *settledOut, *otherOut})
	_, err := closed.Admit(here)
	require.Equal(t, codes.Closed, codes.Of(err))
	visit(t, open, here)
}

func TestMemoryOfKeysIsBounded(t *testing.T) {
	var m recent[string, int]
	for i := range 3 * remembered {
		m.add(fmt.Sprint(i), i)
		require.True(t, m.has(fmt.Sprint(i)))
		require.Equal(t, i, m.get(fmt.Sprint(i)))
		require.True(t, m.has(fmt.Sprint(max(0, i-remembered/2+1))), "the last half is always there")
	}
	require.LessOrEqual(t, len(m.fresh)+len(m.old), remembered)
	require.False(t, m.has("0"))
}

// No address has a front for itself, however large the limits over all fronts are.
func TestAnAddressLeavesHalfOfAFrontToOthers(t *testing.T) {
	l := New(Limits{Unidentified: 64, PerAddress: 1000, Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	tcp, web := l.Front(1000, memory.TCPCost), l.Front(32, memory.TCPCost)
	first, _ := visit(t, web, there)
	require.NoError(t, first.Settle(""))
	for range 15 {
		p, _ := visit(t, web, there)
		require.NoError(t, p.Settle(""))
	}
	p, _ := visit(t, web, there)
	require.Equal(t, codes.Busy, codes.Of(p.Settle("")))
	p, _ = visit(t, tcp, there)
	require.NoError(t, p.Settle("game"), "the other front has room")
	require.EqualValues(t, 1, l.Count.Address.Load())
	var last *Place
	for range 14 { // two are kept
		last, _ = visit(t, web, here)
		require.NoError(t, last.Settle(""))
	}
	p, _ = visit(t, web, here)
	require.NoError(t, p.Settle(""), "its address is known by now, and it is exempt from the limit")
	p, _ = visit(t, web, there)
	last.Leave()
	require.Equal(t, codes.Busy, codes.Of(p.Settle("")))
	first.Leave()
	first.Leave() // once counts
	require.NoError(t, p.Settle(""))
	p, _ = visit(t, web, there)
	require.Equal(t, codes.Busy, codes.Of(p.Settle("")))
}

// A first word takes a moment to arrive. Those who sent half of one long ago do not
// outlast a newcomer because of it.
func TestANewcomerHasAMomentToSpeak(t *testing.T) {
	l := New(Limits{Unidentified: 64})
	f := l.Front(8, memory.TCPCost)
	addr := netip.MustParseAddr("10.0.0.1")
	half := func() {
		p, _ := visit(t, f, addr) // each from an address of its own, so that none makes room for its own
		p.Spoke()
		addr = addr.Next()
	}
	for range 64 {
		half()
	}
	p, out := visit(t, f, there)
	for range 31 {
		half()
		require.False(t, *out)
	}
	require.NoError(t, p.Settle(""))

	_, out = visit(t, f, here) // an unknown one
	for range 64 {
		half()
	}
	require.True(t, *out, "but not for ever")
}

// Who sends a byte now and then is not new because of it.
func TestDribblingDoesNotKeepAPlace(t *testing.T) {
	l := New(Limits{Unidentified: 4})
	f := l.Front(8, memory.TCPCost)
	dribbler, dribblerOut := visit(t, f, there)
	half, halfOut := visit(t, f, here)
	dribbler.Spoke()
	half.Spoke()
	dribbler.Spoke()
	for i := range byte(3) {
		p, _ := visit(t, f, netip.AddrFrom4([4]byte{10, 0, 0, i}))
		p.Spoke()
	}
	require.True(t, *dribblerOut)
	require.False(t, *halfOut)
}

func TestConnectionsAreCountedWhileTheyAreOpen(t *testing.T) {
	pool := memory.NewPool(1 << 20)
	l := New(Limits{Unidentified: 2, Memory: pool})
	tcp, web := l.Front(8, memory.TCPCost), l.Front(8, memory.HTTPCost)
	a, _ := visit(t, tcp, here)
	b, _ := visit(t, web, there)
	require.EqualValues(t, memory.TCPCost+memory.HTTPCost, pool.Held())
	require.NoError(t, b.Settle(""))
	b.Leave()
	b.Leave()
	require.EqualValues(t, memory.TCPCost, pool.Held())
	a.Leave()
	require.Zero(t, pool.Held())
}

// Who can help gets in when it is needed most.
func TestAdministratorsGetInWhenAllPlacesAreTaken(t *testing.T) {
	l := New(Limits{PerAddress: 100})
	f := l.Front(2, memory.TCPCost)
	for range 2 {
		p, _ := visit(t, f, netip.AddrFrom4([4]byte{10, 0, 0, byte(f.settled)}))
		require.NoError(t, p.Settle(""))
	}
	p, _ := visit(t, f, there)
	require.Equal(t, codes.Busy, codes.Of(p.Settle("")))
	require.NoError(t, p.SettleAdministrator(""))
	for range administratorsMost - 1 { // of one address, which has more than its half by now
		p, _ = visit(t, f, there)
		require.NoError(t, p.SettleAdministrator(""))
	}
	require.EqualValues(t, administratorsMost, l.Count.Extra.Load())
	last, _ := visit(t, f, there)
	require.Equal(t, codes.Busy, codes.Of(last.SettleAdministrator("")), "not without end")
	p.Leave()
	require.NoError(t, last.SettleAdministrator(""))
	other, _ := visit(t, f, here)
	require.Equal(t, codes.Busy, codes.Of(other.Settle("")), "their places are nobody else's")
}
