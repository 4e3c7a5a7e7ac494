package confstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/snapshot"
)

func TestReadFileIsWhatIsOnTheDisk(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "{ \"v\" : 1 }\n", "bad.json": "{\"v\":"})
	for name, want := range map[string]string{"a.json": "{ \"v\" : 1 }\n", "bad.json": "{\"v\":"} {
		text, err := k.ReadFile(name, anySize)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	k.put("dir.json/x.json", "1")
	for name, want := range map[string]codes.Code{
		"none.json": codes.NotFound, "../a.json": codes.BadName, "a.json/b.json": codes.NotFound, "dir.json": codes.NotFound,
	} {
		_, err := k.ReadFile(name, anySize)
		require.ErrorIs(t, err, want, name)
	}
}

func TestReadFileBeyondTheLimit(t *testing.T) {
	m := newMemKit(t, nil)
	m.cfg.MaxFileBytes = 100
	m.reopen()
	m.write("big.json", `"`+strings.Repeat("x", 100)+`"`, 1000)
	_, err := m.ReadFile("big.json", anySize)
	require.ErrorIs(t, err, codes.TooLarge)
}

// followed collects what Follow tells.
func (m *memKit) followed() (take func() []string) {
	var told []string
	m.Follow(func(now *snapshot.Snapshot, names []string) {
		for _, name := range names {
			state := "gone"
			if n := now.Node(name); n != nil && n.Known() {
				state = fmt.Sprintf("seq %d", n.Seq())
				if n.Deleted() {
					state += " deleted"
				}
				if n.Broken() != "" {
					state += " broken"
				}
			} else if m.Fault(name) != "" {
				state = "never good"
			}
			told = append(told, name+" "+state)
		}
	})
	return func() (out []string) {
		m.inside(func() { out, told = told, nil })
		return out
	}
}

func TestFollowTellsOfAllThatPeopleAreShown(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "heir.json": `{}`, "_meta.json": `{"conf_inherit":{"heir.json":"a.json"}}`})
	take := m.followed()
	start := m.Snapshot().Seq()
	seq := func(n int) string { return fmt.Sprintf("seq %d", start+uint64(n)) }

	m.mustSet("a.json", `2`)
	require.Equal(t, []string{"a.json " + seq(1), "heir.json " + seq(1)}, take())

	m.edit("a.json", `{`, 2000)
	require.Equal(t, []string{"a.json " + seq(1) + " broken"}, take())
	m.edit("a.json", `2`, 2000)
	require.Equal(t, []string{"a.json " + seq(1)}, take())

	m.edit("new.json", `{`, 2000)
	require.Equal(t, []string{"new.json never good"}, take())
	require.Len(t, m.Faults(), 1)
	require.Equal(t, "new.json", m.Faults()[0].Name)
	require.Contains(t, m.Faults()[0].Text, "is not valid JSON: line 1")
	m.remove("new.json")
	require.Equal(t, []string{"new.json gone"}, take())
	require.Empty(t, m.Faults())

	m.edit("new.json", `{`, 2000)
	m.edit("new.json", `{}`, 2000)
	require.Equal(t, []string{"new.json never good", "new.json " + seq(2)}, take())
	require.Empty(t, m.Faults())

	m.edit("other.json", `{`, 2000)
	take()
	m.mustSet("other.json", `{}`)
	require.Equal(t, []string{"other.json " + seq(3)}, take())
	require.Empty(t, m.Faults(), "healed by a write")

	_, err := m.set(SetRequest{Name: "new.json"})
	require.NoError(t, err)
	require.Equal(t, []string{"new.json " + seq(4) + " deleted"}, take())

	_, err = m.setAt("other.json", `{}`, m.mtime("other.json")+100)
	require.NoError(t, err)
	require.Equal(t, []string{"other.json " + seq(5)}, take(), "the same contents with a later version")
	m.quiet(take)
}

// quiet checks that reading everything again tells nothing.
func (m *memKit) quiet(take func() []string) {
	m.t.Helper()
	m.Reload()
	require.Empty(m.t, take())
}

