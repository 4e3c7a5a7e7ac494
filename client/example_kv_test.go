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

// exampleSpace is a namespace of a server that runs until stop.
func exampleSpace() (s *client.KV, stop func()) {
	addr, stopServer := exampleServer(nil)
	c, err := client.Dial(context.Background(), client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	return c.KV("jobs"), func() {
		check(c.Close())
		stopServer()
	}
}

// Its first lines stand in the README, where a test compares them.
func ExampleKV() {
	addr, stop := exampleServer(nil)
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	s := c.KV("jobs")
	_, err = s.PutString(ctx, "owner", "ann", client.WithTTL(time.Minute))
	check(err)
	done, err := s.Incr(ctx, "done", 1)
	check(err)
	lock, err := s.Lock(ctx, "nightly", 15*time.Second)
	check(err)
	_, err = s.PutInt(ctx, "report", done, client.WithFence(lock))
	check(err)
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

func ExampleClient_KV() {
	addr, stop := exampleServer(nil)
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()
	s := c.KV("jobs")
	s.PutString(ctx, "owner", "ann", client.WithTTL(time.Minute))
	n, err := s.Incr(ctx, "done", 1)
	fmt.Println(n, err)
	owner, err := s.GetString(ctx, "owner", "nobody")
	fmt.Println(owner, err)
	// Output:
	// 1 <nil>
	// ann <nil>
}

func ExampleKV_Get() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	s.PutInt(ctx, "port", 8080)

	e, err := s.Get(ctx, "port")
	check(err)
	fmt.Println(e.Value.Type, string(e.Value.Data), "version", e.Version)

	retries, err := s.GetInt(ctx, "retries", 3)
	fmt.Println(retries, err, "is the default")
	_, err = s.Get(ctx, "retries")
	fmt.Println(errors.Is(err, codes.NotFound))
	_, err = s.GetString(ctx, "port", "")
	fmt.Println(errors.Is(err, codes.WrongType))
	// Output:
	// int 8080 version 1
	// 3 <nil> is the default
	// true
	// true
}

func ExampleKV_PutJSON() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	type plan struct {
		Steps []string `json:"steps"`
	}

	_, err := s.PutJSON(ctx, "plan", plan{Steps: []string{"build", "ship"}})
	check(err)
	var p plan
	check(s.GetJSON(ctx, "plan", &p))
	fmt.Println(p.Steps)
	// Output: [build ship]
}

// A write that depends on what was read is refused if another writer was faster.
func ExampleIfMod() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	first, err := s.PutString(ctx, "state", "new", client.IfAbsent())
	check(err)
	_, err = s.PutString(ctx, "state", "started")
	check(err)

	stands, err := s.PutString(ctx, "state", "deleted", client.IfMod(first.Revision))
	fmt.Println(errors.Is(err, codes.Conflict), "it is", string(stands.Entry.Value.Data))
	// Output: true it is started
}

func ExampleKV_CAS() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	free, ann := kv.StringValue("free"), kv.StringValue("ann")

	_, err := s.CAS(ctx, "seat", nil, free) // nil: absent
	fmt.Println(err)
	_, err = s.CAS(ctx, "seat", &free, ann)
	fmt.Println(err)
	_, err = s.CAS(ctx, "seat", &free, kv.StringValue("bob"))
	fmt.Println(errors.Is(err, codes.Conflict))
	// Output:
	// <nil>
	// <nil>
	// true
}

func ExampleKV_Incr() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()

	left, err := s.Incr(ctx, "seats", -2, client.WithInitial(5), client.WithMin(0))
	fmt.Println(left, err)
	_, err = s.Incr(ctx, "seats", -4, client.WithMin(0))
	fmt.Println(errors.Is(err, codes.OutOfBounds))
	// Output:
	// 3 <nil>
	// true
}

func ExampleKV_Txn() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	s.PutString(ctx, "seat/7", "free")

	sell := func(to string) {
		res, err := s.Txn().
			IfValue("seat/7", kv.StringValue("free")).
			PutString("seat/7", to).Incr("sold", 1).
			Else().Get("seat/7").
			Commit(ctx)
		check(err)
		if res.Held {
			fmt.Println("sold to", to)
		} else {
			fmt.Println("belongs to", string(res.Ops[0].Entry.Value.Data))
		}
	}
	sell("ann")
	sell("bob")
	// Output:
	// sold to ann
	// belongs to ann
}

