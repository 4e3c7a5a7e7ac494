package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/memory"
)

// noon is when the tests play.
var noon = time.Unix(1_700_000_000, 0)

// planned is a plan without a store, a directory or a log.
func planned(t require.TestingT, prev *Snapshot, edits ...Edit) *Plan {
	return plannedIn(t, testLimits, prev, edits...)
}

func plannedIn(t require.TestingT, limits *Limits, prev *Snapshot, edits ...Edit) *Plan {
	p := planner(prev)
	p.Limits = limits
	out, err := p.Plan(edits, false)
	require.NoError(t, err)
	return out
}

func planner(prev *Snapshot) Planner {
	return Planner{Prev: prev, Now: noon, Limits: testLimits, Fault: func(string) string { return "" }}
}

var testLimits = NewLimits(1<<20, 1<<20, memory.NewPool(1<<30))

func texted(name, text string, given int32) Edit {
	e := Edit{Name: name, Given: given}
	if text != "" {
		e.Text = []byte(text)
	}
	return e
}

func textOf(n *Node, inherit bool) string {
	text, ready := n.Contents(inherit)
	if !ready {
		n.Prepare(inherit, false)
		text, _ = n.Contents(inherit)
	}
	return string(text)
}

// metas are what _meta.json can be.
var metas = []string{
	`{}`,
	`{"conf_inherit":{"c.json":"a.json b.json"}}`,
	`{"conf_inherit":{"c.json":"a.json","d/e.json":"c.json a.json"}}`,
	`{"conf_inherit":{"c.json":"a.json","d/e.json":"c.json"},"inherit_options":{"*":{"chain":true,"merge":"deep"}}}`,
}

func drawText(rt *rapid.T, name string) string {
	if name == "_meta.json" {
		return rapid.SampledFrom(metas).Draw(rt, "meta")
	}
	return fmt.Sprintf(`{"v":%d}`, rapid.IntRange(0, 3).Draw(rt, "v"))
}

// looks is all that a snapshot says of its documents.
func (s *Snapshot) looks() map[string]string {
	out := map[string]string{}
	for _, shard := range s.shards {
		for name, n := range shard {
			text, _ := n.Contents(true)
			out[name] = fmt.Sprint(n.Known(), n.Deleted(), textOf(n, false), " ", string(text), n.Mtime(false), n.Mtime(true), n.GivenMtime(),
				n.bases, n.partNames, n.listed, n.listed && n.deep, n.list, n.floor, n.Broken())
		}
	}
	return out
}

func drawEdits(rt *rapid.T, prev *Snapshot) []Edit {
	var edits []Edit
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a.json", "b.json", "c.json", "d/e.json", "_meta.json"}), 1, 3, rapid.ID[string]).Draw(rt, "names") {
		e := texted(name, drawText(rt, name), int32(noon.Unix())+int32(rapid.IntRange(-3, 3).Draw(rt, "given")))
		if n := prev.Node(name); n.Live() && rapid.IntRange(0, 3).Draw(rt, "deleted") == 0 {
			e.Text = nil
		}
		e.Quiet = SameContents(prev.Node(name), e.Text)
		if e.Text == nil && !prev.Node(name).Known() {
			continue
		}
		edits = append(edits, e)
	}
	return edits
}

// TestPlansAreWhatAStartWouldMake: step by step a plan changes only the nodes it has
// to, and what comes of it is what is made of what the log knows at once. Versions rise
// for all whom a change concerns, and nothing that others read is touched.
func TestPlansAreWhatAStartWouldMake(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		memory := map[string]Recalled{}
		now := Empty()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			edits := drawEdits(rt, now)
			if len(edits) == 0 {
				continue
			}
			before := now.looks()
			out := planned(rt, now, edits...)
			require.Equal(rt, before, now.looks(), "the snapshot before is as it was")
			checkOutcome(rt, out)
			for _, v := range out.Change().Versions {
				d := memory[v.Name]
				d.Name, d.Seq, d.Served, d.Given, d.Deleted, d.Text = v.Name, out.seq, v.Served, v.Given, v.Deleted, out.doc(v.Name).text
				memory[v.Name] = d
			}
			for _, l := range out.Change().Lists {
				d := memory[l.Name]
				d.Floor, d.Bases = l.Floor, l.Digest
				memory[l.Name] = d
			}
			now = out.Next
			again := Recall(slices.Collect(maps.Values(memory)), now.seq, testLimits)
			require.Equal(rt, again.looks(), now.looks())
			require.Equal(rt, again.names, now.names)
			require.Equal(rt, again.seq, now.seq)
			p, err := planner(again).Plan(nil, true)
			require.NoError(rt, err)
			require.True(rt, ptr(p.Change()).Empty(), "a start finds nothing to do")
		}
	})
}

func ptr[T any](v T) *T { return &v }

func checkOutcome(t require.TestingT, out *Plan) {
	prev, next := out.Prev, out.Next
	told := map[string]Change{}
	for i, c := range out.Changes {
		told[c.Name] = c
		require.Same(t, next.nodeOr(c.Node), c.Node)
		require.Same(t, prev.Node(c.Name), c.Prev)
		for _, base := range c.Bases {
			at := slices.IndexFunc(out.Changes, func(o Change) bool { return o.Name == base })
			if at > i && !slices.Contains(out.Changes[at].Node.Bases(), c.Name) { // circles are cut anywhere
				require.Less(t, at, i, "%s before %s, which inherits it", base, c.Name)
			}
		}
	}
	for _, e := range out.Edits {
		require.Equal(t, !e.Quiet, told[e.Name].Own, e.Name)
		if !e.Quiet {
			require.Greater(t, next.Node(e.Name).Mtime(false), prev.highestOf(e.Name))
		}
	}
	for _, shard := range next.shards {
		for name, n := range shard {
			was := prev.Node(name)
			c, changed := told[name]
			switch {
			case was == nil || !was.Known():
			case changed && (c.Own || len(c.Bases) > 0 || c.BasesListChanged):
				require.Greater(t, n.Mtime(true), was.Mtime(true), "%s has changed", name)
			default:
				require.GreaterOrEqual(t, n.Mtime(true), was.Mtime(true))
			}
			if !slices.Contains(out.Names, name) {
				require.Same(t, was, n, "%s is shared", name)
			}
		}
	}
}

// nodeOr is the node that is served for n's name, n itself if there is none any more.
func (s *Snapshot) nodeOr(n *Node) *Node {
	if now := s.Node(n.name); now != nil {
		return now
	}
	return n
}

func (s *Snapshot) highestOf(name string) int32 {
	if n := s.Node(name); n != nil {
		return n.Mtime(true)
	}
	return 0
}

// TestPlansStack: writes that are planned one on the other come to the same as writes
// that are planned when the one before is carried out.
func TestPlansStack(t *testing.T) {
	start := planned(t, Empty(),
		texted("_meta.json", `{"conf_inherit":{"heir.json":"base.json"}}`, 1000), texted("base.json", `{"b":1}`, 1000), texted("heir.json", `{}`, 1000)).Next
	one := planned(t, start, texted("base.json", `{"b":2}`, 1000))
	two := planned(t, one.Next, texted("heir.json", `{"h":1}`, 1000))
	require.Equal(t, start.seq+2, two.Next.seq)
	require.Greater(t, two.Next.Node("heir.json").Mtime(false), one.Next.Node("heir.json").Mtime(true))
	require.Equal(t, `{"b":2,"h":1}`, textOf(two.Next.Node("heir.json"), true))
	require.Equal(t, `{"b":1}`, textOf(start.Node("heir.json"), true), "no one has seen any of it")
}
