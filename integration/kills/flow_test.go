package kills

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/codes"
	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/models/flow"
	"confcenter/models/modeltest"
)

// cluster is what a scheduler knows of the applications that it has registered and of its
// worker. No one else changes them.
type cluster struct {
	apps   map[string]int         // how many tasks each has
	claims map[string]flow.Status // what the worker has
	ended  map[string]bool        // tasks that it has finished
}

func (s cluster) clone() cluster {
	return cluster{maps.Clone(s.apps), maps.Clone(s.claims), maps.Clone(s.ended)}
}

// forget forgets what is below an application.
func (s cluster) forget(app string) {
	delete(s.apps, app)
	below := func(key string) bool { return appOf(key) == app }
	maps.DeleteFunc(s.claims, func(key string, _ flow.Status) bool { return below(key) })
	maps.DeleteFunc(s.ended, func(key string, _ bool) bool { return below(key) })
}

// appOf is the application that a task of these tests is below: node.ax3 is below cfapp.a.
func appOf(key string) string {
	app, _, _ := strings.Cut(strings.TrimPrefix(key, "node."), "x")
	return "cfapp." + app
}

// flowProgram is a scheduler with a worker.
type flowProgram struct {
	name string
	rand *rand.Rand
	made int // applications so far
	dead bool

	known   cluster
	pending func(s *cluster) // what has been asked for, and was not answered; nil: nothing
	claims  bool             // it is a claim, and no one knows of what
}

const pool = "cfapp.pool" // which all of them claim from

// wants asks for a change.
func (p *flowProgram) wants(change func(s *cluster), ask func() error) error {
	p.pending = change
	err := ask()
	if err == nil {
		change(&p.known)
		p.pending = nil
	}
	return err
}

func (p *flowProgram) step(ctx context.Context, c *client.Client) error {
	model, worker := calls.Flow(c), "wokr."+p.name
	if p.dead {
		return p.wants(func(*cluster) { p.dead = false }, func() error {
			_, err := model.Join(ctx, &flow.JoinAsk{Key: worker, TTL: 600_000})
			return err
		})
	}
	apps, claims := slices.Sorted(maps.Keys(p.known.apps)), slices.Sorted(maps.Keys(p.known.claims))
	switch n := p.rand.IntN(20); {
	case n < 3 && len(apps) < 4:
		return p.register(ctx, model)
	case n == 3 && len(apps) > 0:
		app := apps[p.rand.IntN(len(apps))]
		return p.wants(func(s *cluster) { s.forget(app) }, func() error {
			_, err := model.Remove(ctx, &flow.RemoveAsk{Key: app, Force: true})
			return err
		})
	case n == 4:
		return p.wants(func(s *cluster) {
			for key, status := range s.claims {
				s.ended[key] = status == flow.Stopping
			}
			clear(s.claims)
			p.dead = true
		}, func() error {
			_, err := model.Return(ctx, &flow.ReturnAsk{Worker: worker, Force: true})
			return err
		})
	case n < 13 && len(claims) > 0:
		return p.change(ctx, model, claims[p.rand.IntN(len(claims))])
	}
	from := append(apps, pool)
	p.claims = true
	got, err := model.Claim(ctx, &flow.ClaimAsk{Worker: worker, From: from[p.rand.IntN(len(from))]})
	if err == nil {
		p.claims = false
		if got.Key != "" {
			p.known.claims[got.Key] = flow.Pending
		}
	}
	return err
}

// change changes the status of a task that it has.
func (p *flowProgram) change(ctx context.Context, model *calls.FlowCalls, key string) error {
	to := map[flow.Status][]flow.Status{
		flow.Pending: {flow.Starting, flow.Starting, flow.Stopping, flow.Waiting}, flow.Starting: {flow.Working}, flow.Working: {flow.Exited, flow.Stopping}, flow.Stopping: {flow.Exited},
	}[p.known.claims[key]]
	status := to[p.rand.IntN(len(to))]
	return p.wants(func(s *cluster) {
		switch s.claims[key] = status; status {
		case flow.Exited:
			s.ended[key] = true
			delete(s.claims, key)
		case flow.Waiting:
			delete(s.claims, key)
		}
	}, func() error {
		if status == flow.Waiting {
			_, err := model.Return(ctx, &flow.ReturnAsk{Worker: "wokr." + p.name, Key: key})
			return err
		}
		_, err := model.Status(ctx, &flow.StatusAsk{Key: key, Status: string(status), Worker: "wokr." + p.name})
		return err
	})
}

