package suite

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
)

// duel is a list that the engine under test shares with another store, which appends something before
// each of its groups.
type duel struct {
	t     testing.TB
	clock *clocktest.Fake
	list  *memory.Shared
	rival *kvstore.Store
	full  atomic.Bool

	store *kvstore.Store
	log   *contested
}

func openShared(t testing.TB, opts options) instance {
	d := &duel{t: t, clock: clocktest.NewFake(start)}
	d.list = memory.NewShared(memory.Config{LogBytes: opts.LogBytes, HistoryVersions: opts.HistoryVersions})
	d.rival = d.openAs("rival", d.list.Log("rival"))
	return instance{
		Engine: d.open(), Clock: d.clock, Foreign: 1, Restart: d.restart, SetFull: d.full.Store,
		Kill: func() kvstore.Engine {
			d.log.pull()
			return d.restart()
		},
	}
}

func (d *duel) open() kvstore.Engine {
	d.log = &contested{SharedLog: d.list.Log("subject"), duel: d}
	d.store = d.openAs("subject", d.log)
	return d.store
}

func (d *duel) openAs(name string, log kvstore.SharedLog) *kvstore.Store {
	s, err := kvstore.Open(d.t.Context(), kvstore.Config{Name: name, Clock: d.clock, WriteTimeout: 10_000 * time.Hour}, log)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (d *duel) restart() kvstore.Engine {
	_ = d.store.Close()
	return d.open()
}

// contested is a log to which the rival comes first.
type contested struct {
	kvstore.SharedLog
	duel  *duel
	again bool // the group was overtaken; committer only
	n     int  // committer only

	mu     sync.Mutex
	pulled bool // guarded by mu
}

func (l *contested) pull() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pulled = true
}

func (l *contested) Append(group []kvstore.Commit) error {
	l.again = !l.again
	if l.again {
		if err := l.overtake(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pulled {
		return errors.New("the plug was pulled")
	}
	err := l.SharedLog.Append(group)
	if l.again && !errors.Is(err, kvstore.ErrOvertaken) {
		return fmt.Errorf("a group was taken in place of another: %w", err)
	}
	return err
}

// overtake has the rival append something that no one sees.
func (l *contested) overtake() error {
	l.n++
	unseen := kv.Op{Kind: kv.OpPut, NS: kv.AuditLines, Key: fmt.Sprint("rival", l.n), Value: kv.StringValue("x")}
	done := make(chan error, 1)
	if err := l.duel.rival.Commit(&kv.Txn{Then: []kv.Op{unseen}, System: true}, func(_ *kv.Result, err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

func (l *contested) Writable(uses kvstore.Room) error {
	if l.duel.full.Load() && uses == kvstore.Ordinary {
		return codes.Errorf(codes.Storage, "the disk is full")
	}
	return nil
}

func (l *contested) Trouble() *health.Trouble {
	if err := l.Writable(kvstore.Ordinary); err != nil {
		return &health.Trouble{Kind: health.Full, Err: err}
	}
	return nil
}
