package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/op"
	"confcenter/op/sampletest"
	"confcenter/protocol"
)

const root = "../../.."

// After a change of a table, run go generate.
func TestWhatFollowsFromTheTablesIsCurrent(t *testing.T) {
	files, err := generate(root, models)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s: run go generate ./internal/generate/...", name)
	}
}

// An operation's name is a verb, a command and a method; its route is one of a kind.
func TestTablesAreSound(t *testing.T) {
	for _, m := range models {
		require.LessOrEqual(t, len(m.Operations), 0x80, "ids of one family")
		seen := map[string]bool{}
		for i, o := range m.Operations {
			r := row(&m, i)
			for _, name := range []string{o.Name, o.Route, r.Name, goName(o.Name)} {
				require.False(t, seen[name], "%s %s is there twice", m.Name, name)
				seen[name] = true
			}
			require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, o.Name)
			require.Regexp(t, `^(GET|POST) [a-z/-]+$`, o.Route)
			require.Contains(t, rights, o.Right, o.Name)
			require.False(t, o.Writes() && strings.HasPrefix(o.Route, "GET "), "%s %s: what browsers do by themselves must not write", m.Name, o.Name)
			require.Regexp(t, `^[a-z].*[^.]$`, o.Doc, o.Name)
			for _, member := range op.MembersOf(o.Answer()) {
				require.NotContains(t, []string{"code", "desc", "retry_after"}, member.Name, "%s: these say how it went", o.Name)
			}
		}
	}
}

// Every member says what it is: all documents show that.
func TestMembersAreDocumented(t *testing.T) {
	for i := range models {
		m := &models[i]
		types := objectsOf(m)
		for k := range m.Operations {
			types = append(types, m.Operations[k].Question(), m.Operations[k].Answer())
		}
		for _, of := range types {
			for _, member := range op.MembersOf(of) {
				require.Regexp(t, `^[A-Za-z][A-Za-z0-9_]*$`, member.Name, of)
				require.NotEmpty(t, member.Doc, "%v.%s", of, member.Name)
			}
		}
	}
}

var sample = []op.Model{sampletest.Model(nil)}

func TestOperationsKeepTheirIDs(t *testing.T) {
	text, err := rows(nil, sample)
	require.NoError(t, err)
	require.Contains(t, string(text), `{ID: 0x0400, Name: "FLADDUP", Role: Served, MaxBody: MaxBody, Right: access.FlowWrite, Request: "name, by, tags, token", Response: "code, name, n"},`)
	again, err := rows(text, sample)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	moved := sample[0]
	moved.Operations = []op.Operation{moved.Operations[1], moved.Operations[0]}
	_, err = rows(text, []op.Model{moved})
	require.ErrorContains(t, err, `command 0x0400 was FLADDUP and would be "FLLIST"`)
	moved.Operations = sample[0].Operations[:1]
	_, err = rows(text, []op.Model{moved})
	require.ErrorContains(t, err, `command 0x0401 was FLLIST and would be ""`)
}

func TestThePageOfAModel(t *testing.T) {
	text := string(reference(&sample[0]))
	for _, want := range []string{
		"# Flow: its commands\n", "\n| id | name |", "\n## FLADDUP 0x0400\n\nCounts what there is.\n\n| request | type | |\n", "| `tags` | array of string | what it is like |\n",
		"| `sums` | array of Sum | a line for each |\n", "\n## Objects\n\n| **Sum** | type | |\n|---|---|---|\n| `name` | string | what is counted |\n",
		"| 0x0401 | FLLIST | served | 4 MiB | – | flow:read | – | long, names, deep, far | code, sums, by, far |\n",
	} {
		require.Contains(t, text, want)
	}
}

