package confstore

import (
	"fmt"
	"testing"

	"confcenter/confstore/snapshot"

	"github.com/stretchr/testify/require"
)

// family is the document's example: app1-dev inherits from common and app1.
func family() map[string]string {
	return map[string]string{
		"_meta.json":    `{"conf_inherit":{"app1-dev.json":"common.json app1.json"}}`,
		"common.json":   `{"a":"common","b":"common","c":{"x":1,"y":1}}`,
		"app1.json":     `{"b":"app1"}`,
		"app1-dev.json": `{"c":{"x":2}}`,
	}
}

func TestMergeIsShallowWithTheDocumentStrongest(t *testing.T) {
	m := newMemKit(t, family())
	require.JSONEq(t, `{"a":"common","b":"app1","c":{"x":2}}`, m.merged("app1-dev"))
	require.Equal(t, `{"c":{"x":2}}`, m.text("app1-dev"))
	require.Equal(t, []string{"common.json", "app1.json"}, m.Snapshot().Find([]byte("app1-dev")).Bases())
}

func TestVersionOfAFirstStartIsTheFiles(t *testing.T) {
	m := newMemKit(t, nil)
	m.write("_meta.json", family()["_meta.json"], 9000)
	m.write("common.json", `{}`, 5000)
	m.write("app1-dev.json", `{}`, 2000)
	m.cfg.DataDir = "/srv/data2"
	m.mem.MakeDir(m.cfg.DataDir)
	m.reopen()
	n := m.Snapshot().Node("app1-dev.json")
	require.EqualValues(t, 2000, n.Mtime(false))
	require.EqualValues(t, 5000, n.Mtime(true))
}

// wantChange is what a Change says, without its nodes.
type wantChange struct {
	Name  string
	Own   bool
	Bases []string
	List  bool
}

func summary(b *snapshot.Batch) []wantChange {
	var out []wantChange
	for _, c := range b.Changes {
		out = append(out, wantChange{c.Name, c.Own, c.Bases, c.BasesListChanged})
	}
	return out
}

// TestEveryChangeThatReachesAnHeirRaisesItsVersion: in each row something changes
// that app1-dev.json inherits; its resolved version rises, and the base that is
// told first has a version that a client of app1-dev acts on.
func TestEveryChangeThatReachesAnHeirRaisesItsVersion(t *testing.T) {
	heir := "app1-dev.json"
	for name, row := range map[string]struct {
		do   func(m *memKit)
		want []wantChange
	}{
		"a base is edited": {
			func(m *memKit) { m.edit("common.json", `{"a":"new"}`, 1000) },
			[]wantChange{{"common.json", true, nil, false}, {heir, false, []string{"common.json"}, false}},
		},
		"a base is set": {
			func(m *memKit) { m.mustSet("app1.json", `{"b":"new"}`) },
			[]wantChange{{"app1.json", true, nil, false}, {heir, false, []string{"app1.json"}, false}},
		},
		"a base is edited so that the heir comes out the same": {
			func(m *memKit) { m.edit("common.json", `{"a":"common","b":"new","c":{"x":1,"y":1}}`, 1000) },
			[]wantChange{{"common.json", true, nil, false}, {heir, false, []string{"common.json"}, false}},
		},
		"a base is removed": {
			func(m *memKit) { m.remove("common.json") },
			[]wantChange{{"common.json", true, nil, false}, {heir, false, []string{"common.json"}, false}},
		},
		"the document itself": {
			func(m *memKit) { m.edit(heir, `{}`, 1000) },
			[]wantChange{{heir, true, nil, false}},
		},
		"the document and both bases": {
			func(m *memKit) {
				m.write("common.json", `{"n":1}`, 1000)
				m.write("app1.json", `{"n":2}`, 1000)
				m.edit(heir, `{"n":3}`, 1000)
			},
			[]wantChange{
				{"common.json", true, nil, false}, {"app1.json", true, nil, false},
				{heir, true, []string{"common.json", "app1.json"}, false},
			},
		},
		"the list of bases is shortened": {
			func(m *memKit) { m.edit("_meta.json", `{"conf_inherit":{"app1-dev.json":"app1.json"}}`, 1000) },
			[]wantChange{{"_meta.json", true, nil, false}, {heir, false, nil, true}},
		},
		"the order of bases changes": {
			func(m *memKit) {
				m.edit("_meta.json", `{"conf_inherit":{"app1-dev.json":"app1.json common.json"}}`, 1000)
			},
			[]wantChange{{"_meta.json", true, nil, false}, {heir, false, nil, true}},
		},
		"the merge becomes deep": {
			func(m *memKit) {
				m.edit("_meta.json", `{"conf_inherit":{"app1-dev.json":"common.json app1.json"},"inherit_options":{"*":{"merge":"deep"}}}`, 1000)
			},
			[]wantChange{{"_meta.json", true, nil, false}, {heir, false, nil, true}},
		},
		"_meta.json is removed": {
			func(m *memKit) { m.remove("_meta.json") },
			[]wantChange{{"_meta.json", true, nil, false}, {heir, false, nil, true}},
		},
		"_meta.json is deleted": {
			func(m *memKit) { _, err := m.set(SetRequest{Name: "_meta.json"}); require.NoError(m.t, err) },
			[]wantChange{{"_meta.json", true, nil, false}, {heir, false, nil, true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, family())
			before, own := m.resolved(heir), m.mtime(heir)
			row.do(m)
			b := m.next()
			require.Equal(t, row.want, summary(b))
			after := m.resolved(heir)
			require.Greater(t, after, before)
			for _, c := range b.Changes {
				require.Same(t, m.Snapshot().Node(c.Name), c.Node)
				if c.Own && c.Name != "_meta.json" {
					require.Greater(t, c.Node.Mtime(false), before, "a client of the heir acts on it")
				}
			}
			if !b.Changes[len(b.Changes)-1].Own {
				require.Equal(t, own, m.mtime(heir), "its own version is its own")
			}
			m.none()
			m.reopen()
			require.Equal(t, after, m.resolved(heir), "across a restart")
		})
	}
}

