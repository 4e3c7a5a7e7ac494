package flow_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/flow"
)

func TestKeysAreTakenApart(t *testing.T) {
	node, worker := flow.Member{Kind: flow.Node, ID: "N-1"}, flow.Member{Kind: flow.Worker, ID: "W"}
	for text, want := range map[string]flow.Key{
		"cfapplist.ctime":              {Form: flow.ListTime, List: "cfapplist"},
		"cfapplist.cfapp.A":            {Form: flow.ListMember, List: "cfapplist", Member: flow.Member{Kind: flow.App, ID: "A"}},
		"cfschedus.sche.S":             {Form: flow.ListMember, List: "cfschedus", Member: flow.Member{Kind: flow.Scheduler, ID: "S"}},
		"cfapp.A.srvs.srvs.V":          {Form: flow.ListMember, List: "cfapp.A.srvs", Member: flow.Member{Kind: flow.Service, ID: "V"}},
		"cfapp.A.sess.sess.E":          {Form: flow.ListMember, List: "cfapp.A.sess", Member: flow.Member{Kind: flow.Session, ID: "E"}},
		"sess.E.flow.flow.F":           {Form: flow.ListMember, List: "sess.E.flow", Member: flow.Member{Kind: flow.FlowKind, ID: "F"}},
		"flow.F.node.node.N-1":         {Form: flow.ListMember, List: "flow.F.node", Member: node},
		"node.N-1.cstat":               {Form: flow.Field, Member: node, Field: "cstat"},
		"wokr.W.task.node.N-1":         {Form: flow.Assignment, Member: worker, Task: node},
		"node.N-1.oplog.0000000001":    {Form: flow.LogLine, Member: node, Field: "0000000001"},
		"node.N-1.lock.owner":          {Form: flow.LockField, Text: "node.N-1", Field: "owner"},
		"some.key.lock.ltime":          {Form: flow.LockField, Text: "some.key", Field: "ltime"},
		"some.key":                     {Form: flow.Free, Text: "some.key"},
		"nodes.N.cstat":                {Form: flow.Free, Text: "nodes.N.cstat"},
		"some.key.lock":                {Form: flow.Free, Text: "some.key.lock"},
		strings.Repeat("k", kv.MaxKey): {Form: flow.Free, Text: strings.Repeat("k", kv.MaxKey)},
	} {
		got, err := flow.ParseKey(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
}

func TestKeysThatDoNotFollowTheLayoutAreRefused(t *testing.T) {
	for _, text := range []string{
		"", ".", "a..b", ".a", "a.", "a|b", "a\x00b", "a\xffb", "node", "node.N", "node..cstat", "cfapplist", "cfapplist.node.N", "cfapplist.cfapp",
		"cfapplist.cfapp.A.x", "cfapp.A.node.node.N", "flow.F.node.srvs.V", "node.N.task.node.M", "wokr.W.task.wokr.X", "wokr.W.task.node", "node.N.a.b",
		"node.N.lock.other", "cfapplist.lock.owner", "node." + strings.Repeat("i", flow.MaxID+1) + ".x", "node.N." + strings.Repeat("f", flow.MaxField+1),
		strings.Repeat("k", kv.MaxKey+1),
	} {
		_, err := flow.ParseKey(text)
		require.Error(t, err, "%q", text)
		require.NotEqual(t, codes.Internal, codes.Of(err), text)
	}
	for _, text := range []string{"", "node", "node.", "x.N", "node.a.b", "node.a|b", "node." + strings.Repeat("i", flow.MaxID+1)} {
		_, err := flow.ParseMember(text)
		require.Equal(t, codes.BadKey, codes.Of(err), "%q", text)
	}
}

// The guide has a row for each form of keys, with an example.
func TestTheGuideNamesTheKeys(t *testing.T) {
	guide, err := os.ReadFile("../../docs/flow.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(guide), "\n## Keys\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	forms := map[flow.Form]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `[^|]*\\|").FindAllString(section, -1) {
		for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row, -1) {
			k, err := flow.ParseKey(key[1])
			require.NoError(t, err, "%s of %s", key[1], row)
			forms[k.Form] = true
		}
	}
	require.Len(t, forms, int(flow.LockField), "as many as there are")
}

func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"cfapplist.cfapp.A", "flow.F.node.node.N-1", "wokr.W.task.srvs.V", "node.N.lock.owner", "a.b.lock.ctime", "node.N.oplog.1", "a|b", "node.N", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := flow.ParseKey(text)
		if err != nil {
			return
		}
		require.Equal(t, text, k.String())
		require.NoError(t, kv.CheckKey(text))
		require.NotContains(t, text, "|")
		if k.Form != flow.Free && k.Form != flow.ListTime && k.Form != flow.LockField {
			_, err := flow.ParseMember(k.Member.String())
			require.NoError(t, err)
		}
	})
}

func TestOnlyWhatCanFollowIsATransition(t *testing.T) {
	legal := map[flow.Status][]flow.Status{
		flow.Waiting: {flow.Pending}, flow.Pending: {flow.Starting, flow.Stopping}, flow.Starting: {flow.Working, flow.Stopping},
		flow.Working: {flow.Stopping, flow.Exited}, flow.Stopping: {flow.Exited},
	}
	for _, from := range append([]flow.Status{"", "other"}, flow.Statuses...) {
		for _, to := range append([]flow.Status{"", "other"}, flow.Statuses...) {
			err := flow.CheckTransition(from, to)
			if slices.Contains(legal[from], to) {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, codes.Conflict, codes.Of(err))
			require.Contains(t, err.Error(), string(from)+" cannot become "+string(to))
		}
	}
}
