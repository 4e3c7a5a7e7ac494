package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	. "confcenter/access/policy"
	"confcenter/codes"
)

const limited = `{"quotas": [
	{"name": "games", "who": ["token:game-*", "group:games"], "connections": 10, "requests": 2000, "bytes": 1000000, "watches": 5, "leases": 3},
	{"who": ["token:game-1"], "requests": 100, "connections": 20},
	{"what": ["kv:match", "kv:m%2Fn"], "keys": 1000, "size": 5000},
	{"what": ["kv:ma*"], "keys": 500, "requests": 9, "bytes": 8, "watches": 7, "leases": 6},
	{"what": ["kv"], "keys": 100000}
]}`

func TestTheLeastOfSeveralQuotasCounts(t *testing.T) {
	p := New(role(t, limited))
	q := p.Quota(&access.Identity{Name: "token:game-1"})
	require.Equal(t, [Limits]int64{10, 100, 1000000, 5, 3}, q.Most)
	require.Equal(t, `fleet, quota 1 "games"`, q.By[Connections])
	require.Equal(t, "fleet, quota 2", q.By[Requests])
	require.Equal(t, int64(2000), p.Quota(&access.Identity{Name: "token:x", Groups: []string{"games"}}).Most[Requests])
	require.Nil(t, p.Quota(&access.Identity{Name: "token:x"}))
	require.Nil(t, p.Quota(&access.Identity{Name: "token:game-1", Groups: []string{Administrators}}))
	for ns, want := range map[string][Limits]int64{
		"match": {Requests: 9, Bytes: 8, Watches: 7, Leases: 6, Keys: 500, Size: 5000},
		"m/n":   {Keys: 1000, Size: 5000},
		"mat":   {Requests: 9, Bytes: 8, Watches: 7, Leases: 6, Keys: 500},
		"m":     {Keys: 100000},
	} {
		require.Equal(t, want, p.QuotaOf(KV, ns).Most, ns)
	}
	require.True(t, p.LimitsNamespaces())
	require.Nil(t, New(role(t, fleet)).QuotaOf(KV, "match"))
	require.False(t, New(role(t, `{"quotas": [{"who": ["*"], "watches": 1}]}`)).LimitsNamespaces())
}

func TestQuotasThatSayNothingAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`1`:                           `quotas: expected an array`,
		`[1]`:                         `quota 1: expected an object`,
		`[{"connections": 1}]`:        `quota 1: who and what are missing`,
		`[{"who": ["*"]}]`:            `an identity can have connections, requests, bytes, watches, leases`,
		`[{"what": ["kv"]}]`:          `a namespace can have requests, bytes, watches, leases, keys, size`,
		`[{"who": ["*"], "keys": 1}]`: `an identity has no limit of keys`,
		`[{"what": ["kv"], "leases": 1, "connections": 1}]`:           `a namespace has no limit of connections`,
		`[{"who": ["*"], "what": ["kv"], "requests": 1}]`:             `make two quotas`,
		`[{"who": ["*"], "requests": 1}, {"who": [], "requests": 1}]`: `quota 2: who and what are missing`,
		`[{"who": ["game-1"], "requests": 1}]`:                        `who: "game-1" names no one`,
		`[{"who": ["*"], "request": 1}]`:                              `"request" means nothing here`,
		`[{"who": ["*"], "requests": 0}]`:                             `requests: expected a whole number from 1`,
		`[{"who": ["*"], "requests": 1.5}]`:                           `requests: expected a whole number`,
		`[{"who": ["*"], "requests": "1"}]`:                           `requests: expected a whole number`,
		`[{"who": ["*"], "requests": 99999999999999999999}]`:          `requests: expected a whole number`,
		`[{"what": ["kv:a/b"], "keys": 1}]`:                           `a quota is about namespaces as a whole`,
		`[{"what": ["kv:a/b*"], "keys": 1}]`:                          `a quota is about namespaces as a whole`,
		`[{"what": ["config:a"], "keys": 1}]`:                         `a quota is about namespaces as a whole`,
		`[{"what": ["*"], "keys": 1}]`:                                `a quota is about namespaces as a whole`,
		`[{"what": ["storage:1/2/3"], "requests": 1}]`:                `a quota is about namespaces as a whole`,
		`[{"what": ["storage:1/2/3*"], "requests": 1}]`:               `a quota is about namespaces as a whole`,
		`[{"what": ["landing"], "requests": 1}]`:                      `a quota is about namespaces as a whole`,
		`[{"what": ["kv", "flow:a"], "requests": 1, "keys": 1}]`:      `flow has no limit of keys; there are requests, bytes`,
		`[{"what": ["bench:a"], "requests": 1}]`:                      `nothing in this class has a name`,
		`[{"who": ["*"], "requests": 1, "requests": 2}]`:              `"requests" stands twice`,
	} {
		_, err := ParseRole("test", []byte(`{"quotas": `+text+`}`))
		require.ErrorContains(t, err, want, text)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
}

