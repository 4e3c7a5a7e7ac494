package kills

import (
	"encoding/json" // reads lines as their readers do
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const auditKillRounds = 60 // in full; make test does five

// auditLines are all lines that a server has, which has checked them.
func auditLines(t *testing.T, p *process.Process) (lines []audit.Line) {
	t.Helper()
	process.Must(t, "audit", "verify", "--addr", p.Addr)
	for text := range strings.Lines(process.Must(t, "audit", "--addr", p.Addr, "--last", "100000000", "-o", "json")) {
		l, err := audit.ParseLine([]byte(strings.TrimSuffix(text, "\n")))
		require.NoError(t, err, text)
		lines = append(lines, l)
	}
	return lines
}

// TestSoakKillAudit kills the server at random moments while keys and documents are written. What was
// acknowledged has exactly one line, at the revision that was acknowledged; what is there has one
// as well; the chain is whole, and so is the copy in a file.
func TestSoakKillAudit(t *testing.T) {
	rounds := whole(auditKillRounds, 5)
	conf, copied := filepath.Join(t.TempDir(), "conf"), filepath.Join(t.TempDir(), "audit.jsonl")
	require.NoError(t, os.Mkdir(conf, 0o755))
	p := process.Start(t, conf, "--audit", "all", "--audit-file", copied)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex
	acked := map[string]int64{} // the revision by what was written; 0: it is not known
	for round := range rounds {
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for w := range 8 {
			writers.Go(func() {
				s := process.StoreOf(t, p)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					name := fmt.Sprintf("%d-%d-%d", round, w, i)
					what, method, path, body := "kv:ns/"+name, "PUT", "/v1/store/key?ns=ns&key="+name, `{"value":"v"}`
					if i%5 == 0 {
						what, path, body = "config:"+name+".json", "/v1/config/file?name="+name+".json", `{"a":1}`
					}
					status, text, err := s.Try(method, path, body)
					mu.Lock()
					var done struct{ Revision, Mod int64 }
					if err == nil && status == 200 && json.Unmarshal([]byte(text), &done) == nil {
						acked[what] = max(done.Revision, done.Mod)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		<-time.After(time.Duration(20_000+random.IntN(200_000)) * time.Microsecond) // the random moment
		p.Kill()
		close(stop)
		writers.Wait()
		interruptedStarts(t, p, random, 60*time.Millisecond)
		p.Start()
	}
	n := map[string]int{}
	for _, l := range auditLines(t, p) {
		for _, what := range l.What {
			n[what]++
			if rev := acked[what]; rev != 0 && strings.HasPrefix(what, "kv:") {
				require.Equal(t, rev, l.Rev, what)
			}
		}
	}
	require.Greater(t, len(acked), 20*rounds, "the load was no load")
	for what := range acked {
		require.Equal(t, 1, n[what], "%s; seed %d", what, seed)
	}
	for what, count := range n {
		require.Equal(t, 1, count, what)
		if key, is := strings.CutPrefix(what, "kv:ns/"); is {
			status, text, err := process.StoreOf(t, p).Try("GET", "/v1/store/key?ns=ns&key="+key, "")
			require.NoError(t, err)
			require.Equal(t, 200, status, "%s has a line: %s", what, text)
		}
	}
	p.Stop()
	require.Contains(t, process.Must(t, "audit", "verify", copied), fmt.Sprintf("the first is %d", 1))
	t.Logf("%d kills, %d acknowledged writes, each with one line; seed %d", rounds, len(acked), seed)
}

// A backup has the audit, also as of an earlier revision, and what is restored goes on with it.
func TestTheAuditIsInBackups(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	p := process.Start(t, conf, "--audit", "all")
	for i := range 20 {
		process.StoreOf(t, p).Put(fmt.Sprint("k", i), "v")
	}
	head := strings.TrimSpace(process.Must(t, "audit", "head", "--addr", p.Addr))
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
	p.Stop()
	for _, flags := range [][]string{nil, {"--revision", "7"}} {
		dir := filepath.Join(t.TempDir(), "data")
		process.Must(t, append([]string{"restore", file, dir}, flags...)...)
		restored := process.Start(t, conf, "--audit", "all", "--data", dir)
		process.Must(t, "audit", "verify", "--addr", restored.Addr, "--head", head)
		process.StoreOf(t, restored).Put("more", "v")
		lines := auditLines(t, restored)
		require.Equal(t, []string{"kv:load/more"}, lines[len(lines)-1].What)
		require.EqualValues(t, 21, lines[len(lines)-1].Seq, "no line was taken away")
		restored.Stop()
	}
}

// Transactions that became durable together have their lines together. Who goes back to between two of
// them loses what came later, and no line.
func TestRestoringToWithinAGroupKeepsTheChain(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	p := process.Start(t, conf, "--audit", "all")
	peer := servertest.Dial(t, p.Addr)
	peer.Identify(`{"svrid":0}`)
	const many = 64
	var burst []byte
	for i := range many {
		burst = protocol.AppendFrame(burst, protocol.KVPut, uint16(i+1), fmt.Appendf(nil, `{"ns":"load","key":"k%02d","value":"v"}`, i))
	}
	peer.Raw(burst)
	revs := make([]string, many)
	for i := range revs {
		var put struct{ Rev json.Number }
		require.NoError(t, json.Unmarshal([]byte(peer.Next().Body), &put))
		revs[i] = put.Rev.String()
	}
	var stat struct{ Groups *int64 }
	require.NoError(t, json.Unmarshal([]byte(peer.Call(protocol.KVStat, `{}`)), &stat))
	require.NotNil(t, stat.Groups)
	require.Less(t, *stat.Groups, int64(many/2), "several were durable together")
	head := strings.TrimSpace(process.Must(t, "audit", "head", "--addr", p.Addr))
	file := filepath.Join(t.TempDir(), "all.backup")
	process.Must(t, "backup", "--http", p.HTTP, file)
	p.Stop()
	for _, last := range []int{many / 4, many/2 + 1, many - 2} {
		dir := filepath.Join(t.TempDir(), "data")
		process.Must(t, "restore", file, dir, "--revision", revs[last])
		restored := process.Start(t, conf, "--audit", "all", "--data", dir)
		require.Contains(t, process.Must(t, "audit", "verify", "--addr", restored.Addr, "--head", head), "the first is 1")
		status, _ := process.StoreOf(t, restored).Ask("GET", fmt.Sprintf("/v1/store/key?ns=load&key=k%02d", last), "")
		require.Equal(t, 200, status)
		status, _ = process.StoreOf(t, restored).Ask("GET", fmt.Sprintf("/v1/store/key?ns=load&key=k%02d", last+1), "")
		require.Equal(t, 404, status, "it is as it was then")
		process.StoreOf(t, restored).Put("more", "v")
		lines := auditLines(t, restored)
		require.EqualValues(t, many+1, lines[len(lines)-1].Seq, "no line was taken away")
		process.Must(t, "audit", "verify", "--addr", restored.Addr, "--head", head)
		restored.Restart()
		process.Must(t, "audit", "verify", "--addr", restored.Addr, "--head", head)
		restored.Stop()
	}
}
