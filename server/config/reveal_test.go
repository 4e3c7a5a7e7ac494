package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

// revealed is what GETCONFIG answers to a caller with these rights, of documents with sealed values.
func revealed(t *testing.T, rights *guard.Caller, request string) string {
	pw := func(origin, value string) string {
		return guardtest.Sealed(t, "config:"+origin, `{"$seal":`+value+`}`)
	}
	s := newDocKit(t, map[string]string{
		"base.json":  `{"pw":` + pw("base.json", `"of base"`) + `,"login":` + pw("base.json", `{"user":"root","n":[7]}`) + `}`,
		"heir.json":  `{"own":` + pw("heir.json", `"of heir"`) + `}`,
		"copy.json":  `{"stolen":` + pw("base.json", `"of base"`) + `}`,
		"plain.json": `{"a":1}`,
		"long.json":  `{"long":"` + strings.Repeat("x", 300<<10) + `","pw":` + pw("base.json", `"of base"`) + `}`,
		"_meta.json": `{"conf_inherit":{"heir.json":"base.json"}}`,
	})
	s.Bench.Ring, s.Rights = guardtest.Ring(), rights
	s.Receive(gatetest.Requests(protocol.GetConfig, request, protocol.GetConfig, request))
	for s.Bench.Group.Jobs() > 0 {
		s.Bench.Group.DoJob(0)
		gatetest.Sweep(s.Bench.Local)
	}
	got := gatetest.Frames(t, s.w)
	require.Len(t, got, 2)
	require.Equal(t, got[0][strings.Index(got[0], "{"):], got[1][strings.Index(got[1], "{"):])
	return got[0]
}

func TestSealedValuesAreRevealedToThoseWhoMayKnowThem(t *testing.T) {
	const heir = `{"file_pattern":"heir.json","incbase":1}`
	for _, c := range []struct {
		rules, request string
		says, hides    []string
	}{
		{"read config", heir, nil, []string{"of base", "of heir", "root"}},
		{"read config,reveal config:heir.json", heir, []string{"of heir"}, []string{"of base", "root"}},
		{"read config,reveal config:base.json", heir, []string{"of base", `{"user":"root","n":[7]}`}, []string{"of heir"}},
		{"read config:heir.json,reveal config", heir, []string{"of base", "of heir", "root"}, []string{"$secret"}},
		{"read config,reveal config:copy.json", `{"file_pattern":"copy"}`, nil, []string{"of base"}},
		{"read config,reveal config:base.json", `{"file_pattern":"copy"}`, []string{`{"stolen":"of base"}`}, nil},
		{"read config,reveal config", `{"file_pattern":"heir.json","incbase":1,"marks":1}`, []string{"$secret"}, []string{"of base", "of heir", "root"}},
		{"read config,reveal config", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/pw"}`, []string{`"contents":"of base"`}, nil},
		{"read config,reveal config", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/login/n/0"}`, []string{`"contents":7`}, nil},
		{"read config,reveal config", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/login/n/1"}`, []string{`"contents":null`}, nil},
		{"read config,reveal config:heir.json", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/login/n/0"}`, []string{`"contents":null`}, nil},
		{"read config", `{"file_pattern":"heir.json","incbase":1,"key_pattern":"/pw"}`, []string{"$secret"}, []string{"of base"}},
		{"read config,reveal config", `{"file_pattern":"long.json"}`, []string{`"pw":"of base"}}`}, nil},
		{"read config", `{"file_pattern":"long.json"}`, []string{"$secret"}, []string{"of base"}},
		{"reveal config", heir, []string{`"code":1025`}, []string{"of base", "$secret"}},
	} {
		got := revealed(t, guardtest.Caller(t, strings.Split(c.rules, ",")...), c.request)
		what := fmt.Sprintf("%s with %s", c.request, c.rules)
		for _, text := range c.says {
			require.Contains(t, got, text, what)
		}
		for _, text := range c.hides {
			require.NotContains(t, got, text, what)
		}
	}
	require.Contains(t, revealed(t, nil, heir), `{"pw":"of base","login":{"user":"root","n":[7]},"own":"of heir"}`, "there is no access control")
}

// An answer that is kept for others must be no one's.
func TestNoRevealedAnswerIsKept(t *testing.T) {
	s := newDocKit(t, map[string]string{"a.json": guardtest.Sealed(t, "config:a.json", `{"pw":{"$seal":"hunter2"}}`)})
	s.Bench.Ring = guardtest.Ring()
	ask := func(rights *guard.Caller, body string) string {
		s.Rights = rights
		s.w.Got.Reset()
		s.Receive(protocol.AppendFrame(nil, protocol.GetConfig, 1, []byte(body)))
		return s.w.Got.String()
	}
	reader := guardtest.Caller(t, "read config")
	for range 2 {
		require.NotContains(t, ask(reader, `{"file_pattern":"a"}`), "hunter2")
		require.Contains(t, ask(nil, `{"file_pattern":"a"}`), "hunter2")
		require.NotContains(t, ask(nil, `{"file_pattern":"a","marks":true}`), "hunter2")
	}
	require.Nil(t, s.store.Snapshot().Node("a.json").Answer(false, []byte(`"a"`)))
}