// TestListOfBasesThatChangedWhileDownRaisesTheVersion also when _meta.json was
// changed there and back between two looks at its contents.
func TestListOfBasesThatChangedWhileDownRaisesTheVersion(t *testing.T) {
	m := newMemKit(t, family())
	before := m.resolved("app1-dev.json")
	require.NoError(t, m.Close())
	m.write("_meta.json", `{"conf_inherit":{"app1-dev.json":"app1.json"}}`, 1000)
	m.open()
	shortened := m.resolved("app1-dev.json")
	require.Greater(t, shortened, before)
	require.NoError(t, m.Close())
	require.NoError(t, m.mem.Drop(m.path("_meta.json")))
	m.open()
	require.Greater(t, m.resolved("app1-dev.json"), shortened)
}

func TestBaseThatChangedWhileDownRaisesTheVersionOfItsHeirs(t *testing.T) {
	m := newMemKit(t, family())
	m.edit("app1-dev.json", `{}`, 7000)
	before := m.resolved("app1-dev.json")
	require.NoError(t, m.Close())
	m.write("common.json", `{"a":"down"}`, 500)
	m.open()
	require.Greater(t, m.resolved("app1-dev.json"), before)
	require.Greater(t, m.mtime("common.json"), before)
}

func TestTombstonedBaseCounts(t *testing.T) {
	m := newMemKit(t, family())
	m.remove("common.json")
	require.Equal(t, m.mtime("common.json"), m.resolved("app1-dev.json"))
	require.JSONEq(t, `{"b":"app1","c":{"x":2}}`, m.merged("app1-dev"))
}

func TestMissingBaseIsSkippedReportedAndItsArrivalTold(t *testing.T) {
	m := newMemKit(t, family())
	m.write("_meta.json", `{"conf_inherit":{"app1-dev.json":"later.json app1.json"}}`, 1000)
	m.Reload()
	m.next()
	require.Len(t, m.Problems(), 1)
	require.Contains(t, m.Problems()[0].Text, "later.json")
	before := m.resolved("app1-dev.json")
	m.edit("later.json", `{"l":1}`, 10)
	require.Equal(t, []wantChange{{"later.json", true, nil, false}, {"app1-dev.json", false, []string{"later.json"}, false}}, summary(m.next()))
	require.Greater(t, m.resolved("app1-dev.json"), before)
	require.Empty(t, m.Problems())
	m.remove("later.json")
	require.Len(t, m.Problems(), 1, "a removed base is missing again")
}

