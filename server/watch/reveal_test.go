package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
)

func TestAWatchRevealsWhatItsPeerMayKnowIfItIsAskedTo(t *testing.T) {
	sealed := func(name, value string) string {
		return guardtest.Sealed(t, "config:"+name, `{"`+name[:1]+`":{"$seal":"`+value+`"}}`)
	}
	k := newDocKit(t, map[string]string{"base.json": sealed("base.json", "of base"), "heir.json": sealed("heir.json", "of heir"), "_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`})
	k.Ring = guardtest.Ring()
	all := func(names ...string) (rules []string) {
		rules = []string{"read config", "watch config"}
		for _, name := range names {
			rules = append(rules, "reveal config:"+name)
		}
		return rules
	}
	for _, c := range []struct {
		rules      []string
		ask        string
		base, heir bool
	}{
		{all("base.json", "heir.json"), `"reveal":1`, true, true},
		{all("base.json", "heir.json"), `"reveal":0`, false, false},
		{all("heir.json"), `"reveal":1`, false, true},
		{all("base.json"), `"reveal":1`, true, false},
		{all(), `"reveal":1`, false, false},
		{all("base.json", "heir.json"), `"reveal":1,"prev":1`, true, true},
		{all("base.json"), `"reveal":1,"changes":1`, true, false},
	} {
		p := k.peer(gatetest.Unlimited)
		p.s.Rights = guardtest.Caller(t, c.rules...)
		require.Contains(t, p.ask(protocol.CfWatch, `{"name":"heir.json","resolved":1,"state":1,`+c.ask+`}`), `"code":0`)
		now := k.store.Revisions().Revision()
		state := fmt.Sprint(p.reach(now))
		require.Equal(t, c.base, strings.Contains(state, "of base"), "%v %s", c, state)
		require.Equal(t, c.heir, strings.Contains(state, "of heir"), "%v %s", c, state)
		for _, value := range []string{"first", "second", "of heir"} {
			told := fmt.Sprint(p.reach(k.set("heir.json", sealed("heir.json", value))))
			require.Equal(t, c.heir, strings.Contains(told, value), "%v %s", c, told)
			require.Equal(t, !c.heir, strings.Contains(told, `"h":"$secret:`) || strings.Contains(told, `"new":"$secret:`), "%v %s", c, told)
		}
		p.s.Abort("the test ends it")
	}
}

// Watches of the same keys share frames, those with the right as well as those without: who is revealed
// something shares none.
func TestWatchesOfKeysThatRevealShareNothingWithThoseThatDoNot(t *testing.T) {
	k := newWatchKit(t, loop.Limits{}, memory.Config{}, nil)
	k.Ring = guardtest.Ring()
	put := func(key, value string) kv.Revision {
		sealed, err := guardtest.Ring().SealTyped("kv:game/"+key, "string", []byte(`"`+value+`"`))
		require.NoError(t, err)
		return k.commit(kv.PutTxn("game", key, kv.JSONValue(sealed))).Revision
	}
	put("a", "of a 0")
	put("b", "of b 0")
	rules := map[string][]string{"all": {"* kv"}, "a": {"* kv", "-reveal kv:game/b"}, "none": {"* kv", "-reveal kv"}}
	type one struct {
		who, body string
		a, b      bool
		peer      *watchPeer
	}
	var peers []*one
	for range 2 {
		for _, more := range []string{"", `,"state":1`, `,"prev":1`, `,"state":1,"coalesce":1,"raw":1`} {
			for who, reveals := range map[string][2]bool{"all": {true, true}, "a": {true, false}, "none": {}} {
				peers = append(peers, &one{who, `{"ns":"game","reveal":1` + more + `}`, reveals[0], reveals[1], nil}, &one{who, `{"ns":"game"` + more + `}`, false, false, nil})
			}
		}
	}
	for _, p := range peers {
		p.peer = k.peer(gatetest.Unlimited)
		p.peer.s.Rights = guardtest.Caller(t, rules[p.who]...)
		p.peer.watch(p.body)
	}
	k.settle()
	for round := 1; round < 4; round++ {
		put("a", fmt.Sprint("of a ", round))
		put("b", fmt.Sprint("of b ", round))
		k.settle()
	}
	for _, p := range peers {
		var told strings.Builder
		last := map[string]kv.Value{}
		for _, f := range p.peer.take() {
			told.Write(f.body)
			for _, e := range f.events.Events {
				last[e.Entry.Key] = e.Entry.Value
			}
		}
		require.Equal(t, p.a, strings.Contains(told.String(), "of a"), "%+v", p)
		require.Equal(t, p.b, strings.Contains(told.String(), "of b"), "%+v", p)
		for key, reveals := range map[string]bool{"a": p.a, "b": p.b} {
			if reveals {
				require.Equal(t, kv.StringValue("of "+key+" 3"), last[key], "%+v", p)
			} else {
				require.True(t, last[key].Sealed(), "%+v", p)
			}
		}
	}
}