// What a document's sequence is for: finding what a client has missed, also over a
// restart.
func TestSeqFindsWhatWasMissed(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "b.json": `1`, "heir.json": `{}`, "_meta.json": `{"conf_inherit":{}}`})
	missed := func(since uint64) (names []string) {
		for _, name := range m.Snapshot().Names() {
			if m.Snapshot().Node(name).Seq() > since {
				names = append(names, name)
			}
		}
		return names
	}
	at := []uint64{m.Snapshot().Seq()}
	require.Empty(t, missed(at[0]))
	set := func(name, text string) {
		m.mustSet(name, text)
		at = append(at, m.Snapshot().Seq())
	}
	set("b.json", `2`)
	require.Equal(t, []string{"b.json"}, missed(at[0]))
	set("_meta.json", `{"conf_inherit":{"heir.json":"a.json"}}`)
	require.Equal(t, []string{"_meta.json", "heir.json"}, missed(at[1]), "its bases are others now")
	set("a.json", `3`)
	require.Equal(t, []string{"a.json", "heir.json"}, missed(at[2]))
	m.reopen()
	require.Equal(t, []string{"a.json", "heir.json"}, missed(at[2]))
	require.Equal(t, []string{"_meta.json", "a.json", "heir.json"}, missed(at[1]))
	require.GreaterOrEqual(t, m.Snapshot().Seq(), at[3])
	m.remove("b.json")
	require.Equal(t, []string{"b.json"}, missed(at[3]), "deleted ones too")
}

func origins(n *snapshot.Node) map[string]string {
	list, _ := n.Origins()
	out := map[string]string{}
	for _, o := range list {
		out[o.Path] = o.Name
	}
	return out
}

func TestOrigins(t *testing.T) {
	files := map[string]string{
		"base.json": `{"a":1,"o":{"x":1,"y":{"z":1}},"list":[{"n":1}],"/~":0}`,
		"app.json":  `{"b":1,"o":{"x":2},"b":3}`,
		"no.json":   `[1]`,
	}
	for deep, want := range map[bool]map[string]string{
		false: {"/a": "base.json", "/b": "app.json", "/o": "app.json", "/o/x": "app.json", "/list": "base.json", "/~1~0": "base.json"},
		true:  {"/a": "base.json", "/b": "app.json", "/o": "app.json", "/o/x": "app.json", "/o/y/z": "base.json", "/list": "base.json", "/~1~0": "base.json"},
	} {
		merge := map[bool]string{false: "shallow", true: "deep"}[deep]
		files["_meta.json"] = `{"conf_inherit":{"app.json":"none.json no.json base.json","ghost.json":"base.json"},"inherit_options":{"*":{"merge":"` + merge + `"}}}`
		m := newMemKit(t, files)
		require.Equal(t, want, origins(m.Snapshot().Node("app.json")), merge)
		require.Equal(t, "base.json", origins(m.Snapshot().Node("ghost.json"))["/o/y/z"])
		require.Equal(t, map[string]string{"/a": "base.json", "/o": "base.json", "/o/x": "base.json", "/o/y/z": "base.json", "/list": "base.json", "/~1~0": "base.json"},
			origins(m.Snapshot().Node("base.json")), "without bases all is its own")
		require.Empty(t, origins(m.Snapshot().Node("no.json")))
	}
}

// An object that a value stood between is replaced, not merged.
func TestOriginsOfWhatWasReplaced(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"1.json": `{"o":{"x":1}}`, "2.json": `{"o":5}`, "3.json": `{"o":{"y":1}}`, "4.json": `{"o":{"w":1}}`,
		"_meta.json": `{"conf_inherit":{"4.json":"1.json 2.json 3.json"},"inherit_options":{"*":{"merge":"deep"}}}`,
	})
	require.Equal(t, `{"o":{"y":1,"w":1}}`, m.merged("4.json"))
	require.Equal(t, map[string]string{"/o": "4.json", "/o/y": "3.json", "/o/w": "4.json"}, origins(m.Snapshot().Node("4.json")))
}
