package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/access/policy"
)

// A role that was never good does not hide one that is in force and broken on disk, whichever came
// first, nor after another start.
func TestOneBrokenRoleHidesNoOther(t *testing.T) {
	const never = `[1]`
	log := make(logged, 100)
	var cfg control.Config
	k := start(t, map[string]string{"_access/games.json": games, "_access/t2.json": `{"rules":[]}`}, func(c *control.Config) {
		c.Log = zerolog.New(log)
		cfg = *c
	})
	game, err := k.Admit(&control.Proof{Token: k.token("game-1").Text})
	require.NoError(t, err)
	names := func(c *control.Control, all ...string) {
		t.Helper()
		for _, name := range all {
			require.ErrorContains(t, c.Trouble(), name)
			require.Contains(t, c.Explain(game.Who, policy.Read, policy.Config, "game/a.json").Trouble, name)
		}
	}
	reload := func(what string, fn func() bool) {
		k.config.Reload()
		k.until(what, fn)
	}
	broken := func() bool { return k.config.Snapshot().Node("_access/t2.json").Broken() != "" }
	k.put("_access/t2.json", `{"rules":[`)
	reload("the broken role", func() bool { return broken() && k.Trouble() != nil })
	k.until("its line", func() bool { return len(log) == 1 })
	require.Contains(t, <-log, "t2.json")
	k.put("_access/zz9.json", never)
	reload("the role that was never good", func() bool { return len(k.config.Faults()) == 1 })
	names(k.Control, "t2.json", "zz9.json", "what they said before is in force until", "after the next start of the server only administrators")
	k.until("the line of both", func() bool { return len(log) == 1 })
	line := <-log
	require.Contains(t, line, "t2.json")
	require.Contains(t, line, "zz9.json")

	again := control.Open(cfg) // a start that finds both
	names(again, "t2.json", "zz9.json", "until then only administrators")
	again.Close()

	require.NoError(t, os.Remove(filepath.Join(k.dir, "_access/zz9.json")))
	reload("one of them", func() bool { return len(k.config.Faults()) == 0 })
	names(k.Control, "t2.json")
	require.NotContains(t, k.Trouble().Error(), "zz9")
}

// However many are broken, the first few are named and the others counted.
func TestManyBrokenRolesAreCounted(t *testing.T) {
	roles := map[string]string{}
	for i := range 12 {
		roles[fmt.Sprintf("_access/in-force-%02d.json", i)] = `{"rules":[]}`
	}
	k := start(t, roles)
	for i := range 12 {
		k.put(fmt.Sprintf("_access/in-force-%02d.json", i), `{"rules":[`)
		k.put(fmt.Sprintf("_access/never-%02d.json", i), `{"rules":[`)
	}
	k.config.Reload()
	k.until("the broken roles", func() bool {
		return len(k.config.Faults()) == 12 && k.config.Snapshot().Node("_access/in-force-11.json").Broken() != ""
	})
	text := k.Trouble().Error()
	for _, kind := range []string{"in-force", "never"} {
		require.Contains(t, text, "_access/"+kind+"-04.json and 7 more", kind)
		require.NotContains(t, text, kind+"-05", kind)
	}
}
