package kills

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/confstore/history"
	"confcenter/integration/ledger"
	"confcenter/integration/process"
	"confcenter/kv"
)

// documentKills is how often the server is killed under watches on documents, in full.
const documentKills = 60

// The documents that change together: base and those that inherit from it, those of small applies,
// and those of applies that are too large for a transaction of the log.
var (
	documentFamily = []string{"base.json", "heir1.json", "heir2.json"}
	documentsFew   = documentNames("few", 3)
	documentsMany  = documentNames("many", 150)
)

func documentNames(dir string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s/%d.json", dir, i))
	}
	return names
}

// documentRecord is a server with writers of documents and what watches were told of them.
type documentRecord struct {
	t       *testing.T
	process *process.Process
	c       *client.Client
	sets    int
	alone   sync.RWMutex // a rollback of everything has it alone: any other change is a conflict

	mu    sync.Mutex
	acked []ledger.Told   // guarded by mu
	backs []ledger.Return // guarded by mu; acknowledged
}

// TestSoakKillDocuments kills the server while clients set documents, apply few and many in one
// change, and roll back one or all, while files are dropped and others watch: one across
// everything, one that is opened anew after each kill, one over HTTP. What they were told keeps the promises of
// the watch on documents, nothing acknowledged is lost, nothing told is taken back, and after each
// kill there is all of a change or nothing of it. Programs that follow the newest state, one across
// everything, one started anew while the server is down, never see an older one and end with it.
func TestSoakKillDocuments(t *testing.T) {
	rounds := whole(documentKills, 5)
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	r := &documentRecord{t: t, process: process.Start(t, conf)}
	r.c = r.dial("")
	r.set("_meta.json", `{"conf_inherit":{"heir1.json":"base.json","heir2.json":"base.json"}}`)
	r.set("heir1.json", `{"h":1}`)
	r.set("heir2.json", `{"h":2}`)
	from := r.last()
	r.set("base.json", `{"n":0}`)
	r.set("alone.json", `{"n":0}`)
	require.True(t, r.apply(t.Context(), documentsMany, `{"n":0}`))
	require.True(t, r.apply(t.Context(), documentsFew, `{"n":0}`))
	long := r.watch(from)
	defer long.Stop()
	stream := r.followDocuments(int64(from), "end.json", `{"end":true}`)
	steady, fresh := r.following(""), r.following(t.TempDir())
	through, again := ledger.History{From: int64(from)}, ledger.History{From: int64(from)}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	at := from
	for range rounds {
		r.loadAndKill(time.Duration(20+random.IntN(400)) * time.Millisecond)
		fresh.anew()
		r.process.Start()
		r.whole()
		at = r.resume(&again, at)
		for _, p := range []*following{steady, fresh} {
			p.converge("alone.json", fmt.Sprintf(`{"n":%d}`, r.sets))
		}
	}
	r.set("alone.json", `{"end":true}`)
	r.returns(t.Context(), history.RollbackAsk{All: true, Rev: fmt.Sprint(r.earlier())})
	r.set("end.json", `{"end":true}`)
	r.follow(long, &through)
	r.resume(&again, at)
	applied, returns := r.made()
	record := ledger.Recorded{
		Histories: []ledger.History{through, again, stream()}, Acknowledged: r.acked, Returns: returns,
		Together: [][]string{documentFamily, documentsFew, documentsMany}, Alike: [][]string{documentsFew, documentsMany},
		Served: map[string]string{},
	}
	for _, name := range slices.Concat(documentFamily, documentsFew, documentsMany, []string{"alone.json", "back.json", "dropped.json", "end.json"}) {
		d, err := r.c.GetConfig(t.Context(), client.Query{Name: name, Merged: true})
		if err == nil {
			record.Served[name] = string(d.Raw())
		}
	}
	record.Followers = append(steady.ended(record.Served), fresh.ended(record.Served)...)
	require.Empty(t, record.Judge())
	require.Greater(t, len(through.Told), rounds, "the load was no load")
	require.Greater(t, applied, 2, "the load was no load")
	require.NotEmpty(t, returns, "the load was no load")
	shown := 0
	for _, f := range record.Followers {
		shown += len(f.Shown)
	}
	all := slices.DeleteFunc(slices.Clone(returns), func(back ledger.Return) bool { return back.Name != "" })
	t.Logf("%d kills, %d acknowledged changes of documents, %d applies and %d rollbacks made, %d of these of all, %d notices to each watch, %d states shown, every promise kept",
		rounds, len(r.acked), applied, len(returns), len(all), len(through.Told), shown)
}