func ExampleKV_Batch() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()

	res, err := s.Batch(ctx,
		kv.Op{Kind: kv.OpPut, Key: "a", Value: kv.IntValue(1)},
		kv.Op{Kind: kv.OpPut, Key: "b", Value: kv.IntValue(2)},
		kv.Op{Kind: kv.OpDelete, Key: "c"},
	)
	check(err)
	fmt.Println(len(res.Ops), "operations, one revision:", res.Ops[0].Entry.Mod == res.Ops[1].Entry.Mod)
	// Output: 3 operations, one revision: true
}

func ExampleKV_All() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	for _, key := range []string{"task/2", "task/1", "note"} {
		s.PutBool(ctx, key, true)
	}

	for e, err := range s.All(ctx, "task/") {
		check(err)
		fmt.Println(e.Key, string(e.Value.Data))
	}
	// Output:
	// task/1 true
	// task/2 true
}

func ExampleKV_Restore() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	good, err := s.PutString(ctx, "motd", "welcome")
	check(err)
	s.PutString(ctx, "motd", "wlecome")

	past, err := s.History(ctx, "motd", 0, 10)
	check(err)
	for _, e := range past.Entries {
		fmt.Println("version", e.Version, string(e.Value.Data))
	}
	_, err = s.Restore(ctx, "motd", good.Revision)
	check(err)
	fmt.Println(s.GetString(ctx, "motd", ""))
	// Output:
	// version 2 wlecome
	// version 1 welcome
	// welcome <nil>
}

func ExampleKV_Watch() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	s.PutInt(ctx, "task/1", 1)

	w, err := s.Watch(ctx, client.WatchOptions{Prefix: "task/", State: true})
	check(err)
	defer w.Stop()
	for n, err := range w.Events(ctx) {
		check(err)
		for _, e := range n.Events {
			fmt.Println(n.Kind, e.Kind, e.Entry.Key)
		}
		switch {
		case n.Kind == kv.Resync:
			fmt.Println("forget everything: the state follows")
		case n.Kind == kv.Synced:
			fmt.Println("that is all there is")
			s.PutInt(ctx, "task/2", 1)
			s.PutInt(ctx, "note", 1)
			s.Delete(ctx, "task/1")
		case n.Kind == kv.Changed && n.Events[0].Kind == kv.Delete:
			return
		}
	}
	// Output:
	// state put task/1
	// that is all there is
	// changed put task/2
	// changed delete task/1
}

func ExampleKV_Lock() {
	s, stop := exampleSpace()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	l, err := s.Lock(ctx, "leader", 10*time.Second) // waits in line; kept alive from here on
	check(err)
	_, err = s.PutString(ctx, "work", "begun", client.WithFence(l)) // only while the lock is held
	fmt.Println(err)
	_, err = s.TryLock(ctx, "leader", 10*time.Second)
	fmt.Println(errors.Is(err, codes.Locked))
	select {
	case <-l.Lost():
		fmt.Println("stop everything")
	default:
		fmt.Println("still held")
	}
	check(l.Unlock(ctx))
	_, err = s.PutString(ctx, "work", "done", client.WithFence(l))
	fmt.Println(errors.Is(err, codes.FenceLost))
	// Output:
	// <nil>
	// true
	// still held
	// true
}

func ExampleKV_Lease() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()

	l, err := s.Lease(ctx, 10*time.Second)
	check(err)
	s.PutString(ctx, "member/1", "10.0.0.7:80", client.WithLease(l))
	s.PutString(ctx, "member/1/load", "0.5", client.WithLease(l))
	count, err := s.Count(ctx, "member/")
	fmt.Println(count, err)
	check(l.Revoke(ctx)) // or the program ends: after 10 s they are gone, too
	count, err = s.Count(ctx, "member/")
	fmt.Println(count, err)
	// Output:
	// 2 <nil>
	// 0 <nil>
}

func ExampleKV_Cache() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	s.PutInt(ctx, "limit", 10)

	cache, err := s.Cache(ctx)
	check(err)
	defer cache.Close()
	changed := make(chan string)
	cache.OnChange(func(key string, e *kv.Entry) { changed <- key })
	fmt.Println(cache.GetInt("limit", 0), cache.Current()) // no network
	s.PutInt(ctx, "limit", 20)
	fmt.Println(<-changed, cache.GetInt("limit", 0))
	// Output:
	// 10 true
	// limit 20
}
