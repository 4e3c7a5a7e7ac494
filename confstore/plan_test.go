package confstore

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/memory"
)

// planned is a snapshot that edits lead to, without a store, a directory or a log.
func planned(t require.TestingT, prev *Snapshot, now time.Time, edits ...edit) *plan {
	p, err := planner{prev: prev, now: now}.plan(edits, false)
	require.NoError(t, err)
	return p.apply(testLimits)
}

var testLimits = &limits{inline: 1 << 20, index: 1 << 20, cache: newCache(memory.NewPool(1 << 30))}

func texted(name, text string, given int32) edit {
	e := edit{name: name, given: given}
	if text != "" {
		e.text = []byte(text)
	}
	return e
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

func drawEdits(rt *rapid.T, prev *Snapshot) []edit {
	var edits []edit
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames), 1, 3, rapid.ID[string]).Draw(rt, "names") {
		e := texted(name, drawText(rt, name), int32(noon.Unix())+int32(rapid.IntRange(-3, 3).Draw(rt, "given")))
		if n := prev.Node(name); n.live() && rapid.IntRange(0, 3).Draw(rt, "deleted") == 0 {
			e.text = nil
		}
		e.quiet = sameContents(prev.Node(name), e.text)
		if e.text == nil && !prev.Node(name).known() {
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
		memory := map[string]recalledDocument{}
		now := emptySnapshot()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			edits := drawEdits(rt, now)
			if len(edits) == 0 {
				continue
			}
			before := now.looks()
			out := planned(rt, now, noon, edits...)
			require.Equal(rt, before, now.looks(), "the snapshot before is as it was")
			checkOutcome(rt, out)
			for _, v := range out.change().Versions {
				d := memory[v.Name]
				d.Name, d.Seq, d.Served, d.Given, d.Deleted, d.text = v.Name, out.seq, v.Served, v.Given, v.Deleted, out.doc(v.Name).text
				memory[v.Name] = d
			}
			for _, l := range out.change().Lists {
				d := memory[l.Name]
				d.Floor, d.Bases = l.Floor, l.Digest
				memory[l.Name] = d
			}
			now = out.next
			again := recalled(slices.Collect(maps.Values(memory)), now.seq, testLimits)
			require.Equal(rt, again.looks(), now.looks())
			require.Equal(rt, again.names, now.names)
			require.Equal(rt, again.seq, now.seq)
			p, err := planner{prev: again, now: noon}.plan(nil, true)
			require.NoError(rt, err)
			require.True(rt, ptr(p.change()).Empty(), "a start finds nothing to do")
		}
	})
}

func ptr[T any](v T) *T { return &v }

