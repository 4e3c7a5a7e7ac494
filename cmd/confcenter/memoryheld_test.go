//go:build !race

// With the race detector the database keeps what it has freed, to see whether it is used.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/server"
)

// whole is all that serve puts together, in the process of the test.
type whole struct {
	t        *testing.T
	budget   *memory.Budget
	tcp, web string
}

func startWhole(t *testing.T, budget int64) *whole {
	w := &whole{t: t, budget: memory.Divide(budget)}
	conf, flags := home(t)
	var o options
	o.define(&cobra.Command{})
	o.conf, o.data, o.listen, o.http.listen, o.http.accessLog = conf, flags[3], "127.0.0.1:0", "127.0.0.1:0", false
	require.NoError(t, os.MkdirAll(o.data, 0o700))
	files, err := raiseFileLimit()
	require.NoError(t, err)
	require.NoError(t, o.limitConnections(files, w.budget.Connections.Limit(), zerolog.Nop()))
	lobby := o.lobby.open(o.maxConnections, w.budget.Connections)
	store, err := confstore.Open(confstore.Config{Dir: o.conf, DataDir: o.data, Documents: w.budget.Documents, Caches: w.budget.Caches, Queues: w.budget.Queues})
	require.NoError(t, err)
	state, err := openState(&o, w.budget, zerolog.Nop())
	require.NoError(t, err)
	srv := server.New(o.serverConfig(lobby, w.budget, zerolog.Nop()), state.serve(server.Stores{Config: store}))
	require.NoError(t, srv.Start())
	web, err := startHTTP(&o.http, lobby, w.budget, srv, store, state, zerolog.Nop())
	require.NoError(t, err)
	w.tcp, w.web = srv.Addr().String(), web.Addr().String()
	t.Cleanup(func() {
		all := &both{srv, web}
		require.NoError(t, all.Shutdown(context.Background()))
		require.NoError(t, state.close())
		require.NoError(t, store.Close())
	})
	return w
}

// ask needs the answer 200.
func (w *whole) ask(method, path, body string) {
	w.t.Helper()
	r, err := http.NewRequest(method, "http://"+w.web+path, strings.NewReader(body))
	require.NoError(w.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, answer.Body.Close())
	require.Equal(w.t, http.StatusOK, answer.StatusCode, "%s %s: %.200s", method, path, text)
}

// held is what the pools have, and what the heap has.
func (w *whole) held() (pools map[string]int64, sum, heap int64) {
	http.DefaultClient.CloseIdleConnections()
	pools = map[string]int64{}
	for name, pool := range w.budget.Pools() {
		pools[name] = pool.Held()
		sum += pool.Held()
	}
	runtime.GC()
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return pools, sum, int64(now.HeapAlloc)
}

// grown is how much the pools and the heap have grown while fn filled the server.
func (w *whole) grown(what string, fn func()) (pools, live int64) {
	w.t.Helper()
	before, sumBefore, heapBefore := w.held()
	fn()
	after, sum, heap := w.held()
	for name := range after {
		if after[name] -= before[name]; after[name] == 0 {
			delete(after, name)
		}
	}
	text, _ := json.Marshal(after)
	w.t.Logf("%s: heap %+.1f MiB, pools %+.1f MiB: %s", what, float64(heap-heapBefore)/(1<<20), float64(sum-sumBefore)/(1<<20), text)
	return sum - sumBefore, heap - heapBefore
}

// What the pools say is what is there: they are what everything is refused by.
func TestPoolsHoldWhatTheHeapHas(t *testing.T) {
	w := startWhole(t, 2<<30)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	w.ask("GET", "/v1/status", "")
	pools, live := w.grown("all of it", func() {
		w.grown("documents", func() {
			for i := range 8 {
				w.ask("PUT", fmt.Sprintf("/v1/config/file?name=%d.json", i), fmt.Sprintf(`{"own":%d,"text":%q}`, i, strings.Repeat("x", 4_000_000)))
			}
		})
		w.grown("merged documents", func() {
			w.ask("PUT", "/v1/config/file?name=_meta.json", `{"conf_inherit":{"1.json":"0.json","2.json":"0.json","3.json":"0.json"}}`)
			for i := range 3 {
				w.ask("GET", fmt.Sprintf("/v1/config/resolved?name=%d.json", i+1), "")
			}
		})
		w.grown("small keys and large ones", func() {
			for i := range 30 {
				var items strings.Builder
				for j := range kv.MaxOps {
					fmt.Fprintf(&items, `,{"key":"k%d-%d","value":"v"}`, i, j)
				}
				w.ask("POST", "/v1/store/batch?ns=tiny", `{"items":[`+items.String()[1:]+`]}`)
			}
			for i := range 40 {
				w.ask("PUT", fmt.Sprintf("/v1/store/key?ns=large&key=%d", i), fmt.Sprintf(`{"value":%q}`, strings.Repeat("y", 1_000_000)))
			}
		})
		w.grown("connections", func() {
			for range 1000 {
				c, err := net.Dial("tcp", w.tcp)
				require.NoError(t, err)
				conns = append(conns, c)
			}
			for range 500 {
				c, err := net.Dial("tcp", w.web)
				require.NoError(t, err)
				conns = append(conns, c)
				_, err = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
				require.NoError(t, err)
				answer, err := http.ReadResponse(bufio.NewReader(c), nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, answer.StatusCode)
				require.NoError(t, answer.Body.Close())
			}
		})
	})
	require.InEpsilon(t, live, pools, 0.2)
}
