//go:build !race

package replica

import (
	"context"
	"fmt"
	"testing"

	"confcenter/internal/clock"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A map that was large is copied little by little, while keys come and go.
func TestALargeMapIsThinnedWhileItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Clock: clock.NewFake(noon)}
		s, err := load(context.Background(), cfg.withDefaults(), &fakeLog{})
		require.NoError(t, err)
		const many = 4200
		want := map[string]bool{}
		do := func(kind kv.OpKind, keys ...int) {
			var list []queued
			for _, k := range keys {
				key := fmt.Sprintf("key%05d", k)
				op := kv.Op{Kind: kind, NS: "a", Key: key, Value: kv.StringValue("x")}
				list = append(list, queued{txn: &kv.Txn{Then: []kv.Op{op}}, done: func(*kv.Result, error) {}})
				if want[key] = kind == kv.OpPut; !want[key] {
					delete(want, key)
				}
			}
			require.True(t, s.committer.commit(list))
			s.committer.tend()
		}
		var all, most []int
		for i := range many {
			all = append(all, i)
			if i%8 != 0 {
				most = append(most, i)
			}
		}
		do(kv.OpPut, all...)
		do(kv.OpDelete, most...)
		do(kv.OpPut, 0) // what a large group deletes leaves the map after it
		sp := s.index.spaces["a"]
		require.NotNil(t, sp.less, "it has too much room")
		some := rapid.SliceOfN(rapid.IntRange(0, many-1), 1, 40)
		for more := true; more; more = s.index.thinSome() {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				do(kv.OpPut, some.Draw(t, "put")...)
			case 1:
				do(kv.OpDelete, some.Draw(t, "delete")...)
			}
		}
		require.Nil(t, sp.less)
		require.Less(t, sp.most, many/2)
		require.Len(t, sp.keys, len(want))
		require.Equal(t, len(want), sp.tree.Len())
		for key := range want {
			e, _ := s.Get([]byte("a"), []byte(key))
			require.NotNil(t, e, key)
		}
	})
}
