package kills

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
)

const plumKillRounds = 5

// plumWrite sends a write by Plum's REST and reports whether it was acknowledged.
func plumWrite(client *http.Client, method, url, body string) bool {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return false
	}
	reply, err := client.Do(r)
	if err != nil {
		return false
	}
	defer func() { _ = reply.Body.Close() }()
	_, err = io.Copy(io.Discard, reply.Body)
	return err == nil && reply.StatusCode == http.StatusOK
}

// plumKeys are the values of a namespace by key.
func plumKeys(t *testing.T, p *process.Process, ns string) map[string]string {
	t.Helper()
	reply, err := http.Get("http://" + p.HTTP + "/v1/kv/" + ns)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	var items []struct{ Key, Value string }
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&items))
	values := map[string]string{}
	for _, item := range items {
		values[item.Key] = item.Value
	}
	return values
}

// untilKilled runs write in several goroutines, each with its number and a count, kills
// the server when enough is acknowledged, and returns how far each came.
func untilKilled(p *process.Process, writers, enough int, write func(client *http.Client, writer, n int) bool) []int {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	defer client.CloseIdleConnections()
	acked := make([]int, writers)
	acks := make(chan struct{}, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for write(client, w, acked[w]) {
				acked[w]++
				acks <- struct{}{}
			}
		})
	}
	go func() { all.Wait(); close(acks) }()
	n := 0
	for range acks {
		if n++; n == enough {
			p.Signal(os.Kill) // everything fails from here on, so that the writers end
		}
	}
	return acked
}

// P34: what was acknowledged is there after kill -9.
func TestP34AcknowledgedPutsSurviveAKill(t *testing.T) {
	p := process.Start(t, process.SampleConf(t), "--log-level", "warn")
	before := map[string]string{}
	for round := range plumKillRounds {
		acked := untilKilled(p, 8, 200+37*round, func(client *http.Client, w, n int) bool {
			return plumWrite(client, "PUT", fmt.Sprintf("http://%s/v1/kv/ns/r%d.w%d.%d", p.HTTP, round, w, n), fmt.Sprintf(`{"type":"int","value":"%d"}`, n))
		})
		p.Kill() // it is dead; this waits for its end
		p.Start()
		for w, n := range acked {
			for i := range n {
				before[fmt.Sprintf("r%d.w%d.%d", round, w, i)] = fmt.Sprint(i)
			}
		}
		got := plumKeys(t, p, "ns")
		for key, value := range before {
			require.Equal(t, value, got[key], key)
		}
	}
	t.Logf("%d kills, %d acknowledged puts, none lost", plumKillRounds, len(before))
}

// P16: after a kill, an interrupted batch is there as a whole or not at all.
func TestP16KilledBatchIsWholeOrAbsent(t *testing.T) {
	const items = 100
	var batch strings.Builder
	for i := range items {
		fmt.Fprintf(&batch, `,{"key":"k%d","value":"%s"}`, i, strings.Repeat("v", 100))
	}
	body := `{"items":[` + batch.String()[1:] + `]}`
	p := process.Start(t, process.SampleConf(t), "--log-level", "warn")
	whole := 0
	for round := range plumKillRounds {
		acked := untilKilled(p, 4, 20+3*round, func(client *http.Client, w, n int) bool {
			return plumWrite(client, "POST", fmt.Sprintf("http://%s/v1/kv/r%d.w%d.%d/batch", p.HTTP, round, w, n), body)
		})
		p.Kill() // it is dead; this waits for its end
		p.Start()
		for w, n := range acked {
			for i := range n + 1 { // the last one was interrupted
				got := len(plumKeys(t, p, fmt.Sprintf("r%d.w%d.%d", round, w, i)))
				require.True(t, got == items || i == n && got == 0, "batch %d of writer %d has %d keys", i, w, got)
				if got == items {
					whole++
				}
			}
		}
	}
	t.Logf("%d kills, %d whole batches, none in part", plumKillRounds, whole)
}
