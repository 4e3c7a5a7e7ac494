package disk

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore/backup"
)

// Whatever has ended writing, everything that was acknowledged is read, and backed up.
func TestAStoreThatWritesNothingIsReadAndBackedUp(t *testing.T) {
	const reserve = "under the reserve" // old versions make room then
	panics := func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".table") {
			panic("planted")
		}
		return nil
	}
	background := func(op errorfs.Op) error {
		if strings.Contains(op.Path, "MANIFEST-") {
			return syscall.EIO
		}
		return nil
	}
	for name, fall := range map[string]func(p *patient){
		reserve:            func(p *patient) { p.free.Store(0) },
		"no space":         func(p *patient) { p.sick(all(syscall.ENOSPC)) },
		"a failed write":   func(p *patient) { p.once(errorfs.OpFileWrite, ".log", syscall.EIO) },
		"a failed sync":    func(p *patient) { p.once(errorfs.OpFileSyncData, ".log", syscall.EIO) },
		"no mark":          func(p *patient) { p.once(errorfs.OpFileWriteAt, "durable.mark", syscall.EIO) },
		"a failed task":    func(p *patient) { p.sick(background) },
		"a panicking task": func(p *patient) { p.sick(panics) },
		"files gone":       func(p *patient) { require.NoError(p, p.fs.RemoveAll("data")) },
		"read-only at start": func(p *patient) {
			require.NoError(p, p.Close())
			p.sick(all(syscall.EROFS))
			p.open()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t, func(c *Config) {
				c.TableBytes, c.ReserveBytes = 1<<10, 1<<20
			})
			lease := p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Hour}}}).Ops[0].Lease.ID
			p.must(&kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "held", Value: kv.StringValue("x"), Lease: lease}}})
			first := p.must(kv.PutTxn("ns", "k", kv.StringValue("1"))).Revision
			require.NoError(t, p.put("k", "2"))
			p.readable(first, lease, true)
			fall(p)
			p.until(func() bool {
				t := p.Trouble()
				if t == nil {
					_ = p.Commit(kv.PutTxn("other", "k", kv.StringValue(strings.Repeat("x", 2<<10))), func(*kv.Result, error) {})
				}
				return t != nil && t.Kind != health.Hanging // which the clock of the test makes it at times
			})
			p.readable(first, lease, name != reserve)
			if p.sick(nil); !p.Trouble().Restart {
				p.free.Store(1 << 30)
				p.until(p.well)
			}
		})
	}
}

// readable asks for everything in every way, of the key k, which was 1 at the revision first and is 2
// now, and of the key held, which belongs to the lease. With past, old versions are there.
func (p *patient) readable(first kv.Revision, lease kv.LeaseID, past bool) {
	p.Helper()
	require.Equal(p, "2", p.text("k"))
	reads := []kv.Read{{NS: []byte("ns"), Key: []byte("k")}}
	p.GetEach(reads)
	require.Equal(p, "2", string(reads[0].Entry.Value.Data))
	view := p.View()
	defer view.Close()
	page, err := view.List(kv.List{NS: "ns"})
	require.NoError(p, err)
	require.Len(p, page.Entries, 2)
	spaces, _ := p.Namespaces("", 0)
	require.Equal(p, "ns", spaces[0].Name)
	if past {
		e, err := p.GetAt(p.Context(), "ns", "k", first)
		require.NoError(p, err)
		require.Equal(p, "1", string(e.Value.Data))
		versions, err := p.History(p.Context(), "ns", "k", 0, 0)
		require.NoError(p, err)
		require.Len(p, versions.Entries, 2)
		changes, err := p.Changes(p.Context(), 0, 1<<20)
		require.NoError(p, err)
		require.GreaterOrEqual(p, len(changes), 3)
	}
	_, err = p.ListArchive(p.Context(), kv.List{NS: kv.AuditLines})
	require.NoError(p, err)
	known, err := p.KeepAlive(p.Context(), lease)
	require.NoError(p, err)
	require.Equal(p, 1, known.Keys)
	held, err := p.Holding(lease)
	require.NoError(p, err)
	require.Equal(p, []kv.Fence{{NS: "ns", Key: "held"}}, held.Held)

	from, err := p.Copy(p.Context())
	require.NoError(p, err)
	defer from.Close()
	var file bytes.Buffer
	written, err := backup.Write(&file, from, "test")
	require.NoError(p, err)
	var rows []byte
	read, err := backup.Read(&file, func(backup.Head) error { return nil }, func(key, value []byte) error {
		rows = append(append(rows, key...), value...)
		return nil
	})
	require.NoError(p, err)
	require.Equal(p, written.Rows, read.Rows)
	require.Contains(p, string(rows), "held")
}
