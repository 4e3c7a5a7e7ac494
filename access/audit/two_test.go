package audit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/audit"
	"confcenter/kv"
)

// between is a store in which another server writes before the books are.
type between struct {
	kv.Archive
	before func()
}

// Commit implements kv.Store.
func (b *between) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	if before := b.before; before != nil && len(txn.Then) > 0 && txn.Then[0].NS == kv.AuditNamespace {
		b.before = nil
		before()
	}
	return b.Archive.Commit(txn, done)
}

// Two servers on one state keep one set of books, and each knows what the other has removed.
func TestTwoAuditsKeepOneSetOfBooks(t *testing.T) {
	k := start(t, func(cfg *audit.Config) { cfg.Bytes = 4096 })
	put := func(n int) {
		for i := range n {
			k.put(fmt.Sprint("k", i))
		}
	}
	at := &between{Archive: k.store}
	a, b := audit.Open(at, k.cfg), audit.Open(k.store, k.cfg)
	right := func() {
		t.Helper()
		for name, who := range map[string]*audit.Audit{"a": a, "b": b, "one that is opened": audit.Open(k.store, k.cfg)} {
			v, err := who.Verify(t.Context(), nil, &audit.VerifyAsk{})
			require.NoError(t, err)
			require.Empty(t, v.Fault, name)
			h, err := who.Head(t.Context(), nil, &audit.HeadAsk{})
			require.NoError(t, err)
			require.NotEmpty(t, h.Pruned, name)
		}
	}
	put(10)
	at.before = func() {
		put(100)
		require.NoError(t, b.Tidy(t.Context()))
	}
	require.NoError(t, a.Tidy(t.Context()))
	require.Nil(t, at.before)
	right()
	for range 3 {
		put(50)
		require.NoError(t, a.Tidy(t.Context()))
		right()
		put(50)
		require.NoError(t, b.Tidy(t.Context()))
		right()
	}
	pruned := k.lines(audit.LinesAsk{Filter: audit.Filter{Kind: "pruned"}})
	for i := range pruned[1:] {
		require.NotEqual(t, pruned[i].What, pruned[i+1].What, "each once")
	}
}