func TestWhatTheServerKeepsForOthersHasNamespacesToo(t *testing.T) {
	p := New(role(t, `{"quotas": [
		{"what": ["storage:1/2", "storage:a%2Fb/c*"], "requests": 1}, {"what": ["storage:3", "storage:4*"], "requests": 2},
		{"what": ["flow:blue"], "requests": 3}, {"what": ["flow:g*"], "bytes": 4}, {"what": ["bench", "kv:flow"], "requests": 5}
	]}`))
	for _, c := range []struct {
		of    Class
		parts []string
		text  string
		want  [Limits]int64
	}{
		{Storage, []string{"1", "2"}, "storage:1/2", [Limits]int64{Requests: 1}},
		{Storage, []string{"a/b", "c1"}, "storage:a%2Fb/c1", [Limits]int64{Requests: 1}},
		{Storage, []string{"1", "22"}, "storage:1/22", [Limits]int64{}},
		{Storage, []string{"3", "x"}, "storage:3/x", [Limits]int64{Requests: 2}},
		{Storage, []string{"33", "x"}, "storage:33/x", [Limits]int64{}},
		{Storage, []string{"44", "x"}, "storage:44/x", [Limits]int64{Requests: 2}},
		{Flow, []string{"blue"}, "flow:blue", [Limits]int64{Requests: 3}},
		{Flow, []string{"blues"}, "flow:blues", [Limits]int64{}},
		{Flow, []string{"green"}, "flow:green", [Limits]int64{Bytes: 4}},
		{Bench, nil, "bench", [Limits]int64{Requests: 5}},
		{KV, []string{"flow"}, "kv:flow", [Limits]int64{Requests: 5}},
		{KV, []string{"blue"}, "kv:blue", [Limits]int64{}},
	} {
		class, parts, err := ParseNamespace(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.of, class, c.text)
		require.Equal(t, c.parts, parts, c.text)
		var got [Limits]int64
		if q := p.QuotaOf(c.of, c.parts...); q != nil {
			got = q.Most
		}
		require.Equal(t, c.want, got, c.text)
	}
	for _, text := range []string{"storage", "storage:1", "storage:1/2/3", "storage:1/2*", "flow", "flow:a*", "kv", "kv:a*", "kv:a/b", "config:a", "*", "", "landing", "token:a"} {
		_, _, err := ParseNamespace(text)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
}

func TestLoosenedQuotasAreNoticed(t *testing.T) {
	const old = `{"quotas": [{"name": "q", "who": ["token:a"], "requests": 10, "watches": 2}, {"what": ["kv:a"], "keys": 5}]}`
	for next, loosens := range map[string]bool{
		old: false,
		`{"quotas": [{"what": ["kv:a", "kv:b"], "keys": 4}, {"who": ["token:a", "*"], "requests": 9, "watches": 2, "bytes": 1}]}`: false,
		`{"quotas": [{"who": ["token:a"], "requests": 11, "watches": 2}, {"what": ["kv:a"], "keys": 5}]}`:                         true,
		`{"quotas": [{"who": ["token:a"], "requests": 10}, {"what": ["kv:a"], "keys": 5}]}`:                                       true,
		`{"quotas": [{"who": ["token:b"], "requests": 10, "watches": 2}, {"what": ["kv:a"], "keys": 5}]}`:                         true,
		`{"quotas": [{"who": ["token:a"], "requests": 10, "watches": 2}]}`:                                                        true,
		`{}`: true,
	} {
		_, got := role(t, old).Loosens(role(t, next))
		require.Equal(t, loosens, got, next)
	}
	name, ok := role(t, old).Loosens(nil)
	require.True(t, ok)
	require.Equal(t, `fleet, quota 1 "q"`, name)
	_, ok = (*Role)(nil).Loosens(nil)
	require.False(t, ok)
}
