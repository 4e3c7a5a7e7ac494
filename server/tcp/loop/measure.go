package loop

import (
	"sync/atomic"
	"time"

	"confcenter/internal/metric"
	"confcenter/internal/ring"
	"confcenter/protocol"
)

// pace is a class of requests by what their time depends on.
type pace uint8

const (
	atMemory pace = iota // answered on the loop
	atWorker             // a worker made the reply or what it needs
	atStore              // written
	paces
)

var paceNames = [paces]string{"memory", "worker", "write"}

// measures are one loop's own counters, so that loops do not contend for memory. Only the
// loop writes them.
type measures struct {
	commands []atomic.Uint64 // requests by id; 0 has those beyond the table
	latency  [paces]metric.Histogram
}

// timedBursts: of the bursts that are answered from memory one in that many is timed, and
// one after each tick, so that a server with little to do times most of them.
const timedBursts = 16

// meter counts and times a loop's requests. It belongs to the loop, except for its
// measures.
type meter struct {
	l *Loop // set at open
	measures

	// counted since they were last added to the counters that others read
	requests, replies uint64
	counting          protocol.Command // of requests

	bursts uint32
	tick   int64 // loop.now of the burst timed last
	timing bool  // the current one is timed
	// at is the current time, if it was read since the loop turned to the current
	// connection.
	at    time.Duration
	known bool
	given uint64 // replies when the burst began
}

func (m *meter) init(l *Loop) { m.l, m.commands = l, make([]atomic.Uint64, protocol.IDs()) }

// moment is the current time, read at most once for each connection that is served.
func (m *meter) moment() time.Duration {
	if !m.known {
		m.at, m.known = m.l.Group.elapsed(), true
	}
	return m.at
}

// beginBurst is called when the loop turns to a peer's input.
func (m *meter) beginBurst() {
	m.known = false
	if m.bursts++; m.bursts%timedBursts == 0 || m.tick != m.l.now {
		m.timeBurst()
	}
}

func (m *meter) timeBurst() {
	m.timing, m.tick, m.given = true, m.l.now, m.replies
	m.moment()
}

// endBurst is called when everything that could be answered at once has been.
func (m *meter) endBurst(c *Conn) {
	if m.timing {
		m.burstTimed(c)
	}
}

// burstTimed records the burst's time for each of its requests: their replies leave
// together.
func (m *meter) burstTimed(c *Conn) {
	m.timing = false
	if m.replies > m.given {
		m.observe(c, atMemory, m.counting, m.l.Group.elapsed()-m.at, m.replies-m.given)
	}
}

// observe records that n requests took d.
func (m *meter) observe(c *Conn, p pace, cmd protocol.Command, d time.Duration, n uint64) {
	m.latency[p].Add(d, n)
	if d >= m.l.Group.slow.from {
		m.l.Group.slowRequest(c, cmd, d)
	}
}

// count counts a request. Requests of one kind mostly come together.
func (m *meter) count(cmd protocol.Command) {
	if cmd != m.counting {
		m.addRequests()
		m.counting = cmd
	}
	m.requests++
}

func (m *meter) addRequests() {
	if m.requests > 0 {
		i := int(m.counting)
		if i >= len(m.commands) {
			i = 0
		}
		m.commands[i].Add(m.requests)
		m.requests = 0
	}
}

// addCounts updates the counters that others read. It is not called for every request.
func (m *meter) addCounts() {
	m.addRequests()
	if m.replies != 0 {
		m.l.Group.Count.Replies.Add(m.replies)
		m.replies = 0
	}
}

// slowKept is how many slow requests are remembered.
const slowKept = 50

// slowRequests are the last slow requests.
type slowRequests struct {
	from time.Duration // set at open: a request that takes longer is slow
	last ring.Ring[metric.Slow]
}

// slowRequest logs a slow request: client and command, never names or values.
func (g *Group) slowRequest(c *Conn, cmd protocol.Command, d time.Duration) {
	g.slow.last.Add(metric.Slow{When: g.clock.Now(), Name: cmd.String(), Duration: d})
	g.PeerLog.Warn().Stringer("command", cmd).Dur("duration", d).Stringer("peer", c.Peer).Str("client", c.User.Name()).Msg("slow request")
}

// Slow are the last requests that were slow, newest first.
func (g *Group) Slow() []metric.Slow { return g.slow.last.Newest(slowKept) }