// register makes an application: at once, small or large, or staged; or copies of a task.
func (p *flowProgram) register(ctx context.Context, model *calls.FlowCalls) error {
	p.made++
	id := fmt.Sprint(p.name, p.made)
	nodes := []int{3, 10, 400}[p.rand.IntN(3)]
	parts := nodesOf(id, nodes)
	app := "cfapp." + id
	there := func(s *cluster) { s.apps[app] = nodes }
	switch p.rand.IntN(3) {
	case 0:
		return p.wants(there, func() error { return p.stage(ctx, model, id, parts) })
	case 1:
		nodes = 3
		if err := p.wants(there, func() error {
			_, err := model.Register(ctx, &flow.RegisterAsk{App: id, Parts: parts[:2+nodes]})
			return err
		}); err != nil {
			return err
		}
		copies := []int{2, 300}[p.rand.IntN(2)]
		return p.wants(func(s *cluster) { s.apps[app] += copies }, func() error {
			_, err := model.Replicate(ctx, &flow.ReplicateAsk{Key: parts[2].Key, Count: int64(copies)})
			return err
		})
	}
	return p.wants(there, func() error {
		_, err := model.Register(ctx, &flow.RegisterAsk{App: id, Parts: parts})
		return err
	})
}

func (p *flowProgram) stage(ctx context.Context, model *calls.FlowCalls, id string, parts []flow.Part) error {
	// What is left of a stage goes away within its time.
	if _, err := model.Stage(ctx, &flow.StageAsk{App: id, TTL: (5 * time.Second).Milliseconds()}); err != nil {
		return err
	}
	for _, some := range [][]flow.Part{parts[:3], parts[3:]} {
		if _, err := model.Add(ctx, &flow.AddAsk{App: id, Parts: some}); err != nil {
			return err
		}
	}
	_, err := model.Publish(ctx, &flow.PublishAsk{App: id})
	return err
}

// nodesOf are a session, a flow and tasks of an application.
func nodesOf(id string, n int) []flow.Part {
	parts := []flow.Part{{Key: "sess." + id}, {Key: "flow." + id, Parent: "sess." + id}}
	for i := range n {
		parts = append(parts, flow.Part{Key: fmt.Sprintf("node.%sx%d", id, i), Parent: "flow." + id, Fields: map[string]flow.Raw{"func": flow.Raw(`"count"`)}})
	}
	return parts
}

// faults implements asker. It goes on with what is there.
func (p *flowProgram) faults(ctx context.Context, c *client.Client) (list []string, err error) {
	there, alive, err := p.look(ctx, calls.Flow(c))
	if err != nil {
		return nil, err
	}
	before, after := p.known, p.known.clone()
	dead := p.dead
	if p.pending != nil {
		p.pending(&after)
		p.dead = dead
	}
	if p.claims {
		for key, status := range there.claims {
			if _, old := before.claims[key]; !old && status == flow.Pending {
				after.claims[key] = status
				break
			}
		}
	}
	faults := before.differs(there)
	if faults != "" && (p.pending != nil || p.claims) {
		if faults = after.differs(there); faults == "" {
			p.known = after
		}
	}
	if faults != "" {
		return []string{p.name + ": " + faults}, nil
	}
	p.pending, p.claims, p.dead = nil, false, !alive
	return nil, nil
}

// differs says how what is there differs from what is known.
func (s cluster) differs(there cluster) string {
	switch {
	case !maps.Equal(s.apps, there.apps):
		return fmt.Sprintf("the applications are %v, and %v were registered", there.apps, s.apps)
	case !maps.Equal(s.claims, there.claims):
		return fmt.Sprintf("it has %v, and has claimed %v", there.claims, s.claims)
	}
	for key, ended := range s.ended {
		if ended && !there.ended[key] {
			return fmt.Sprintf("%s has not EXITED", key)
		}
	}
	return ""
}

