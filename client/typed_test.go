package client

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
)

// there puts v and reads it again.
func there[T any](t *testing.T, n *KV, v T, as kv.Type) {
	t.Helper()
	put, err := Put(t.Context(), n, "k", v)
	require.NoError(t, err)
	e, err := n.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, as, e.Value.Type)
	got, rev, err := Get[T](t.Context(), n, "k")
	require.NoError(t, err)
	require.Equal(t, v, got)
	require.Equal(t, put, rev)
	require.Equal(t, e.Mod, rev)
}

func TestGetAndPutOfTypes(t *testing.T) {
	type level string
	type plan struct {
		Steps []string `json:"steps"`
	}
	_, _, n := space(t)
	there(t, n, "text", kv.String)
	there(t, n, level("high"), kv.String)
	there(t, n, -7, kv.Int)
	there(t, n, uint8(255), kv.Int)
	there(t, n, uint64(math.MaxInt64), kv.Int)
	there(t, n, time.Minute, kv.Int)
	there(t, n, 0.1, kv.Double)
	there(t, n, float32(0.1), kv.Double)
	there(t, n, true, kv.Bool)
	there(t, n, []byte{0, 255}, kv.Bytes)
	there(t, n, json.RawMessage(`{"a":[1.50]}`), kv.JSON)
	there(t, n, plan{[]string{"build", "ship"}}, kv.JSON)
	there(t, n, &plan{[]string{"build"}}, kv.JSON)
	there(t, n, map[string]int{"a": 1}, kv.JSON)
	there[any](t, n, []any{"a", json.Number("1")}, kv.JSON)
}

func TestGetAndPutRefuse(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	_, rev, err := Get[string](ctx, n, "k")
	require.ErrorIs(t, err, codes.NotFound)
	require.Zero(t, rev)
	_, err = Put(ctx, n, "k", uint64(math.MaxInt64)+1)
	require.ErrorIs(t, err, codes.BadRequest)
	_, err = Put(ctx, n, "k", func() {})
	require.ErrorIs(t, err, codes.BadRequest)

	rev, err = Put(ctx, n, "k", 300, IfMod(rev))
	require.NoError(t, err)
	_, err = Put(ctx, n, "k", 301, IfMod(0))
	require.ErrorIs(t, err, codes.Conflict)
	_, got, err := Get[int8](ctx, n, "k")
	require.ErrorIs(t, err, codes.BadRequest)
	require.NotContains(t, err.Error(), "300", "values are nothing for logs")
	require.Equal(t, rev, got, "for whoever writes over it")
	_, _, err = Get[string](ctx, n, "k")
	require.ErrorIs(t, err, codes.WrongType)
	f, _, err := Get[float64](ctx, n, "k")
	require.NoError(t, err)
	require.EqualValues(t, 300, f)

	_, err = Put(ctx, n, "k", -1)
	require.NoError(t, err)
	_, _, err = Get[uint](ctx, n, "k")
	require.ErrorIs(t, err, codes.BadRequest)
	_, err = Put(ctx, n, "k", math.MaxFloat64)
	require.NoError(t, err)
	_, _, err = Get[float32](ctx, n, "k")
	require.ErrorIs(t, err, codes.BadRequest)
	_, _, err = Get[struct{}](ctx, n, "k")
	require.ErrorIs(t, err, codes.WrongType)
}
