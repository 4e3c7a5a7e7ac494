package siege

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
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
