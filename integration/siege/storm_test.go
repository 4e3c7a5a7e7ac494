package siege

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const (
	// stormClients lose their server at once and all come back at once.
	stormClients = 9000
	// inStep is how soon all of them are identified and subscribed again.
	inStep = 5 * time.Second
)

// fleet is many programs that follow a.json.
type fleet struct {
	t     *testing.T
	addr  string
	conns []*caller
}

// each runs fn for every program at once.
func (f *fleet) each(fn func(i int) error) {
	f.t.Helper()
	errs := make(chan error, len(f.conns))
	var all sync.WaitGroup
	for i := range f.conns {
		all.Go(func() {
			if err := fn(i); err != nil {
				errs <- fmt.Errorf("program %d: %w", i, err)
			}
		})
	}
	all.Wait()
	close(errs)
	err, ok := <-errs
	require.False(f.t, ok, "%d of %d failed; one of them: %v", len(errs)+1, len(f.conns), err)
}

// join connects all, as often as it takes, until each is identified and subscribed.
func (f *fleet) join() (took time.Duration, attempts int) {
	f.t.Helper()
	var mu sync.Mutex
	begun := time.Now()
	f.each(func(i int) error {
		for {
			c, err := f.one(i)
			mu.Lock()
			attempts++
			mu.Unlock()
			if err == nil {
				f.conns[i] = c
				return nil
			}
			if time.Since(begun) > 2*servertest.Patience {
				return err
			}
		}
	})
	return time.Since(begun), attempts
}

func (f *fleet) one(i int) (*caller, error) {
	c, err := enterFrom(crowded(i), f.addr, fmt.Sprintf("app%d", i))
	if err == nil {
		if err = c.ask(protocol.BookCfgChange, `{"file_pattern":"a.json"}`); err != nil {
			c.Close()
		}
	}
	return c, err
}

// told waits until every program was told of a version.
func (f *fleet) told(mtime int32) {
	f.t.Helper()
	want := fmt.Sprintf(`"mtime":%d`, mtime)
	f.each(func(i int) error {
		for {
			got, err := f.conns[i].next()
			if err != nil || strings.Contains(got.Body, want) {
				return err
			}
		}
	})
}

func (f *fleet) leave() {
	for _, c := range f.conns {
		if c != nil {
			c.Close()
		}
	}
}

// A configuration center is asked by everybody at once exactly when it comes back.
func TestStormOfReconnects(t *testing.T) {
	p := process.Start(t, confDir(t), "--log-level", "warn")
	f := &fleet{t: t, addr: p.Addr, conns: make([]*caller, stormClients)}
	defer f.leave()
	took, attempts := f.join()
	t.Logf("%d came in %v with %d connects", stormClients, took.Round(time.Millisecond), attempts)
	for _, gone := range []struct {
		how string
		by  func()
	}{
		{"killed", func() { p.Kill(); p.Start() }},
		{"restarted", p.Restart},
		{"cut off", func() {}},
	} {
		f.leave()
		gone.by()
		took, attempts := f.join()
		t.Logf("%s: %d were in step after %v with %d connects", gone.how, stormClients, took.Round(time.Millisecond), attempts)
		if soak { // the promise is for a machine that has nothing else to do
			require.Less(t, took, inStep, gone.how)
		}
		writer := p.Peer()
		f.told(writer.Set("a.json", fmt.Sprintf(`{"after":%q}`, gone.how)))
		require.NoError(t, writer.Close())
	}
	p.Stop()
}
