package flow_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/flow"
)

// storm does at random what schedulers, workers and operators do.
type storm struct {
	*kit
	rand *rand.Rand
}

func (s *storm) one(list ...string) string { return list[s.rand.IntN(len(list))] }

// act does one thing, which may be refused.
func (s *storm) act() (what string, err error) {
	worker := "wokr." + s.one("W1", "W2", "W3")
	node := s.one("node.N0", "node.N1", "node.N0b", "srvs.V")
	whole := s.one("flow.F", "flow.Fb", "cfapp.A", "cfapp.B")
	force := s.rand.IntN(4) == 0
	does := func(name string, do func() error) (string, error) {
		err := do()
		return fmt.Sprintf("%s %s %s %s %v: %v", name, worker, node, whole, force, err), err
	}
	switch s.rand.IntN(13) {
	case 0, 1:
		return does("claim a task", func() error { return s.claim(flow.ClaimAsk{Worker: worker, Key: node}) })
	case 2:
		return does("claim all below", func() error { return s.claim(flow.ClaimAsk{Worker: worker, Key: whole}) })
	case 3, 4:
		return does("claim next", func() error { return s.claim(flow.ClaimAsk{Worker: worker, From: s.one("", whole)}) })
	case 5, 6:
		return does("status", func() error {
			key := s.one(node, node, "cfapp.A", "cfapp.B")
			_, err := s.SetStatus(s.ctx, s.by, &flow.StatusAsk{Key: key, Status: s.one("STARTING", "WORKING", "STOPING", "EXITED")})
			return err
		})
	case 7:
		return does("return one", func() error {
			_, err := s.Return(s.ctx, s.by, &flow.ReturnAsk{Worker: worker, Key: s.one(node, whole), Force: force})
			return err
		})
	case 8:
		return does("return all", func() error {
			_, err := s.Return(s.ctx, s.by, &flow.ReturnAsk{Worker: worker, Force: force})
			return err
		})
	case 9:
		return does("leave", func() error {
			_, err := s.Leave(s.ctx, s.by, &flow.LeaveAsk{Key: worker})
			return err
		})
	case 10:
		return does("remove", func() error {
			_, err := s.Remove(s.ctx, s.by, &flow.RemoveAsk{Key: s.one(node, whole), Force: force})
			return err
		})
	case 11:
		return does("register", func() error {
			suffix := s.one("", "b")
			_, err := s.Register(s.ctx, s.by, &flow.RegisterAsk{App: map[string]string{"": "A", "b": "B"}[suffix], Parts: parts(suffix, 2)})
			return err
		})
	}
	return does("join", func() error {
		_, err := s.Join(s.ctx, s.by, &flow.JoinAsk{Key: worker, TTL: 600_000})
		return err
	})
}

func (s *storm) claim(q flow.ClaimAsk) error {
	_, err := s.Claim(s.ctx, s.by, &q)
	return err
}

// apart fails the test if two have the same, or one has what is below another's.
func (k *kit) apart() {
	k.t.Helper()
	k.sound()
	values := map[string]string{}
	for _, e := range ask(k, k.Read, flow.ReadAsk{Limit: flow.MaxLines}).Entries {
		values[e.Key] = text(string(e.Value))
	}
	for key := range values {
		m, field, _ := strings.Cut(strings.Replace(key, ".", "/", 1), ".")
		m = strings.Replace(m, "/", ".", 1)
		owner := values[m+".worker"] + values[m+".claim"]
		switch field {
		case "worker", "claim":
			require.Contains(k.t, values, "wokr."+owner+".task."+m)
			for _, above := range []string{values[m+".parent"], "cfapp." + values[m+".appuid"]} {
				require.Contains(k.t, []string{"", owner}, values[above+".claim"], "%s is below %s, which is another's", m, above)
			}
		case "cstat":
			if kind, _, _ := strings.Cut(m, "."); kind != "wokr" && kind != "sess" && kind != "flow" {
				require.Equal(k.t, values[key] == "WAITING" || values[key] == "EXITED", owner == "", "%s is %s, and claimed by %q", m, values[key], owner)
			}
		}
	}
}

// Between the steps of what one program does, others do something else.
func TestAStormOfClaimsKeepsEverybodyApart(t *testing.T) {
	inside(t, func(k *kit) {
		seed := rand.Uint64()
		k.t.Log("seed", seed)
		s := &storm{k, rand.New(rand.NewPCG(seed, 0))}
		ask(k, k.Register, flow.RegisterAsk{App: "A", Parts: parts("", 2)})
		ask(k, k.Register, flow.RegisterAsk{App: "B", Parts: parts("b", 2)})
		k.join("W1", "W2", "W3")
		var log []string
		k.t.Cleanup(func() {
			if k.t.Failed() {
				k.t.Log(strings.Join(log[max(0, len(log)-40):], "\n"))
			}
		})
		inside := 0
		others := func(*kv.Txn) {
			for inside < 3 && s.rand.IntN(4) == 0 {
				inside++
				what, _ := s.act()
				inside--
				log = append(log, strings.Repeat("  ", inside+1)+what)
			}
		}
		acting := &storm{k.hook(others, others), s.rand}
		for range 200 {
			what, err := acting.act()
			log = append(log, what)
			require.NotContains(k.t, []codes.Code{codes.Internal, codes.Busy}, codes.Of(err), what)
			k.apart()
		}
	})
}
