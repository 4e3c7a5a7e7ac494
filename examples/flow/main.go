// Command flow is a scheduler, or a worker, on the flow model of a confcenter:
//
//	flow 127.0.0.1:7001 scheduler S1
//	flow 127.0.0.1:7001 worker W1 100ms
//
// Any number of both may run. A scheduler gives tasks that wait to workers that have little to
// do, and returns what a lost worker had. A worker runs what it is given, which takes as long
// as it is told, and says how it gets on. Both listen rather than poll, live on a lease, and may
// be killed at any time.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/kv"
	"confcenter/models/flow"
)

// lifetime is how long one of the programs is believed to live after it last said so.
const lifetime = 2 * time.Second

// most is how many tasks a worker is given at a time.
const most = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "flow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("usage: flow ADDRESS scheduler ID, or flow ADDRESS worker ID TIME")
	}
	c, err := client.Dial(ctx, client.Config{Addrs: args[:1], Name: "flow-" + args[2]})
	if err != nil {
		return err
	}
	defer c.Close()
	p := &program{model: calls.Flow(c)}
	switch {
	case args[1] == "scheduler":
		p.me = "sche." + args[2]
		return p.live(ctx, p.schedule)
	case args[1] == "worker" && len(args) == 4:
		p.me = "wokr." + args[2]
		if p.takes, err = time.ParseDuration(args[3]); err != nil {
			return err
		}
		return p.live(ctx, p.work)
	}
	return fmt.Errorf("what is a %s?", args[1])
}

// program is a scheduler or a worker.
type program struct {
	model *calls.FlowCalls
	me    string
	takes time.Duration // a task of a worker
}

// live joins and works until that fails, or the model takes the program for dead.
func (p *program) live(ctx context.Context, work func(context.Context) error) error {
	joined, err := p.model.Join(ctx, &flow.JoinAsk{Key: p.me, TTL: lifetime.Milliseconds()})
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var beat sync.WaitGroup
	beat.Go(func() {
		next := time.NewTicker(lifetime / 4)
		defer next.Stop()
		for {
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
			if _, err := p.model.Heartbeat(ctx, &flow.HeartbeatAsk{Key: p.me, Lease: joined.Lease}); err != nil {
				end(err)
				return
			}
		}
	})
	defer beat.Wait()
	err = work(ctx)
	end(err)
	return context.Cause(ctx)
}

// listen tells of what happens to the keys with a prefix, first of what there is, until hear fails.
func (p *program) listen(ctx context.Context, prefix string, hear func(*flow.Changes) error) error {
	w, err := p.model.Watch(ctx, "", prefix, 0)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if err := hear(n); err != nil {
			return err
		}
	}
}

// schedule gives tasks to workers when something has changed; one round is for all that has
// changed since the last.
func (p *program) schedule(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	news := make(chan struct{}, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer end(nil)
	listening.Go(func() {
		end(p.listen(ctx, "", func(n *flow.Changes) error {
			if n.Kind == kv.State || n.More {
				return nil
			}
			select {
			case news <- struct{}{}:
			default: // a round is due already
			}
			return nil
		}))
	})
	for {
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.round(ctx); err != nil {
			return err
		}
	}
}

// round returns what lost workers had, and gives what waits to the others. If another scheduler
// does the same at the same time, each task still goes to one worker.
func (p *program) round(ctx context.Context) error {
	list, err := p.model.Workers(ctx, &flow.WorkersAsk{})
	if err != nil {
		return err
	}
	for _, w := range list.Workers {
		if w.Status == flow.Exited && w.Tasks > 0 {
			back, err := p.model.Return(ctx, &flow.ReturnAsk{Worker: w.Key, Who: p.me})
			if err != nil {
				continue // it has joined again, which returns them too
			}
			fmt.Printf("%s is lost, its %d tasks wait again\n", w.Key, back.Returned)
		}
	}
	for _, w := range list.Workers {
		for tasks := w.Tasks; w.Status == flow.Working && tasks < most; tasks++ {
			claim, err := p.model.Claim(ctx, &flow.ClaimAsk{Worker: w.Key, Who: p.me})
			if err != nil {
				break // it was lost just now
			}
			if claim.Key == "" {
				return nil // nothing waits
			}
			fmt.Printf("%s is for %s\n", claim.Key, w.Key)
		}
	}
	return nil
}

// work runs what the worker is given.
func (p *program) work(ctx context.Context) error {
	return p.listen(ctx, p.me+".task.", func(n *flow.Changes) error {
		for i := range n.List {
			if one := &n.List[i]; one.New != nil {
				if err := p.task(ctx, one.Key.Task.String(), int64(one.New.Create)); err != nil {
					fmt.Println(err) // it was returned meanwhile
				}
			}
		}
		return nil
	})
}

// task runs one task. The fence sees to it that nothing is said of a task that was returned.
func (p *program) task(ctx context.Context, key string, fence int64) error {
	say := func(s flow.Status) error {
		_, err := p.model.Status(ctx, &flow.StatusAsk{Key: key, Status: string(s), Worker: p.me, Fence: fence, Who: p.me})
		return err
	}
	for _, s := range []flow.Status{flow.Starting, flow.Working} {
		if err := say(s); err != nil {
			return err
		}
	}
	select {
	case <-time.After(p.takes): // here it would work
	case <-ctx.Done():
		return ctx.Err()
	}
	return say(flow.Exited)
}
