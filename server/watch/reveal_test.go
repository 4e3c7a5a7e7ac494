package watch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/gate/gatetest"
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
