package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"confcenter/client"
	"confcenter/codes"
)

func ExampleBindWith() {
	addr, stop := exampleServer(map[string]string{"web.json": `{"title": "Welcome"}`})
	defer stop()
	ctx := context.Background()
	invalid := make(chan error, 1)
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "web", OnError: func(err error) { invalid <- err }})
	check(err)
	defer c.Close()

	type page struct {
		Title   string `json:"title"`
		Refresh int    `json:"refresh"`
	}
	web, err := client.BindWith(ctx, c, client.Query{Name: "web.json"}, client.BindOptions[page]{
		Defaults: func() page { return page{Refresh: 30} },
		Strict:   true,
		Validate: func(p *page) error {
			if p.Refresh < 1 {
				return errors.New("refresh must be at least 1")
			}
			return nil
		},
	})
	check(err)
	defer web.Stop()
	fmt.Printf("%+v\n", *web.Load())

	_, err = c.Set(ctx, client.SetRequest{Name: "web.json", Contents: []byte(`{"refresh": 0}`)})
	check(err)
	fmt.Println(<-invalid)
	fmt.Printf("%+v\n", *web.Load())
	// Output:
	// {Title:Welcome Refresh:30}
	// kept the last good version: web.json is not valid: refresh must be at least 1
	// {Title:Welcome Refresh:30}
}

func ExampleHandle_OnUpdate() {
	addr, stop := exampleServer(map[string]string{"web.json": `{"workers": 2}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "web"})
	check(err)
	defer c.Close()

	type settings struct{ Workers int }
	web, err := client.Bind[settings](ctx, c, client.Query{Name: "web.json"})
	check(err)
	done := make(chan struct{})
	web.OnUpdate(func(old, now *settings) {
		fmt.Println("from", old.Workers, "to", now.Workers)
		close(done)
	})
	_, err = c.Set(ctx, client.SetRequest{Name: "web.json", Contents: []byte(`{"workers": 5}`)})
	check(err)
	<-done
	// Output: from 2 to 5
}

func ExampleGet() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()
	type plan struct {
		Steps []string `json:"steps"`
	}

	// Read, change, and write only if no one else has written meanwhile.
	for {
		p, rev, err := client.Get[plan](ctx, s, "plan")
		if err != nil && !errors.Is(err, codes.NotFound) {
			check(err)
		}
		p.Steps = append(p.Steps, "build")
		_, err = client.Put(ctx, s, "plan", p, client.IfMod(rev))
		if !errors.Is(err, codes.Conflict) {
			check(err)
			break
		}
	}
	p, _, err := client.Get[plan](ctx, s, "plan")
	fmt.Println(p.Steps, err)
	// Output: [build] <nil>
}

func ExamplePut() {
	s, stop := exampleSpace()
	defer stop()
	ctx := context.Background()

	_, err := client.Put(ctx, s, "limit", 10) // an int
	check(err)
	_, err = client.Put(ctx, s, "hosts", []string{"a", "b"}, client.WithTTL(time.Minute)) // a json
	check(err)
	for e, err := range s.All(ctx, "") {
		check(err)
		fmt.Println(e.Key, e.Value.Type, string(e.Value.Data))
	}
	// Output:
	// hosts json ["a","b"]
	// limit int 10
}

func ExampleKV_WithLock() {
	s, stop := exampleSpace()
	defer stop()

	err := s.WithLock(context.Background(), "nightly", 15*time.Second, func(ctx context.Context, l *client.Lock) error {
		_, err := client.Put(ctx, s, "report", "done", client.WithFence(l)) // ctx ends when the lock is lost
		return err
	})
	fmt.Println(err)
	_, err = s.Get(context.Background(), "nightly")
	fmt.Println("given back:", errors.Is(err, codes.NotFound))
	// Output:
	// <nil>
	// given back: true
}

func ExampleConfig_onState() {
	addr, stop := exampleServer(nil)
	told := make(chan client.StateChange, 10)
	c, err := client.Dial(context.Background(), client.Config{
		Addrs: []string{addr}, Name: "app1", OnState: func(change client.StateChange) { told <- change },
	})
	check(err)
	fmt.Println((<-told).State)
	fmt.Println((<-told).State)
	stop()
	lost := <-told
	fmt.Println(lost.State, errors.Is(lost.Err, client.ErrUnreachable))
	check(c.Close())
	// Output:
	// connecting
	// connected
	// disconnected true
}

func ExampleClient_WaitConnected() {
	addr, stop := exampleServer(nil)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	fmt.Println(c.WaitConnected(ctx), c.Connected())
	// Output: <nil> true
}

// printer writes down each request; a metric or a span would begin and end there.
type printer struct{}

func (printer) Begin(ctx context.Context, op string) (context.Context, func(error)) {
	return ctx, func(err error) { fmt.Println(op, codes.Of(err).Name()) }
}

func ExampleObserver() {
	addr, stop := exampleServer(nil)
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1", Observer: printer{}})
	check(err)
	defer c.Close()

	s := c.KV("jobs")
	s.Incr(ctx, "done", 1)
	s.Incr(ctx, "done", 5, client.WithMax(3))
	// Output:
	// KVINCR ok
	// KVINCR out_of_bounds
}
