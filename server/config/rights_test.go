package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access/guard"
	"confcenter/access/guard/guardtest"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

var family = map[string]string{
	"game.json": `{"a":1}`, "base.json": `{"b":2}`, "secret.json": `{"c":3}`,
	"_meta.json": `{"conf_inherit":{"game.json":"base.json secret.json"}}`,
}

func answersWith(t *testing.T, rights *guard.Caller, requests ...any) []string {
	return answersOf(t, newDocKit(t, family), rights, requests...)
}

func answersOf(t *testing.T, s *docKit, rights *guard.Caller, requests ...any) []string {
	s.Rights = rights
	s.Receive(gatetest.Requests(requests...))
	for s.Bench.Group.Jobs() > 0 {
		s.Bench.Group.DoJob(0)
		gatetest.Sweep(s.Bench.Local)
	}
	return gatetest.Frames(t, s.w)
}

func TestEachCommandNeedsTheRightsToTheDocumentsThatItNames(t *testing.T) {
	for _, c := range []struct {
		cmd          protocol.Command
		body, rights string
	}{
		{protocol.GetConfig, `{"file_pattern":"game.json","incbase":1}`, "read config:game.json"},
		{protocol.GetConfig, `{"file_pattern":"game","key_pattern":"/a"}`, "read config:game.json"},
		{protocol.GetConfig, `{"file_pattern":"game.json","gt_mtime":1}`, "read config:game.json"},
		{protocol.GetConfig, `{"file_pattern":"none"}`, "read config:none.json"},
		{protocol.SetConfig, `{"filename":"game","contents":{}}`, "write config:game.json,read config:game.json"},
		{protocol.SetConfig, `{"filename":"game.json"}`, "delete config:game.json,read config:game.json"},
		{protocol.SetConfig, `{"filename":"_meta.json","contents":{}}`, "write config:_meta.json,read config:_meta.json"},
		{protocol.BookCfgChange, `{"file_pattern":"game"}`, "watch config:game.json,read config:game.json"},
		{protocol.BookCfgChange, `{"file_pattern":"none.json","missing_ok":true}`, "watch config:none.json,read config:none.json"},
		{protocol.GetCfgName, `{}`, "read config:game.json"},
	} {
		what := c.cmd.String() + " " + c.body
		rights := strings.Split(c.rights, ",")
		forbidden := func(rights *guard.Caller) bool {
			k := newDocKit(t, family)
			answers := answersOf(t, k, rights, c.cmd, c.body, c.cmd, c.body)
			require.NotEmpty(t, answers, what)
			refused := slices.DeleteFunc(slices.Clone(answers), func(a string) bool { return !strings.Contains(a, `"code":1025`) })
			require.Len(t, k.Noted(), len(refused), "the audit knows of each refusal: "+what)
			return strings.Contains(answers[0], `"code":1025`)
		}
		if !strings.HasPrefix(c.body, `{"filename"`) { // which wait for the disk
			require.False(t, forbidden(guardtest.Caller(t, rights...)), "%s with %s", what, c.rights)
		}
		require.True(t, forbidden(new(guard.Caller)), what)
		if c.cmd == protocol.GetCfgName {
			continue // any right to read is enough: see below
		}
		for i, without := range rights {
			rest := append([]string{"* config", "-" + without}, append(append([]string{}, rights[:i]...), rights[i+1:]...)...)
			require.True(t, forbidden(guardtest.Caller(t, rest...)), "%s without %s", what, without)
		}
	}
}

// A client that may read a resolved document gets what its bases say, but not their names.
func TestOnlyNamesAreToldThatMayBeRead(t *testing.T) {
	rights := guardtest.Caller(t, "* config", "-read config:secret.json")
	got := answersWith(t, rights,
		protocol.GetConfig, `{"file_pattern":"game.json","incbase":1}`,
		protocol.BookCfgChange, `{"file_pattern":"game.json","incbase":1}`,
		protocol.GetCfgName, `{}`,
		protocol.GetCfgName, `{"detail":true}`)
	require.Len(t, got, 4)
	require.Contains(t, got[0], `"contents":{"b":2,"c":3,"a":1}`)
	require.Contains(t, got[1], "monitor base.json game.json")
	for _, list := range got[2:] {
		require.Contains(t, list, `"base.json"`)
		require.Contains(t, list, `"game.json"`)
	}
	for _, answer := range got {
		require.NotContains(t, answer, "secret")
	}
}

// Whether a document exists makes no difference to a refusal.
func TestARefusalDoesNotTellWhetherTheDocumentExists(t *testing.T) {
	rights := guardtest.Caller(t, "* config:game.json")
	for _, request := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.GetConfig, `{"file_pattern":"NAME"}`}, {protocol.GetConfig, `{"file_pattern":"NAME","gt_mtime":5,"incbase":1}`},
		{protocol.BookCfgChange, `{"file_pattern":"NAME"}`}, {protocol.SetConfig, `{"filename":"NAME","contents":{},"if_mtime":1}`},
	} {
		there := answersWith(t, rights, request.cmd, strings.ReplaceAll(request.body, "NAME", "base.json"))
		none := answersWith(t, rights, request.cmd, strings.ReplaceAll(request.body, "NAME", "none.json"))
		require.Len(t, there, 1)
		require.Contains(t, there[0], `"code":1025`)
		require.Equal(t, strings.ReplaceAll(there[0], "base.json", "none.json"), none[0])
	}
}

// A changed base is pushed under its own name only to those who may read it. Others are told of
// their own document, also where CppCloud's pushes have the base's name alone.
func TestAPushNamesNoBaseThatMayNotBeRead(t *testing.T) {
	files := map[string]string{"a.json": `{"n":1}`, "heir.json": `{"h":1}`, "_meta.json": `{"conf_inherit":{"heir.json":"a.json"}}`}
	for _, exact := range []bool{false, true} {
		for _, c := range []struct {
			rule  string
			names []string
		}{
			{"-read config:a.json", []string{"heir.json"}},
			{"-read config:other.json", map[bool][]string{false: {"a.json", "heir.json"}, true: {"a.json"}}[exact]},
		} {
			s := newDocKit(t, files)
			s.docs.cfg.FrameExact = exact
			s.Rights = guardtest.Caller(t, "* config", c.rule)
			require.Contains(t, book(s, `{"file_pattern":"heir.json","incbase":1}`), `"code":0`)
			s.w.Got.Reset()
			s.post(change(t, s, `{"n":2}`))
			s.Loop.Wake()
			var told []string
			for _, name := range []string{"a.json", "heir.json"} {
				if strings.Contains(s.w.Got.String(), `"filename":"`+name+`"`) {
					told = append(told, name)
				}
			}
			require.Equal(t, c.names, told, "%t %s", exact, c.rule)
		}
	}
}
