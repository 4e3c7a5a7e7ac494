package siege

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// crowd is the connections of an attack. It does what it can: that the server ends them, or
// refuses what they ask, is what it should do.
type crowd struct {
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	all   sync.WaitGroup

	accepted atomic.Int64 // requests that were answered with code 0
	refused  atomic.Int64 // that were answered with another
}

// gather runs an attacker on each of n connections.
func gather(addr string, n int, attack func(c *caller, i int)) *crowd {
	g := &crowd{}
	for i := range n {
		g.all.Go(func() {
			c, err := dialFrom(crowded(i), addr)
			if err != nil {
				return
			}
			g.mu.Lock()
			g.conns = append(g.conns, c)
			g.mu.Unlock()
			attack(c, i)
		})
	}
	return g
}

// over waits until all have done their worst. Their connections stay.
func (g *crowd) over() *crowd {
	g.all.Wait()
	return g
}

// disperse ends the attack.
func (g *crowd) disperse() {
	g.mu.Lock()
	for _, c := range g.conns {
		c.Close()
	}
	g.mu.Unlock()
	g.all.Wait()
}

// judge counts an answer.
func (g *crowd) judge(reply string) {
	if r, err := protocol.ParseResult([]byte(reply)); err == nil && r.Code == 0 {
		g.accepted.Add(1)
	} else {
		g.refused.Add(1)
	}
}

// mostBody is a little less than what HTTP takes in one body, mostSet than one frame.
const (
	mostBody = 7_900_000
	mostSet  = 3_900_000
)

// unfinishedBodies are n PUTs over HTTP of which one byte never comes.
func unfinishedBodies(p *process.Process, n int) *crowd {
	body := bytes.Repeat([]byte("7"), mostBody-1)
	return gather(p.HTTP, n, func(c *caller, i int) {
		_ = c.SetWriteDeadline(time.Now().Add(servertest.Patience))
		if _, err := fmt.Fprintf(c, "PUT /v1/config/file?name=body%d.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", i, mostBody); err == nil {
			_, _ = c.Write(body)
		}
	})
}

// unfinishedHeaders are n requests over HTTP with thousands of lines and no end.
func unfinishedHeaders(p *process.Process, n int) *crowd {
	var lines strings.Builder
	for line := range 9000 {
		fmt.Fprintf(&lines, "%04x:\r\n", line)
	}
	return gather(p.HTTP, n, func(c *caller, _ int) {
		_ = c.SetWriteDeadline(time.Now().Add(servertest.Patience))
		_, _ = fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n%s", lines.String())
	})
}

// hugeSets are n documents, each as large as a frame may be.
func hugeSets(p *process.Process, n int) (g *crowd) {
	filler := strings.Repeat("x", mostSet)
	return gatherMembers(p, n, func(g *crowd, c *caller, i int) {
		reply, err := c.call(protocol.SetConfig, fmt.Sprintf(`{"filename":"set%d.json","contents":{"k":%q}}`, i, filler))
		if err == nil {
			g.judge(reply)
		}
	})
}

// gatherMembers is gather of clients that say who they are first.
func gatherMembers(p *process.Process, n int, attack func(g *crowd, c *caller, i int)) (g *crowd) {
	started := make(chan struct{})
	defer close(started)
	g = gather(p.Addr, n, func(c *caller, i int) {
		<-started
		if c.ask(protocol.Whoami, `{"svrid":0,"svrname":"crowd"}`) == nil {
			attack(g, c, i)
		}
	})
	return g
}

// tinyNS is the namespace of the tiny keys, tinyBatch how many a transaction writes.
const (
	tinyNS    = "tiny"
	tinyBatch = 1000
)

// tinyKeys are n keys whose values are empty.
func tinyKeys(p *process.Process, n int) *crowd {
	const writers = 4
	return gatherMembers(p, writers, func(g *crowd, c *caller, i int) {
		for first := i * tinyBatch; first < n; first += writers * tinyBatch {
			var ops []string
			for k := range tinyBatch {
				ops = append(ops, fmt.Sprintf(`{"op":"put","key":"k%d","value":""}`, first+k))
			}
			reply, err := c.call(protocol.KVTxn, fmt.Sprintf(`{"ns":%q,"then":[%s]}`, tinyNS, strings.Join(ops, ",")))
			if err != nil {
				return
			}
			g.judge(reply)
		}
	})
}

// streamNS is the namespace that streams follow.
const streamNS = "stream"

// unreadStreams are n streams over HTTP that no one reads.
func unreadStreams(p *process.Process, n int) *crowd {
	return gather(p.HTTP, n, func(c *caller, _ int) {
		_ = c.SetReadBuffer(4096)
		if _, err := fmt.Fprintf(c, "GET /v1/store/stream?ns=%s&state=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", streamNS); err == nil {
			_, _ = c.in.ReadString('\n') // it has begun
		}
	})
}

// unreadPeers are n clients over TCP that follow everything, ask for everything and read
// nothing.
func unreadPeers(p *process.Process, n int) *crowd {
	return gatherMembers(p, n, func(g *crowd, c *caller, i int) {
		_ = c.SetReadBuffer(4096)
		_ = c.send(protocol.KVWatch, fmt.Sprintf(`{"ns":%q,"state":1}`, streamNS))
		_ = c.send(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
		for range 200 {
			for _, r := range []struct {
				cmd  protocol.Command
				body string
			}{
				{protocol.KVList, fmt.Sprintf(`{"ns":%q}`, streamNS)}, {protocol.GetCli, `{"svrid":0}`}, {protocol.GetCfgName, ``},
			} {
				if c.SetWriteDeadline(time.Now().Add(time.Second)) != nil || c.sendNow(r.cmd, r.body) != nil {
					return
				}
			}
		}
	})
}

// sendNow is send within the deadline that is set.
func (c *caller) sendNow(cmd protocol.Command, body string) error {
	c.seq++
	_, err := c.Write(protocol.AppendFrame(nil, cmd, c.seq, []byte(body)))
	return err
}

// wideClients are n clients with as many properties as a WHOAMI has room for.
func wideClients(p *process.Process, n int) (g *crowd) {
	wide := fmt.Sprintf(`{"svrid":0,"svrname":"wide","desc":%q}`, strings.Repeat("w", 16_000))
	return gather(p.Addr, n, func(c *caller, _ int) { _ = c.ask(protocol.Whoami, wide) })
}

// dropTiny deletes all tiny keys.
func dropTiny(t *testing.T, c *caller) {
	t.Helper()
	for more := true; more; {
		reply, err := c.call(protocol.KVDrop, fmt.Sprintf(`{"ns":%q,"confirm":%q}`, tinyNS, tinyNS))
		require.NoError(t, err)
		require.Contains(t, reply, `"code":0`)
		more = strings.Contains(reply, `"more":1`)
	}
}

// deleteSet deletes a huge document, however slow the disk is.
func deleteSet(t *testing.T, c *caller, i int) {
	t.Helper()
	eventually(t, "it is deleted", func() bool {
		return c.ask(protocol.SetConfig, fmt.Sprintf(`{"filename":"set%d.json","contents":null}`, i)) == nil
	})
}
