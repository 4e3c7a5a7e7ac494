package disk

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/kv"
)

const fields = "@storage/1_1"

// forget forgets keys, in the disk and in the model.
func (s *store) forget(keys ...string) {
	var list []*kv.Entry
	for _, key := range keys {
		id := name{fields, key}
		list = append(list, s.current[id])
		delete(s.current, id)
	}
	s.disk.Forget(list)
}

// crash opens the store as a loss of power leaves it.
func (s *store) crash() {
	s.t.Helper()
	lost := s.cfg.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	require.NoError(s.t, s.disk.Close())
	s.cfg.FS = lost
	s.open()
}

// rows is how many rows of a kind there are.
func (s *store) rows(kind byte) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.disk.db.Flush())
	require.NoError(s.t, s.disk.scan([]byte{kind}, []byte{kind + 1}, func([]byte, []byte) error { n++; return nil }))
	return n
}

func TestForgottenRowsGoWithTheNextTables(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{fields, "in tables", "1"}, op{fields, "written again", "1"}, op{fields, "deleted", "1"}, op{fields, "stays", "1"})
	s.tables()
	require.Equal(t, 4, s.rows(currentKind))
	s.put(op{fields, "pending", "1"}, op{fields, "pending twice", "1"})
	s.put(op{fields, "pending twice", "2"})
	s.forget("in tables", "written again", "deleted", "pending", "pending twice")
	s.put(op{fields, "written again", "2"}, op{fields, "deleted", "2"})
	s.put(op{fields, "deleted", ""})
	s.tables()
	require.Equal(t, 2, s.rows(currentKind))
	s.crash()
	s.forget("written again")
	s.put(op{fields, "written again", "3"})
	s.forget("written again")
	s.tables()
	require.Equal(t, 1, s.rows(currentKind))
	s.crash()
	s.reopen()
}

func TestWhatTablesDoNotTellYetIsThereAgain(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{fields, "in tables", "1"})
	s.tables()
	s.put(op{fields, "pending", "1"})
	before := s.current
	s.stopped(func() {
		s.current = map[name]*kv.Entry{name{fields, "in tables"}: before[name{fields, "in tables"}], name{fields, "pending"}: before[name{fields, "pending"}]}
		s.forget("in tables", "pending")
		s.current = before
	})
	s.crash() // of the file system as it was before tables were made
}

func TestForgettingOutlivesTablesThatCannotBeMade(t *testing.T) {
	var sick atomic.Bool
	s := newStore(t, func(c *Config) {
		c.FS = errorfs.Wrap(c.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, "current.table") && sick.Load() {
				return syscall.ENOSPC
			}
			return nil
		}))
	})
	s.put(op{fields, "key", "1"}, op{fields, "stays", "1"})
	s.tables()
	s.stopped(func() {
		sick.Store(true)
		s.forget("key")
		require.Error(t, s.disk.keeper.materialise())
		sick.Store(false)
		require.NotZero(t, s.disk.holding)
		require.NoError(t, s.disk.keeper.materialise())
		require.Zero(t, s.disk.holding)
		require.Empty(t, s.disk.forgotten.events)
	})
	require.Equal(t, 1, s.rows(currentKind))
	s.reopen()
}

func TestWhatIsForgottenIsBounded(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{fields, "key", "1"})
	e := s.current[name{fields, "key"}]
	s.stopped(func() {
		s.disk.forgotten.events = make([]kv.Event, mostForgotten)
		s.disk.Forget([]*kv.Entry{e})
		require.Len(t, s.disk.forgotten.events, mostForgotten)
		s.disk.forgotten = forgotten{}
	})
}

func TestReservedNamespacesHaveNoRowsOfHistory(t *testing.T) {
	s := newStore(t, func(c *Config) { c.HistoryVersions = 2 })
	for i := range 5 {
		s.put(op{fields, "key", fmt.Sprint(i)}, op{"@landing", "key", fmt.Sprint(i)})
	}
	s.tables()
	s.put(op{fields, "key", "again"}, op{"@landing", "key", ""})
	s.tables()
	require.Zero(t, s.rows(historyKind))
	require.Zero(t, s.rows(cutKind))
	s.put(op{"ns", "key", "1"})
	s.put(op{"ns", "key", "2"})
	s.tables()
	require.Equal(t, 1, s.rows(historyKind))
	s.reopen()
}
