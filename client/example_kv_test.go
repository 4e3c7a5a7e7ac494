package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"confcenter/client"
	"confcenter/codes"
	"confcenter/kv"
)

// Six lines of it stand in the README, where a test compares them.
func ExampleKV() {
	addr, stop := exampleStore()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	s := c.KV("jobs")
	_, err = s.PutString(ctx, "owner", "ann", client.WithTTL(time.Minute))
	done, err := s.Incr(ctx, "done", 1)
	lock, err := s.Lock(ctx, "nightly", 15*time.Second)
	_, err = s.PutInt(ctx, "report", done, client.WithFence(lock))
	w, err := s.Watch(ctx, client.WatchOptions{State: true})
	check(err)

	defer w.Stop()
	for n, err := range w.Events(ctx) {
		check(err)
		if n.Kind == kv.Synced {
			break
		}
		for _, e := range n.Events {
			fmt.Println(e.Entry.Key, e.Entry.Value.Type, string(e.Entry.Value.Data))
		}
	}
	check(lock.Unlock(ctx))
	_, err = s.PutInt(ctx, "report", 0, client.WithFence(lock))
	fmt.Println(errors.Is(err, codes.FenceLost))
	// Output:
	// done int 1
	// nightly string app1
	// owner string ann
	// report int 1
	// true
}

func ExampleKV_CAS() {
	addr, stop := exampleStore()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	s := c.KV("jobs")
	idle := kv.StringValue("idle")
	_, err = s.CAS(ctx, "state", nil, idle) // nil: it must not exist yet
	check(err)
	_, err = s.CAS(ctx, "state", &idle, kv.StringValue("busy"))
	check(err)
	found, err := s.CAS(ctx, "state", &idle, kv.StringValue("busy"))
	fmt.Println(errors.Is(err, codes.Conflict), string(found.Entry.Value.Data))
	// Output: true busy
}

func ExampleKV_Txn() {
	addr, stop := exampleStore()
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	s := c.KV("cinema")
	for _, who := range []string{"ann", "bob"} {
		res, err := s.Txn().
			IfAbsent("seat/7").
			PutString("seat/7", who).Incr("sold", 1).
			Else().Get("seat/7").
			Commit(ctx)
		check(err)
		fmt.Println(who, res.Held, string(res.Ops[0].Entry.Value.Data))
	}
	// Output:
	// ann true ann
	// bob false ann
}
