package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"confcenter/client"
	"confcenter/codes"
)

func ExampleDial() {
	addr, stop := exampleServer(map[string]string{
		"_meta.json": `{"app_profile": {"dev": {"app1": "app1-dev.json"}}}`,
	})
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := client.Dial(ctx, client.Config{
		Addrs: []string{addr}, // several are tried in turn
		Name:  "app1",
		Tag:   "dev",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println("client", c.ID(), "has the main config", c.MainConfig())
	// Output: client 2001 has the main config app1-dev.json
}

func ExampleClient_Get() {
	addr, stop := exampleServer(map[string]string{"db.json": `{"host": "10.0.0.7", "port": 5432, "timeout": "1m30s"}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	db, err := c.Get(ctx, "db.json")
	check(err)
	fmt.Println(db.String("/host", "localhost"), db.Int("/port", 1234), db.Duration("/timeout", time.Second))
	fmt.Println(db.Int("/retries", 3), "is the default")

	_, err = c.Get(ctx, "other.json")
	fmt.Println(errors.Is(err, codes.NotFound), errors.Is(err, client.ErrUnreachable))
	// Output:
	// 10.0.0.7 5432 1m30s
	// 3 is the default
	// true false
}

func ExampleClient_GetConfig() {
	addr, stop := exampleServer(map[string]string{
		"_meta.json":    `{"conf_inherit": {"app1-dev.json": "common.json app1.json"}}`,
		"common.json":   `{"log": {"level": "warn"}, "region": "eu"}`,
		"app1.json":     `{"log": {"level": "info"}}`,
		"app1-dev.json": `{"port": 8080}`,
	})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	alone, err := c.GetConfig(ctx, client.Query{Name: "app1-dev.json"})
	check(err)
	merged, err := c.GetConfig(ctx, client.Query{Name: "app1-dev.json", Merged: true})
	check(err)
	level, err := c.GetConfig(ctx, client.Query{Name: "app1-dev.json", Merged: true, Path: "/log/level"})
	check(err)
	fmt.Printf("%s\n%s\n%s\n", alone.Raw(), merged.Raw(), level.Raw())

	_, err = c.GetConfig(ctx, client.Query{Name: "app1-dev.json", NewerThan: alone.Mtime})
	fmt.Println(errors.Is(err, client.ErrUpToDate))
	// Output:
	// {"port":8080}
	// {"log":{"level":"info"},"region":"eu","port":8080}
	// "info"
	// true
}

func ExampleDocument_Decode() {
	addr, stop := exampleServer(map[string]string{"db.json": `{"pools": {"main": {"size": 8, "hosts": ["a", "b"]}}}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	doc, err := c.Get(ctx, "db.json")
	check(err)
	var pool struct {
		Size  int      `json:"size"`
		Hosts []string `json:"hosts"`
	}
	check(doc.Decode("/pools/main", &pool))
	fmt.Printf("%+v\n", pool)
	// Output: {Size:8 Hosts:[a b]}
}

func ExampleClient_Set() {
	addr, stop := exampleServer(map[string]string{"a.json": `{"n": 1}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	// Read, change, and write only if no one else has written meanwhile.
	doc, err := c.Get(ctx, "a.json")
	check(err)
	next := fmt.Appendf(nil, `{"n": %d}`, doc.Int("/n", 0)+1)
	_, err = c.Set(ctx, client.SetRequest{Name: "a.json", Contents: next, IfMtime: &doc.Mtime})
	check(err)
	_, err = c.Set(ctx, client.SetRequest{Name: "a.json", Contents: next, IfMtime: &doc.Mtime})
	fmt.Println("again:", errors.Is(err, codes.Conflict))

	doc, err = c.Get(ctx, "a.json")
	check(err)
	fmt.Printf("%s\n", doc.Raw())
	// Output:
	// again: true
	// {"n":2}
}

func ExampleClient_Remove() {
	addr, stop := exampleServer(map[string]string{"a.json": `{"n": 1}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	check(c.Remove(ctx, "a.json"))
	_, err = c.Get(ctx, "a.json")
	fmt.Println(errors.Is(err, codes.NotFound))
	// Output: true
}

func ExampleClient_List() {
	addr, stop := exampleServer(map[string]string{"a.json": `{"n": 1}`, "dir/b.json": `[1, 2]`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	files, err := c.List(ctx)
	check(err)
	for _, f := range files {
		fmt.Println(f.Name, f.Mtime, f.Size, f.State)
	}
	// Output:
	// a.json 1540000000 7 good
	// dir/b.json 1540000000 5 good
}

func ExampleClient_Problems() {
	addr, stop := exampleServer(map[string]string{"_meta.json": `{"conf_inherit": {"a.json": "nowhere.json"}}`, "a.json": `{}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	problems, err := c.Problems(ctx)
	check(err)
	for _, p := range problems {
		fmt.Printf("%s: %s\n", p.Name, p.Text)
	}
	// Output: a.json: base "nowhere.json" does not exist
}

func ExampleClient_Clients() {
	addr, stop := exampleServer(nil)
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1", Props: map[string]string{"team": "blue"}})
	check(err)
	defer c.Close()

	clients, err := c.Clients(ctx)
	check(err)
	for _, props := range clients {
		fmt.Println(props["svrid"], props["svrname"], props["team"])
	}
	// Output: 2001 app1 blue
}

func ExampleClient_Watch() {
	addr, stop := exampleServer(map[string]string{"a.json": `{"n": 1}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	seen := make(chan struct{})
	w, err := c.Watch(ctx, client.Query{Name: "a.json"}, func(d *client.Document) {
		if d.Exists() {
			fmt.Printf("%s\n", d.Raw())
		} else {
			fmt.Println("deleted")
		}
		seen <- struct{}{}
	})
	check(err)
	<-seen // what there is comes first
	_, err = c.Set(ctx, client.SetRequest{Name: "a.json", Contents: []byte(`{"n": 2}`)})
	check(err)
	<-seen
	check(c.Remove(ctx, "a.json"))
	<-seen
	w.Stop()
	// Output:
	// {"n":1}
	// {"n":2}
	// deleted
}

func ExampleClient_WatchMain() {
	addr, stop := exampleServer(map[string]string{
		"_meta.json": `{"app_profile": {"default": {"app1": "one.json"}}}`,
		"one.json":   `{"n": 1}`,
		"two.json":   `{"n": 2}`,
	})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()

	seen := make(chan struct{})
	_, err = c.WatchMain(ctx, func(d *client.Document) {
		fmt.Println(d.Name, d.Int("/n", 0))
		seen <- struct{}{}
	})
	check(err)
	<-seen
	_, err = c.Set(ctx, client.SetRequest{Name: "_meta.json", Contents: []byte(`{"app_profile": {"default": {"app1": "two.json"}}}`)})
	check(err)
	<-seen
	// Output:
	// one.json 1
	// two.json 2
}

func ExampleBind() {
	addr, stop := exampleServer(map[string]string{"web.json": `{"title": "Welcome", "refresh": 30}`})
	defer stop()
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "web"})
	check(err)
	defer c.Close()

	type page struct {
		Title   string `json:"title"`
		Refresh int    `json:"refresh"`
	}
	web, err := client.Bind[page](ctx, c, client.Query{Name: "web.json"})
	check(err)
	defer web.Stop()
	fmt.Printf("%+v\n", *web.Load())

	changed := make(chan *page)
	web.OnChange(func(p *page) { changed <- p })
	_, err = c.Set(ctx, client.SetRequest{Name: "web.json", Contents: []byte(`{"title": "Hello", "refresh": 60}`)})
	check(err)
	fmt.Printf("%+v\n", *<-changed)
	// Output:
	// {Title:Welcome Refresh:30}
	// {Title:Hello Refresh:60}
}

// A program that has reached a server once starts without one.
func ExampleConfig_cache() {
	addr, stop := exampleServer(map[string]string{"a.json": `{"n": 1}`})
	dir, err := os.MkdirTemp("", "cache")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	cfg := client.Config{Addrs: []string{addr}, Name: "app1", CacheDir: dir}

	c, err := client.Dial(ctx, cfg)
	check(err)
	_, err = c.Get(ctx, "a.json")
	check(err)
	check(c.Close())
	stop()

	c, err = client.Dial(ctx, cfg)
	check(err)
	defer c.Close()
	doc, err := c.Get(ctx, "a.json")
	check(err)
	fmt.Println(c.Connected(), doc.Int("/n", 0), doc.Stale(), doc.Age() < time.Minute)
	_, err = c.Get(ctx, "b.json")
	fmt.Println("b.json may exist:", errors.Is(err, client.ErrUnreachable))
	// Output:
	// false 1 true true
	// b.json may exist: true
}

// Whether a write may be sent again depends on whether it can have arrived.
func ExampleSafeToRetry() {
	addr, stop := exampleServer(nil)
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Config{Addrs: []string{addr}, Name: "app1"})
	check(err)
	defer c.Close()
	stop()

	var failed error
	for failed == nil || !client.SafeToRetry(failed) {
		_, failed = c.Set(ctx, client.SetRequest{Name: "a.json", Contents: []byte(`{}`)})
	}
	fmt.Println(errors.Is(failed, client.ErrUnreachable))
	// Output: true
}

// exampleServer is a server on these files. The examples talk to it as they would
// to any other.
var exampleServer = client.ServeExample

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
