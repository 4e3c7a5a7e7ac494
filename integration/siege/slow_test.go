//go:build soak

package siege

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// Peers that say a byte now and then are closed when their time is over, however many they
// are, over both fronts.
func TestPeersThatNeverFinish(t *testing.T) {
	p := process.Start(t, confDir(t), append(strict, "--identify-timeout", "2s")...)
	w := watch(t, p)
	whoami := protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"slow"}`))
	trickle := func(text []byte) func(c *caller, i int) {
		return func(c *caller, i int) {
			const slowly = 50 * time.Millisecond
			for n := 0; ; n++ {
				if _, err := c.Write(text[n%len(text):][:1]); err != nil || n == len(text)-1 {
					return // closed, or it waits with the last byte
				}
				_ = c.SetReadDeadline(time.Now().Add(slowly))
				if _, err := c.in.ReadByte(); err == io.EOF {
					return
				}
			}
		}
	}
	over := []*crowd{
		gather(p.Addr, 500, trickle(whoami[:len(whoami)-1])),
		gather(p.HTTP, 500, trickle([]byte("GET /v1/config/file?name=a.json HTTP/1.1\r\nHost: localhost\r\n"))),
	}
	for _, g := range over {
		g.over()
		newcomer(t, p)
		for _, c := range g.conns {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(servertest.Patience)))
			_, err := io.Copy(io.Discard, c)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is still there")
		}
		g.disperse()
	}
	w.relieve()
	p.Stop()
}

// A program that is stopped, as by a debugger, and goes on later sees what has become of
// everything, and no one waits for it.
func TestAStoppedPeerCatchesUp(t *testing.T) {
	p := process.Start(t, confDir(t), strict...)
	path, err := process.Binary()
	require.NoError(t, err)
	cmd := exec.Command(path, "kv", "watch", streamNS, "--state", "--addr", p.Addr)
	cmd.Env = []string{"TZ=UTC"}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := make(chan string, 100_000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	}()
	c, err := enter(p.Addr, "witness")
	require.NoError(t, err)
	defer c.Close()
	put := func(key, value string) {
		t.Helper()
		require.NoError(t, c.ask(protocol.KVPut, fmt.Sprintf(`{"ns":%q,"key":%q,"value":%q}`, streamNS, key, value)))
	}
	sees := func(text string) {
		t.Helper()
		for timeout := time.After(servertest.Patience); ; {
			select {
			case line := <-lines:
				if strings.Contains(line, text) {
					return
				}
			case <-timeout:
				require.FailNow(t, "it never sees "+text)
			}
		}
	}
	put("first", "begin")
	sees("begin")
	filler := strings.Repeat("f", 50_000)
	for round := range 3 {
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		for i := range 300 {
			put(fmt.Sprint("k", i%20), filler)
		}
		last := fmt.Sprintf("round-%d-is-over", round)
		put("last", last)
		require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
		sees(last)
	}
	p.Stop()
}
