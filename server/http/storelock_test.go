package http

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/kv/lock"
)

// A client that writes to a lock of another one learns who holds it, if it may read that.
func TestAWriteToALockNamesItsHolder(t *testing.T) {
	k, with := rightsKit(t)
	with("* kv")
	granted, err := k.commit(&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: kv.MaxLease}}})
	require.NoError(t, err)
	lease := granted.Ops[0].Lease.ID
	m := lock.New(k.state, lock.Config{})
	t.Cleanup(m.Close) // before its store
	t.Cleanup(k.stop)
	fence := make(chan kv.Revision, 1)
	require.NoError(t, m.Lock(lock.Request{NS: "n", Key: "job", Lease: lease, Value: kv.StringValue("worker 3")},
		func(o lock.Outcome, err error) { fence <- o.Fence }, func(lock.Grant) {}))
	token := <-fence
	require.NotZero(t, token)
	writes := []struct{ method, path, body string }{
		{"PUT", "/v1/store/key?ns=n&key=job", `{"value":"mine"}`},
		{"POST", "/v1/store/cas?ns=n&key=job", `{"expect":{"value":"worker 3"},"value":"mine"}`},
		{"POST", "/v1/store/batch?ns=n", `{"items":[{"key":"a","value":"x"},{"key":"job","value":"mine"}]}`},
		{"POST", "/v1/store/txn", `{"ns":"n","then":[{"op":"put","key":"job","value":"mine"}]}`},
		{"POST", "/v1/store/restore?ns=n&key=job", fmt.Sprintf(`{"revision":%d}`, token)},
		{"PUT", "/v1/kv/n/job", `{"value":"mine"}`},
		{"POST", "/v1/kv/n/batch", `{"items":[{"key":"a","value":"x"},{"key":"job","value":"mine"}]}`},
	}
	for _, w := range writes {
		with("* kv")
		a := k.do(w.method, w.path, w.body)
		require.Equal(t, 423, a.status, "%s %s: %s", w.method, w.path, a.body)
		require.Contains(t, a.body, fmt.Sprintf("since revision %d", token), w.path)
		if a.header.Get("Content-Type") == "application/json" {
			var refusal struct {
				Code    int
				Current struct {
					NS, Key, Value string
					Lease          kv.LeaseID
				}
			}
			require.NoError(t, json.Unmarshal([]byte(a.body), &refusal))
			require.Equal(t, 1023, refusal.Code)
			require.Equal(t, "worker 3", refusal.Current.Value)
			require.Equal(t, lease, refusal.Current.Lease)
		}
		if w.path == writes[1].path || w.path == writes[4].path {
			continue // these need to read the key anyway
		}
		with("* kv", "-read kv:n/job")
		a = k.do(w.method, w.path, w.body)
		require.Equal(t, 423, a.status, a.body)
		require.NotContains(t, a.body, "worker 3", w.path)
	}
	with("* kv")
	require.Equal(t, 404, k.get("/v1/kv/n/a").status, "nothing of a batch was written")
	entry, _ := k.state.Get([]byte("n"), []byte("job"))
	require.Equal(t, lease, entry.Lease)
	require.Equal(t, 200, k.do("POST", "/v1/store/txn", fmt.Sprintf(`{"ns":"n","if_fence":{"key":"job","fence":%d},"then":[{"op":"put","key":"job","value":"mine"}]}`, token)).status)
}