func checkOutcome(t require.TestingT, out *plan) {
	prev, next := out.prev, out.next
	told := map[string]Change{}
	for i, c := range out.changes {
		told[c.Name] = c
		require.Same(t, next.nodeOr(c.Node), c.Node)
		require.Same(t, prev.Node(c.Name), c.Prev)
		for _, base := range c.Bases {
			at := slices.IndexFunc(out.changes, func(o Change) bool { return o.Name == base })
			if at > i && !slices.Contains(out.changes[at].Node.Bases(), c.Name) { // circles are cut anywhere
				require.Less(t, at, i, "%s before %s, which inherits it", base, c.Name)
			}
		}
	}
	for _, e := range out.edits {
		require.Equal(t, !e.quiet, told[e.name].Own, e.name)
		if !e.quiet {
			require.Greater(t, next.Node(e.name).Mtime(false), prev.highestOf(e.name))
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
			if !slices.Contains(out.names, name) {
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
	start := planned(t, emptySnapshot(), noon,
		texted("_meta.json", `{"conf_inherit":{"heir.json":"base.json"}}`, 1000), texted("base.json", `{"b":1}`, 1000), texted("heir.json", `{}`, 1000)).next
	one := planned(t, start, noon, texted("base.json", `{"b":2}`, 1000))
	two := planned(t, one.next, noon, texted("heir.json", `{"h":1}`, 1000))
	require.Equal(t, start.seq+2, two.next.seq)
	require.Greater(t, two.next.Node("heir.json").Mtime(false), one.next.Node("heir.json").Mtime(true))
	require.Equal(t, `{"b":2,"h":1}`, textOf(two.next.Node("heir.json"), true))
	require.Equal(t, `{"b":1}`, textOf(start.Node("heir.json"), true), "nobody has seen any of it")
}

func TestJudge(t *testing.T) {
	ago, at := int32(noon.Unix())-100, int32(noon.Unix())
	there := reading{name: "a.json", raw: log.DigestOf([]byte("{\"v\": 1}\n"))}
	a := texted("a.json", `{"v":1}`, ago)
	a.hash = there.raw
	prev := planned(t, emptySnapshot(), noon, a, texted("gone.json", `1`, ago)).next
	prev = planned(t, prev, noon, texted("gone.json", "", ago)).next
	full := codes.Errorf(codes.Limit, "full")
	slip := reading{fault: "broken", raw: log.DigestOf([]byte("{"))}
	missing := reading{missing: true}
	set := func(name, text string) SetRequest {
		req := SetRequest{Name: name}
		if text != "" {
			req.Contents = []byte(text)
		}
		return req
	}
	with := func(req SetRequest, change func(*SetRequest)) SetRequest {
		change(&req)
		return req
	}
	mtime := func(v int32) func(*SetRequest) {
		return func(r *SetRequest) { r.Mtime, r.HasMtime = v, true }
	}
	ifMtime := func(v int32) func(*SetRequest) {
		return func(r *SetRequest) { r.IfMtime, r.HasIfMtime = v, true }
	}
	for name, row := range map[string]struct {
		req  SetRequest
		file reading
		full error
		code codes.Code // 0: accepted
		does string     // write, confirm or nothing
	}{
		"new contents":                  {req: set("a.json", `{"v":2}`), file: there, does: "write"},
		"a new file":                    {req: set("b.json", `1`), file: missing, does: "write"},
		"a new file, no room":           {req: set("b.json", `1`), file: missing, full: full, code: codes.Limit},
		"the same":                      {req: set("a.json", `{ "v":1}`), file: there, does: "nothing"},
		"the same, later":               {req: with(set("a.json", `{"v":1}`), mtime(at)), file: there, does: "confirm"},
		"the same, same time":           {req: with(set("a.json", `{"v":1}`), mtime(ago)), file: there, does: "nothing"},
		"the same, the file is broken":  {req: set("a.json", `{"v":1}`), file: slip, does: "write"},
		"the same, it cannot be read":   {req: set("a.json", `{"v":1}`), file: reading{fault: "broken"}, code: codes.Conflict},
		"a delete, it cannot be read":   {req: set("a.json", ""), file: reading{fault: "broken"}, code: codes.Conflict},
		"the version of a broken one":   {req: with(set("a.json", `1`), ifMtime(ago)), file: slip, code: codes.Conflict},
		"none, and it was never good":   {req: with(set("b.json", `1`), ifMtime(0)), file: slip, code: codes.Conflict},
		"a broken one that is known":    {req: with(set("a.json", `1`), func(r *SetRequest) { r.Base = &slip.raw }), file: slip, does: "write"},
		"the same, the file is missing": {req: set("a.json", `{"v":1}`), file: missing, does: "write"},
		"the same to the byte":          {req: with(set("a.json", "{\"v\": 1}\n"), func(r *SetRequest) { r.Exact = true }), file: there, does: "nothing"},
		"other blanks":                  {req: with(set("a.json", "{\"v\":  1}"), func(r *SetRequest) { r.Exact = true }), file: there, does: "write"},
		"a delete":                      {req: set("a.json", ""), file: there, does: "write"},
		"a delete of nothing":           {req: set("b.json", ""), file: missing, does: "nothing"},
		"a delete of a file never good": {req: set("b.json", ""), file: slip, does: "write"},
		"a delete again":                {req: set("gone.json", ""), file: missing, does: "nothing"},
		"a name that is a directory":    {req: set("a.json", `1`), file: reading{missing: true, isDir: true}, code: codes.BadName},
		"the version it has":            {req: with(set("a.json", `1`), ifMtime(ago)), file: there, does: "write"},
		"a version it has not":          {req: with(set("a.json", `1`), ifMtime(ago-1)), file: there, code: codes.Conflict},
		"none, and there is none":       {req: with(set("gone.json", `1`), ifMtime(0)), file: missing, does: "write"},
		"none, but there is one":        {req: with(set("a.json", `1`), ifMtime(0)), file: there, code: codes.Conflict},
		"older":                         {req: with(set("a.json", `1`), mtime(ago-1)), file: there, code: codes.Older},
		"as old":                        {req: with(set("a.json", `1`), mtime(ago)), file: there, does: "write"},
		"tomorrow":                      {req: with(set("a.json", `1`), mtime(at+24*3600)), file: there, does: "write"},
		"later than tomorrow":           {req: with(set("a.json", `1`), mtime(at+24*3600+1)), file: there, code: codes.BadRequest},
		"beyond all mtimes":             {req: with(set("a.json", `1`), mtime(maxGiven+1)), file: there, code: codes.BadRequest},
		"conflict goes before older":    {req: with(with(set("a.json", `1`), mtime(1)), ifMtime(1)), file: there, code: codes.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := requestText(&row.req, 1<<20, nil)
			require.NoError(t, err)
			v, err := planner{prev: prev, now: noon}.judge(&row.req, text, row.file, row.full)
			if row.code != 0 {
				require.ErrorIs(t, err, row.code)
				if n := prev.Node(row.req.Name); n.known() {
					require.Equal(t, n.Mtime(false), v.mtime, "what is stored is told")
				}
				return
			}
			require.NoError(t, err)
			does := "confirm"
			if v.nothing {
				does = "nothing"
			} else if v.write {
				does = "write"
			}
			require.Equal(t, row.does, does)
		})
	}
}
