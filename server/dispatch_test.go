package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/protocol"
)

func TestRoutesAreTheTable(t *testing.T) {
	routes := newRoutes()
	for _, row := range protocol.Commands {
		routed := routes.row(row.ID).handle != nil
		switch row.Role {
		case protocol.Served, protocol.Routed, protocol.Reserved:
			require.True(t, routed, "%s has no handler", row.Name)
		default:
			require.False(t, routed, "%s is %s and must not be obeyed", row.Name, row.Role)
		}
	}
	for id := range routes {
		if routes[id].handle != nil {
			require.NotNil(t, protocol.Lookup(protocol.Command(id)), "handler for an unknown id %#x", id)
		}
	}
}

// newStoreWire is a session without a socket on a real store.
func newStoreWire(t testing.TB, files map[string]string) (*session, *wire) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	store, err := confstore.Open(confstore.Config{Dir: conf, DataDir: filepath.Join(dir, "data")})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	s, w := newWire(t, Config{})
	s.srv.store = store
	w.room = 1 << 40
	s.receive(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"x"}`)))
	require.NotNil(t, s.client)
	w.got.Reset()
	return s, w
}

// deaf lets a benchmark run without a growing buffer.
type deaf struct{ wire }

func (d *deaf) TrySend(p []byte) int { return len(p) }

func TestGetConfigDoesNotAllocate(t *testing.T) {
	s, _ := newStoreWire(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"b.json"}}`,
		"a.json":     `{"key":{"sub":[1,2,{"deep":"value"}]},"other":"text"}`,
		"b.json":     `{"base":true}`,
	})
	s.t = &deaf{}
	for _, body := range []string{
		`{"file_pattern":"a.json"}`,
		`{"file_pattern":"a"}`,
		`{"incbase":1,"file_pattern":"a.json"}`,
		`{"key_pattern":"/key/sub/2/deep","file_pattern":"a.json","incbase":"1"}`,
		`{"gt_mtime":2000000000,"file_pattern":"a.json"}`,
		`{"file_pattern":"missing.json","gt_mtime":5}`,
	} {
		frame := protocol.AppendFrame(nil, protocol.GetConfig, 9, []byte(body))
		s.receive(frame) // warm-up: merges and buffers
		require.Zero(t, testing.AllocsPerRun(100, func() { s.receive(frame) }), body)
	}
}

func BenchmarkGetConfig(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			s, _ := newStoreWire(b, map[string]string{"a.json": `{"key":"` + string(make280()) + `"}`})
			s.t = &deaf{}
			var burst []byte
			for i := range depth {
				burst = protocol.AppendFrame(burst, protocol.GetConfig, uint16(i), []byte(`{"incbase":1,"file_pattern":"a.json"}`))
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				s.receive(burst)
			}
		})
	}
}

func make280() []byte {
	text := make([]byte, 200)
	for i := range text {
		text[i] = 'x'
	}
	return text
}