// dial connects, or begins with what the cache has, if there is one.
func (r *documentRecord) dial(cache string) *client.Client {
	c, err := client.Dial(r.t.Context(), client.Config{Addrs: []string{r.process.Addr}, Name: "killed", CacheDir: cache, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	require.NoError(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// set writes until it is acknowledged.
func (r *documentRecord) set(name, contents string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.try(r.t.Context(), name, contents) }, time.Minute, time.Millisecond)
}

// try reports whether a write was acknowledged.
func (r *documentRecord) try(ctx context.Context, name, contents string) bool {
	_, err := r.c.Set(ctx, client.SetRequest{Name: name, Contents: []byte(contents)})
	if err == nil && name != "_meta.json" && name != "heir1.json" && name != "heir2.json" {
		r.acknowledge(0, name, contents)
	}
	return err == nil
}

func (r *documentRecord) acknowledge(revision int64, name, contents string) {
	r.mu.Lock()
	r.acked = append(r.acked, ledger.Told{Revision: revision, Changes: map[string]string{name: contents}})
	r.mu.Unlock()
}

// apply reports whether it was acknowledged that all documents have some contents, or are not there
// if these are empty.
func (r *documentRecord) apply(ctx context.Context, names []string, contents string) bool {
	q := &history.ApplyAsk{}
	for _, name := range names {
		q.Documents = append(q.Documents, history.Wanted{Name: name, Text: contents, Delete: contents == ""})
	}
	answer, err := calls.History(r.c).Apply(ctx, q)
	if err != nil {
		return false
	}
	for _, d := range answer.Documents {
		r.acknowledge(answer.Revision, d.Name, contents)
	}
	return true
}

// returns has documents go back. The author says which: that tells one from all in the log.
func (r *documentRecord) returns(ctx context.Context, q history.RollbackAsk) {
	q.Author = cmp.Or(q.Name, allDocuments)
	answer, err := calls.History(r.c).Rollback(ctx, &q)
	if err != nil || answer.Revision == 0 {
		return
	}
	r.mu.Lock()
	r.backs = append(r.backs, ledger.Return{Revision: answer.Revision, To: answer.At, Name: q.Name})
	r.mu.Unlock()
}

// allDocuments is the author of rollbacks of everything.
const allDocuments = "all"

// made reads in the log which applies of several documents were made, and which rollbacks, those
// too that were not acknowledged.
func (r *documentRecord) made() (applied int, returns []ledger.Return) {
	for q := (history.LogAsk{Limit: 1000}); ; {
		page, err := calls.History(r.c).Log(r.t.Context(), &q)
		require.NoError(r.t, err)
		for _, c := range page.Changes {
			switch {
			case c.Origin == access.Rollback:
				back := ledger.Return{Revision: c.Revision, Name: strings.TrimSuffix(c.Author, allDocuments)}
				_, err := fmt.Sscanf(c.Comment, "as at revision %d", &back.To)
				require.NoError(r.t, err, c.Comment)
				returns = append(returns, back)
			case c.Count > 1:
				applied++
			}
		}
		if q.Before = page.Next; page.Next == 0 {
			break
		}
	}
	require.Subset(r.t, returns, r.backs, "what was acknowledged")
	return applied, returns
}

// whole sees that there is all of an apply or nothing of it, at one revision and in the directory.
func (r *documentRecord) whole() {
	r.t.Helper()
	var page *history.ExportAnswer
	require.Eventually(r.t, func() (done bool) {
		var err error
		page, err = calls.History(r.c).Export(r.t.Context(), &history.ExportAsk{})
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Empty(r.t, page.Next)
	text := map[string]string{}
	for _, d := range page.Documents {
		text[d.Name] = d.Text
	}
	for _, group := range [][]string{documentsFew, documentsMany} {
		for _, name := range group {
			require.Equal(r.t, text[group[0]], text[name], "%s and %s at revision %d", group[0], name, page.At)
			file, err := os.ReadFile(filepath.Join(r.process.Conf, name))
			require.NoError(r.t, err)
			require.Equal(r.t, text[name], string(file), "%s: what the log has is in place", name)
		}
	}
}

// loadAndKill changes documents in all ways and kills the server in the middle.
func (r *documentRecord) loadAndKill(after time.Duration) {
	ctx, stop := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	repeat := func(lock sync.Locker, fn func(contents string)) {
		first := r.sets + 1
		running.Go(func() {
			for n := first; ctx.Err() == nil; n++ {
				lock.Lock()
				fn(fmt.Sprintf(`{"n":%d}`, n))
				lock.Unlock()
			}
		})
	}
	beside := r.alone.RLocker()
	for _, name := range []string{"base.json", "alone.json"} {
		repeat(beside, func(contents string) { r.try(ctx, name, contents) })
	}
	for _, names := range [][]string{documentsFew, documentsMany} {
		repeat(beside, func(contents string) { r.apply(ctx, names, contents) })
	}
	repeat(beside, func(contents string) {
		r.try(ctx, "back.json", contents)
		r.returns(ctx, history.RollbackAsk{Name: "back.json", Rev: "~1"})
		r.apply(ctx, []string{"back.json"}, "")
		r.returns(ctx, history.RollbackAsk{Name: "back.json"}) // which brings it back
	})
	repeat(beside, func(contents string) {
		path := filepath.Join(r.process.Conf, "dropped.json")
		if err := os.WriteFile(path+".new", []byte(contents), 0o644); err == nil {
			_ = os.Rename(path+".new", path)
		}
		<-time.After(3 * time.Millisecond)
	})
	repeat(&r.alone, func(string) { r.returns(ctx, history.RollbackAsk{All: true, Rev: fmt.Sprint(r.earlier())}) })
	<-time.After(after) // the random moment
	r.process.Kill()
	stop()
	running.Wait()
	r.sets += 1_000_000
}

// earlier is a revision at which everything was there, of the last that were acknowledged.
func (r *documentRecord) earlier() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := slices.DeleteFunc(slices.Clone(r.acked), func(t ledger.Told) bool { return t.Revision == 0 })
	made = made[len(documentsMany)+len(documentsFew)-1:]
	return made[max(0, len(made)-1-rand.IntN(1000))].Revision
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