// The author of a client finds in both documents what it has to expect.
func TestRefusalsAreDocumented(t *testing.T) {
	refusing := sample[0]
	refusing.Operations = []op.Operation{refusing.Operations[0].Refuses(codes.Conflict, "somebody else counts").Refuses(codes.TokenReused, "it is taken").Refuses(codes.Older, "it is old")}
	require.Contains(t, string(reference(&refusing)), "\n| refused with | when |\n|---|---|\n| 412 conflict | somebody else counts |\n| 1019 token_reused | it is taken |\n| 409 older | it is old |\n")
	document, err := openapi([]byte(`{"paths":{},"components":{"schemas":{}}}`), []op.Model{refusing})
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Description string }
		}
	}
	require.NoError(t, json.Unmarshal(document, &doc))
	responses := doc.Paths["/v1/flow/add"]["post"].Responses
	require.Equal(t, "conflict: somebody else counts", responses["412"].Description)
	require.Equal(t, "token_reused: it is taken; or older: it is old", responses["409"].Description)
}

func TestThePartOfTheOpenAPIDocument(t *testing.T) {
	old := `{"paths":{"/v1/flow/gone":{},"/v1/status":{"get":{}}},"components":{"schemas":{"flow.Gone":{},"Error":{}}},"tags":[]}`
	text, err := openapi([]byte(old), sample)
	require.NoError(t, err)
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Len(t, doc.Paths, 3)
	require.Contains(t, doc.Paths["/v1/flow/add"], "post")
	require.Contains(t, string(doc.Paths["/v1/flow/sums"]["get"]), "#/components/schemas/flow.Sum")
	require.Len(t, doc.Components.Schemas, 2)
	again, err := openapi(text, sample)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
}

func TestWhatTheTestsOfAModelAsk(t *testing.T) {
	text, err := asked(&sample[0])
	require.NoError(t, err)
	for _, want := range []string{
		"package sampletest_test\n", "\tAdd(context.Context, *access.Actor, *sampletest.AddAsk) (*sampletest.Sum, error)\n",
		"func (w wire) Add(ctx context.Context, _ *access.Actor, q *sampletest.AddAsk) (*sampletest.Sum, error) {\n\treturn w.FlowCalls.AddUp(ctx, q)\n}\n",
	} {
		require.Contains(t, string(text), want)
	}
}

func TestMethodsOfTheGoClient(t *testing.T) {
	text, err := calls(nil, sample)
	require.NoError(t, err)
	require.Contains(t, string(text), `
// AddUp counts what there is.
func (c *FlowCalls) AddUp(ctx context.Context, q *sampletest.AddAsk) (*sampletest.Sum, error) {
	return call[sampletest.AddAsk, sampletest.Sum](ctx, c.c, 0x0400, true, q)
}
`)
	require.Equal(t, protocol.Command(0x0400), protocol.OfModel("flow", 0))
}

// An operation on keys has a section, a method and a part of a transaction, unless they are written by hand.
func TestWhatFollowsFromTheRowsOfOperationsOnKeys(t *testing.T) {
	page := string(kvPage(nil))
	for _, want := range []string{
		"| `incr` | adds to an int | `ns`, `key`, `by`, `initial`, `min`, `max`, `ttl`, `expires`, `lease`, `prev` | the entry that is left |\n",
		"\n## KVINCR 0x010A\n\nAdds to an int.\n", "`confcenter kv incr NS KEY`, and in Go `KV.Incr` and `Txn.Incr`",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, string(kvPage([]byte("\n### KVINCR 0x010A\n"))), "## KVINCR")
	text, err := kvCalls(nil)
	require.NoError(t, err)
	require.Contains(t, string(text), `
// Incr adds to an int.
func (s *KV) Incr(ctx context.Context, key string, by int64, opts ...Option) (Written, error) {
	return s.write(ctx, kv.Op{Kind: kv.OpIncr, Key: key, Delta: by}, nil, opts)
}
`)
	text, err = kvCalls([]byte("func (s *KV) Incr(ctx"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "(s *KV) Incr(")
	require.Contains(t, string(text), "(t *Txn) Incr(")
}
