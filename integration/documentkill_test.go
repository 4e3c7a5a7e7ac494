package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/ledger"
	"confcenter/kv"
)

// documentKills is how often the server is killed under watches on documents, in full.
const documentKills = 60

// documentRecord is a server with writers of documents and what watches were told of them.
type documentRecord struct {
	t       *testing.T
	process *Process
	c       *client.Client
	sets    int

	mu    sync.Mutex
	acked []ledger.Told // guarded by mu
}

// TestSoakKillDocuments kills the server while clients set documents, files are dropped and
// others watch: one across everything, one that is opened anew after each kill. What they were
// told keeps the promises of the watch on documents, nothing acknowledged is lost, and nothing
// told is taken back.
func TestSoakKillDocuments(t *testing.T) {
	rounds := documentKills / 15
	if os.Getenv("CONFCENTER_SOAK") == "1" {
		rounds = documentKills
	}
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	r := &documentRecord{t: t, process: StartProcess(t, conf)}
	r.c = r.dial()
	r.set("_meta.json", `{"conf_inherit":{"heir1.json":"base.json","heir2.json":"base.json"}}`)
	r.set("heir1.json", `{"h":1}`)
	r.set("heir2.json", `{"h":2}`)
	from := r.last()
	long := r.watch(from)
	defer long.Stop()
	through, again := ledger.History{From: int64(from)}, ledger.History{From: int64(from)}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	at := from
	for range rounds {
		r.loadAndKill(time.Duration(20+random.IntN(200)) * time.Millisecond)
		r.process.Start()
		at = r.resume(&again, at)
	}
	r.set("end.json", `{"end":true}`)
	r.follow(long, &through)
	r.resume(&again, at)
	record := ledger.Recorded{
		Histories: []ledger.History{through, again}, Acknowledged: r.acked,
		Together: []string{"base.json", "heir1.json", "heir2.json"}, Served: map[string]string{},
	}
	for _, name := range []string{"base.json", "heir1.json", "heir2.json", "alone.json", "dropped.json", "end.json"} {
		d, err := r.c.GetConfig(t.Context(), client.Query{Name: name, Merged: true})
		if err == nil {
			record.Served[name] = string(d.Raw())
		}
	}
	require.Empty(t, record.Judge())
	require.Greater(t, len(through.Told), rounds, "the load was no load")
	t.Logf("%d kills, %d acknowledged changes of documents, %d notices to each watch, every promise kept", rounds, len(r.acked), len(through.Told))
}

func (r *documentRecord) dial() *client.Client {
	c, err := client.Dial(r.t.Context(), client.Config{Addrs: []string{r.process.Addr}, Name: "killed", MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// set writes until it is acknowledged.
func (r *documentRecord) set(name, contents string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.try(name, contents) }, time.Minute, time.Millisecond)
}

// try reports whether a write was acknowledged.
func (r *documentRecord) try(name, contents string) bool {
	_, err := r.c.Set(r.t.Context(), client.SetRequest{Name: name, Contents: []byte(contents)})
	if err == nil && name != "_meta.json" && name != "heir1.json" && name != "heir2.json" {
		r.mu.Lock()
		r.acked = append(r.acked, ledger.Told{Changes: map[string]string{name: contents}})
		r.mu.Unlock()
	}
	return err == nil
}

// loadAndKill sets documents, drops files and kills the server in the middle.
func (r *documentRecord) loadAndKill(after time.Duration) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	repeat := func(fn func(n int)) {
		first := r.sets
		running.Go(func() {
			for n := first; ; n++ {
				select {
				case <-stop:
					return
				default:
					fn(n)
				}
			}
		})
	}
	for _, name := range []string{"base.json", "alone.json"} {
		repeat(func(n int) { r.try(name, fmt.Sprintf(`{"n":%d}`, n)) })
	}
	repeat(func(n int) {
		path := filepath.Join(r.process.Conf, "dropped.json")
		if err := os.WriteFile(path+".new", fmt.Appendf(nil, `{"n":%d}`, n), 0o644); err == nil {
			_ = os.Rename(path+".new", path)
		}
		<-time.After(3 * time.Millisecond)
	})
	<-time.After(after) // the random moment
	r.process.Kill()
	close(stop)
	running.Wait()
	r.sets += 1_000_000
}

// last is the newest revision of the documents.
func (r *documentRecord) last() kv.Revision {
	w, err := r.c.WatchDocuments(r.t.Context(), client.DocumentWatchOptions{State: true})
	require.NoError(r.t, err)
	defer w.Stop()
	for n, err := range w.Notices(r.t.Context()) {
		require.NoError(r.t, err)
		if n.Kind == kv.Synced {
			return n.Revision
		}
	}
	return 0
}

func (r *documentRecord) watch(from kv.Revision) (w *client.DocumentWatch) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		var err error
		w, err = r.c.WatchDocuments(r.t.Context(), client.DocumentWatchOptions{Merged: true, From: from})
		return err == nil
	}, time.Minute, time.Millisecond)
	return w
}

// resume opens a watch behind a revision and follows it as far as there is something.
func (r *documentRecord) resume(h *ledger.History, from kv.Revision) kv.Revision {
	r.t.Helper()
	w := r.watch(from)
	defer w.Stop()
	h.Told = append(h.Told, ledger.Told{Revision: int64(from), Resumed: true})
	r.sets++
	r.set("alone.json", fmt.Sprintf(`{"n":%d}`, r.sets))
	return r.followTo(w, h, "alone.json", fmt.Sprintf(`{"n":%d}`, r.sets), from)
}

func (r *documentRecord) follow(w *client.DocumentWatch, h *ledger.History) {
	r.followTo(w, h, "end.json", `{"end":true}`, 0)
}

// followTo notes what a watch is told until a document has some contents.
func (r *documentRecord) followTo(w *client.DocumentWatch, h *ledger.History, name, contents string, at kv.Revision) kv.Revision {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for {
		n, err := w.Next(ctx)
		require.NoError(r.t, err)
		require.Equal(r.t, kv.Changed, n.Kind, "everything is kept")
		told := ledger.Told{Revision: int64(n.Revision), Changes: map[string]string{}}
		for _, c := range n.Changes {
			told.Changes[c.Name] = string(c.Contents)
		}
		h.Told, at = append(h.Told, told), n.Revision
		if told.Changes[name] == contents {
			return at
		}
	}
}