func TestGhostHasBasesButNoVersion(t *testing.T) {
	m := newMemKit(t, map[string]string{"base.json": `{"a":1}`})
	m.edit("_meta.json", `{"conf_inherit":{"ghost.json":"base.json","nothing.json":""}}`, 1000)
	require.Equal(t, []string{"_meta.json", "ghost.json", "nothing.json"}, names(m.next()))
	n := m.Snapshot().Find([]byte("ghost"))
	require.NotNil(t, n)
	require.False(t, n.Known() || n.Deleted())
	require.Zero(t, n.Mtime(true))
	require.Zero(t, n.Mtime(false))
	require.Equal(t, `{"a":1}`, m.merged("ghost"))
	require.Empty(t, m.text("ghost"))
	require.Equal(t, `{}`, m.merged("nothing"))
	require.NotContains(t, m.Snapshot().Names(), "ghost.json")

	m.edit("base.json", `{"a":2}`, 1000)
	require.Equal(t, []string{"base.json", "ghost.json"}, names(m.next()))
	m.edit("ghost.json", `{"g":1}`, 500)
	b := m.next()
	require.Equal(t, []wantChange{{"ghost.json", true, nil, false}}, summary(b))
	require.True(t, b.Changes[0].Node.Known())
	require.NotNil(t, b.Changes[0].Prev)

	m.remove("_meta.json")
	b = m.next()
	require.Equal(t, []string{"_meta.json", "ghost.json", "nothing.json"}, names(b))
	require.NotNil(t, b.Changes[2].Node, "also for a ghost that is gone")
	require.False(t, b.Changes[2].Node.Known())
	require.Nil(t, m.Snapshot().Node("nothing.json"))
}

func TestBrokenMetaKeepsTheLastGoodRulesAcrossRestart(t *testing.T) {
	for _, text := range []string{"{", "[]", "", `{"conf_inherit":{} # comment`} {
		t.Run(text, func(t *testing.T) {
			m := newMemKit(t, family())
			m.edit("_meta.json", text, 2000)
			m.none()
			for range 2 {
				require.Len(t, m.Problems(), 1)
				require.JSONEq(t, `{"a":"common","b":"app1","c":{"x":2}}`, m.merged("app1-dev"))
				require.NotNil(t, m.Snapshot().Meta())
				m.reopen()
			}
		})
	}
}

func TestNonObjectsAreSkippedInAMerge(t *testing.T) {
	m := newMemKit(t, family())
	m.edit("common.json", `[1]`, 1000)
	require.JSONEq(t, `{"b":"app1","c":{"x":2}}`, m.merged("app1-dev"))
	m.edit("app1-dev.json", `"text"`, 1000)
	require.JSONEq(t, `{"b":"app1"}`, m.merged("app1-dev"))
	require.Equal(t, `"text"`, m.text("app1-dev"))
}

func TestChainedBasesBringTheirOwn(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"c.json":"b.json","b.json":"a.json","loop.json":"loop2.json","loop2.json":"loop.json"},"inherit_options":{"*":{"chain":true}}}`,
		"a.json":     `{"a":1}`, "b.json": `{"b":1}`, "c.json": `{"c":1}`, "loop.json": `{}`, "loop2.json": `{}`,
	})
	require.JSONEq(t, `{"a":1,"b":1,"c":1}`, m.merged("c"))
	require.Len(t, m.Problems(), 1, "the circle")
	before := m.resolved("c.json")
	m.edit("a.json", `{"a":2}`, 1000)
	b := m.next()
	require.Equal(t, []wantChange{
		{"a.json", true, nil, false}, {"b.json", false, []string{"a.json"}, false}, {"c.json", false, []string{"a.json"}, false},
	}, summary(b))
	require.Greater(t, m.resolved("c.json"), before)
}

func TestBasesComeBeforeHeirsInABatchThenByName(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"z.json","m.json":"a.json y.json","x.json":"w.json","w.json":"x.json"}}`,
	})
	for _, name := range []string{"a", "b", "m", "w", "x", "y", "z"} {
		m.write(name+".json", `{}`, 1000)
	}
	m.Reload()
	require.Equal(t, []string{"z.json", "a.json", "b.json", "y.json", "m.json", "x.json", "w.json"}, names(m.next()))
}

func TestNodesAreSharedBetweenSnapshots(t *testing.T) {
	files := family()
	for i := range 500 {
		files[fmt.Sprintf("other%d.json", i)] = `{}`
	}
	m := newMemKit(t, files)
	before := m.Snapshot()
	before.Node("app1-dev.json").Prepare(true, true)
	m.edit("common.json", `{}`, 1000)
	after := m.Snapshot()
	for _, name := range after.Names() {
		if name == "common.json" || name == "app1-dev.json" {
			require.NotSame(t, before.Node(name), after.Node(name))
		} else {
			require.Same(t, before.Node(name), after.Node(name))
		}
	}
	require.JSONEq(t, `{"a":"common","b":"common","c":{"x":1,"y":1}}`, textOf(before.Node("common.json"), false), "the old one stays as it was")
	require.Greater(t, after.Seq(), before.Seq())
}