// look reads what is there, and whether its worker lives.
func (p *flowProgram) look(ctx context.Context, model *calls.FlowCalls) (there cluster, alive bool, err error) {
	there = cluster{map[string]int{}, map[string]flow.Status{}, map[string]bool{}}
	for after, more := "", true; more; more = after != "" {
		a, err := model.Tasks(ctx, &flow.TasksAsk{After: after, Limit: flow.MaxLines})
		if err != nil {
			return there, false, err
		}
		for _, task := range a.Tasks {
			if app := appOf(task.Key); strings.HasPrefix(app, "cfapp."+p.name) {
				there.apps[app]++
			}
			there.ended[task.Key] = task.Status == flow.Exited
		}
		after = a.Next
	}
	for after, more := "", true; more; more = after != "" {
		a, err := model.Assigned(ctx, &flow.AssignedAsk{Worker: "wokr." + p.name, After: after})
		if err != nil {
			return there, false, err
		}
		for _, task := range a.Tasks {
			there.claims[task.Key] = task.Status
		}
		after = a.Next
	}
	_, err = model.Heartbeat(ctx, &flow.HeartbeatAsk{Key: "wokr." + p.name})
	if codes.Of(err) == codes.LeaseGone {
		return there, false, nil
	}
	return there, true, err
}

// flowIsSound looks at all keys: lists and records agree, no task is assigned twice, and
// histories have no gap.
func flowIsSound(ctx context.Context, c *client.Client) ([]string, error) {
	faults, _, err := flowFaults(ctx, c)
	return faults, err
}

// flowIsClean is flowIsSound, and nothing is left of what is in no list.
func flowIsClean(ctx context.Context, c *client.Client) ([]string, error) {
	faults, left, err := flowFaults(ctx, c)
	return append(faults, left[:min(len(left), 3)]...), err
}

func flowFaults(ctx context.Context, c *client.Client) (faults, left []string, err error) {
	values := map[string]string{}
	for after, more := "", true; more; more = after != "" {
		a, err := calls.Flow(c).Read(ctx, &flow.ReadAsk{After: after, Limit: flow.MaxLines})
		if err != nil {
			return nil, nil, err
		}
		for _, e := range a.Entries {
			values[e.Key] = string(e.Value)
		}
		after = a.Next
	}
	listed, holder := map[flow.Member]bool{}, map[flow.Member]string{}
	faults = modeltest.FlowFaults(values)
	for key := range values {
		switch k, _ := flow.ParseKey(key); {
		case k.Form == flow.ListMember:
			listed[k.Member] = true
		case k.Form == flow.Assignment && holder[k.Task] != "":
			faults = append(faults, fmt.Sprintf("%s and %s", key, holder[k.Task]))
		case k.Form == flow.Assignment:
			holder[k.Task] = key
		}
	}
	for key := range values {
		if k, _ := flow.ParseKey(key); k.Form == flow.Field && !listed[k.Member] {
			left = append(left, key+" is left over")
		}
	}
	return faults[:min(len(faults), 5)], left, nil
}

// C10 and C31: TestSoakKillFlow kills the server at random moments while schedulers register,
// stage, publish, copy and remove applications, and workers claim tasks, change them and give
// them back. After each start what was acknowledged is there, and anything else whole or not.
func TestSoakKillFlow(t *testing.T) {
	t.Parallel() // it waits at its end
	seed := uint64(time.Now().UnixNano())
	random, p := rand.New(rand.NewPCG(seed, 1)), process.Start(t, emptyConf(t))
	var askers []asker
	withClient(t, p, servertest.Patience, func(ctx context.Context, c *client.Client) {
		_, err := calls.Flow(c).Register(ctx, &flow.RegisterAsk{App: "pool", Parts: nodesOf("pool", 300)})
		for i, name := range []string{"a", "b", "c", "d"} {
			_, again := calls.Flow(c).Join(ctx, &flow.JoinAsk{Key: "wokr." + name, TTL: 600_000})
			err = errors.Join(err, again)
			askers = append(askers, &flowProgram{name: name, rand: rand.New(rand.NewPCG(seed, uint64(i)+2)), known: cluster{map[string]int{}, map[string]flow.Status{}, map[string]bool{}}})
		}
		require.NoError(t, err)
	})
	defer func() { t.Log("seed", seed) }()
	killModels(t, p, random, askers, flowIsSound)
	untilSound(t, p, 2*servertest.Patience, flowIsClean) // a large application is staged for 30 s
}
