package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/memory"
)

func TestJudge(t *testing.T) {
	ago, at := int32(noon.Unix())-100, int32(noon.Unix())
	there := reading{name: "a.json", raw: log.DigestOf([]byte("{\"v\": 1}\n"))}
	planned := func(prev *snapshot.Snapshot, edits ...snapshot.Edit) *snapshot.Plan {
		limits := snapshot.NewLimits(1<<20, 1<<20, memory.NewPool(1<<30))
		p, err := snapshot.Planner{Prev: prev, Now: noon, Limits: limits, Fault: func(string) string { return "" }}.Plan(edits, false)
		require.NoError(t, err)
		return p
	}
	texted := func(name, text string, given int32) snapshot.Edit {
		e := snapshot.Edit{Name: name, Given: given}
		if text != "" {
			e.Text = []byte(text)
		}
		return e
	}
	a := texted("a.json", `{"v":1}`, ago)
	a.Hash = there.raw
	prev := planned(snapshot.Empty(), a, texted("gone.json", `1`, ago)).Next
	prev = planned(prev, texted("gone.json", "", ago)).Next
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
		"beyond all mtimes":             {req: with(set("a.json", `1`), mtime(snapshot.MaxGiven+1)), file: there, code: codes.BadRequest},
		"conflict goes before older":    {req: with(with(set("a.json", `1`), mtime(1)), ifMtime(1)), file: there, code: codes.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := requestText(&row.req, 1<<20, nil)
			require.NoError(t, err)
			v, err := planner{snapshot.Planner{Prev: prev, Now: noon}}.judge(&row.req, text, row.file, row.full)
			if row.code != 0 {
				require.ErrorIs(t, err, row.code)
				if n := prev.Node(row.req.Name); n.Known() {
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
