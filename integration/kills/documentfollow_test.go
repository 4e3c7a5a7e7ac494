package kills

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/integration/ledger"
)

// following is a program that follows the newest state of documents by client.Watch and
// client.Bind.
type following struct {
	r   *documentRecord
	dir string // of its cache
	c   *client.Client
	all []*documentFollower
}

// documentFollower notes what one watch or handle shows.
type documentFollower struct {
	begin func(ctx context.Context, c *client.Client, f *documentFollower) error

	mu    sync.Mutex
	noted ledger.Follower // guarded by mu
}

// following begins, with whole documents, a part of one, and one that is bound. Without a cache it
// cannot begin anew while no server answers.
func (r *documentRecord) following(dir string) *following {
	r.t.Helper()
	p := &following{r: r, dir: dir}
	for _, name := range []string{"base.json", "heir1.json", "alone.json", "back.json", "dropped.json", documentsMany[7]} {
		p.all = append(p.all, &documentFollower{begin: watched(client.Query{Name: name, Merged: true}), noted: ledger.Follower{Name: name}})
	}
	p.all = append(p.all,
		&documentFollower{begin: watched(client.Query{Name: "heir2.json", Path: "/n", Merged: true}), noted: ledger.Follower{Name: "heir2.json", Part: memberN}},
		&documentFollower{begin: bound, noted: ledger.Follower{Name: "alone.json", Part: memberN, Good: func(n string) bool { return n != "" }}})
	p.begin()
	return p
}

func watched(q client.Query) func(context.Context, *client.Client, *documentFollower) error {
	return func(ctx context.Context, c *client.Client, f *documentFollower) error {
		_, err := c.Watch(ctx, q, func(d *client.Document) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.noted.Shown = append(f.noted.Shown, ledger.Shown{Version: d.Mtime, Contents: string(d.Raw())})
		})
		return err
	}
}

// numbered is what alone.json has, except in the end.
type numbered struct{ N json.Number }

func (n *numbered) validate() error {
	if n.N == "" {
		return errors.New("there is no n")
	}
	return nil
}

// bound notes what Load returns whenever it is told to look.
func bound(ctx context.Context, c *client.Client, f *documentFollower) error {
	h, err := client.BindWith(ctx, c, client.Query{Name: "alone.json"}, client.BindOptions[numbered]{Validate: (*numbered).validate})
	if err != nil {
		return err
	}
	look := func(*numbered) {
		f.mu.Lock()
		defer f.mu.Unlock()
		now, shown := ledger.Shown{Contents: string(h.Load().N)}, f.noted.Shown
		if len(shown) == 0 || shown[len(shown)-1] != now {
			f.noted.Shown = append(shown, now)
		}
	}
	h.OnChange(look)
	look(nil)
	return nil
}

func memberN(contents string) string {
	var v struct{ N json.RawMessage }
	if contents != "" && json.Unmarshal([]byte(contents), &v) != nil {
		return "not JSON"
	}
	return string(v.N)
}

func (p *following) begin() {
	p.r.t.Helper()
	p.c = p.r.dial(p.dir)
	for _, f := range p.all {
		require.NoError(p.r.t, f.begin(p.r.t.Context(), p.c, f), f.noted.Name)
	}
}

// anew ends the program and starts it again. While no server answers it begins with what its cache
// has.
func (p *following) anew() {
	p.r.t.Helper()
	require.NoError(p.r.t, p.c.Close())
	for _, f := range p.all {
		f.mu.Lock()
		f.noted.Shown = append(f.noted.Shown, ledger.Shown{Resumed: true})
		f.mu.Unlock()
	}
	p.begin()
}

// converge waits until each follower of a document that no one changes any more shows its contents.
func (p *following) converge(name, contents string) {
	p.r.t.Helper()
	for _, f := range p.all {
		part := contents
		if f.noted.Part != nil {
			part = f.noted.Part(contents)
		}
		if f.noted.Name != name || f.noted.Good != nil && !f.noted.Good(part) {
			continue
		}
		require.Eventually(p.r.t, func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			last := len(f.noted.Shown) - 1
			return last >= 0 && !f.noted.Shown[last].Resumed && f.noted.Shown[last].Contents == part
		}, time.Minute, time.Millisecond, "%s: %s is never shown", name, part)
	}
}

// ended returns what the followers were shown, once they have what is served.
func (p *following) ended(served map[string]string) (list []ledger.Follower) {
	p.r.t.Helper()
	for _, f := range p.all {
		p.converge(f.noted.Name, served[f.noted.Name])
	}
	require.NoError(p.r.t, p.c.Close())
	for _, f := range p.all {
		list = append(list, f.noted)
	}
	return list
}
