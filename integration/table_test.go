package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// sample is a request of a command: about something that the intruder may not have, and the same
// about something of its own; own is empty if it has nothing of the kind.
type sample struct{ forbidden, own string }

// samples are of all commands that decide about each name in a request. What a row's right is needed
// for as a whole has none: {} is refused before it is looked at.
var samples = map[protocol.Command]sample{
	protocol.GetConfig:     {`{"file_pattern":"secret/hidden.json"}`, `{"file_pattern":"game/a.json"}`},
	protocol.SetConfig:     {`{"filename":"secret/hidden.json","contents":{}}`, `{"filename":"game/new.json","contents":{}}`},
	protocol.BookCfgChange: {`{"file_pattern":"secret/hidden.json"}`, `{"file_pattern":"game/a.json"}`},
	protocol.CfWatch:       {`{"prefix":"secret/","state":1}`, `{"prefix":"game/","state":1}`},
	historyLog:             {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyShow:            {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyDiff:            {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyBlame:           {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyExplain:         {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyRollback:        {`{"name":"secret/hidden","dry_run":true}`, `{"name":"game/a","rev":"~0","dry_run":true}`},
	historyApply:           {`{"documents":[{"name":"secret/hidden.json","delete":true}],"dry_run":true}`, `{"documents":[{"name":"game/a.json","text":"{}"}],"dry_run":true}`},
	historyExport:          {`{"from":"secret/hidden.json"}`, `{"from":"game/a.json"}`},
	historyUses:            {`{"name":"secret/hidden"}`, `{"name":"game/a"}`},
	historyPreview:         {`{"name":"secret/hidden.json","text":"{}"}`, `{"name":"game/a.json","text":"{}"}`},

	protocol.KVGet:       {`{"ns":"vault","key":"k"}`, `{"ns":"mine","key":"k"}`},
	protocol.KVPut:       {`{"ns":"vault","key":"k","value":"x"}`, `{"ns":"mine","key":"k","value":"x"}`},
	protocol.KVDel:       {`{"ns":"vault","key":"k"}`, `{"ns":"mine","key":"none"}`},
	protocol.KVDelPrefix: {`{"ns":"vault","prefix":"k"}`, `{"ns":"mine","prefix":"none"}`},
	protocol.KVDrop:      {`{"ns":"vault","confirm":"vault"}`, `{"ns":"mine","confirm":"mine"}`},
	protocol.KVList:      {`{"ns":"vault"}`, `{"ns":"mine"}`},
	protocol.KVMGet:      {`{"ns":"vault","keys":["k"]}`, `{"ns":"mine","keys":["k"]}`},
	protocol.KVTxn:       {`{"ns":"vault","then":[{"op":"put","key":"k","value":"x"}]}`, `{"ns":"mine","then":[{"op":"put","key":"k","value":"x"}]}`},
	protocol.KVCas:       {`{"ns":"vault","key":"k","expect":null,"value":"x"}`, `{"ns":"mine","key":"cas","expect":null,"value":"x"}`},
	protocol.KVIncr:      {`{"ns":"vault","key":"n"}`, `{"ns":"mine","key":"n"}`},
	protocol.KVHistory:   {`{"ns":"vault","key":"k"}`, `{"ns":"mine","key":"k"}`},
	protocol.KVRestore:   {`{"ns":"vault","key":"k","rev":REVISION}`, `{"ns":"mine","key":"k","rev":REVISION}`},
	protocol.KVWatch:     {`{"ns":"vault","state":true}`, `{"ns":"mine","state":true}`},
	protocol.KVLock:      {`{"ns":"vault","key":"lock","lease":LEASE}`, ""},
	protocol.KVUnlock:    {`{"ns":"vault","key":"lock","fence":1}`, ""},

	protocol.StGet:     {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","names":["gold"]}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7","names":["gold"]}`},
	protocol.StAll:     {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42"}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7"}`},
	protocol.StUpdate:  {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","fields":{"a":"1"}}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7","fields":{"a":"1"}}`},
	protocol.StIncr:    {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","deltas":{"a":1}}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7","deltas":{"a":1}}`},
	protocol.StRemove:  {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","names":["a"]}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7","names":["a"]}`},
	protocol.StRestore: {`{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","names":["a"]}`, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"7","names":["none"]}`},
	protocol.StOwners:  {`{"appId":"1","regionId":"1"}`, ""},

	flowList: {`{"scope":"hidden","list":"cfapplist"}`, `{"scope":"mine","list":"cfapplist"}`},
	flowRead: {`{"scope":"hidden"}`, `{"scope":"mine"}`},
	flowSet:  {`{"scope":"hidden","key":"k","value":1}`, `{"scope":"mine","key":"k","value":1}`},
}

// sampleOf is the sample of a command; named is false if it does not decide about names.
func sampleOf(id protocol.Command) (c sample, named bool) {
	if c, named = samples[id]; !named && id.Model() == "flow" && id != flowScopes {
		return sample{forbidden: `{"scope":"hidden"}`}, true // which they all have
	}
	if row := protocol.Lookup(id); !named && row != nil && row.Op.Follows() {
		return sample{forbidden: `{"ns":"vault","key":"k","value":"x"}`, own: `{"ns":"mine","key":"new","value":"x"}`}, true
	}
	return c, named
}

// unnamed are commands that need a right to anything of a class, and why that is enough.
var unnamed = map[protocol.Command]string{
	protocol.GetCfgName:            "it lists what may be read",
	protocol.KVNames:               "it lists what may be read",
	protocol.KVLease:               "a lease without keys is nothing",
	protocol.KVAlive:               "there is no such lease, to others than its owner",
	protocol.KVRevoke:              "likewise",
	protocol.KVLeaseInfo:           "likewise",
	protocol.KVUnwatch:             "of the connection's own",
	protocol.CfUnwatch:             "of the connection's own",
	protocol.GetCli:                "it lists what may be read",
	protocol.GetWarn:               "it lists what may be read",
	protocol.Hungup:                "it lists what may be read",
	protocol.Exchang:               "a program that nothing may be sent to is answered like none",
	protocol.EvNotify:              "likewise",
	protocol.AppRunLog:             "likewise",
	flowScopes:                     "it lists what may be read",
	protocol.OfModel("history", 7): "nothing comes of what is staged by itself",
}

const tableRole = `{"rules": [
	{"who": ["token:denied"], "allow": ["*"], "what": ["config", "kv", "storage", "flow"]},
	{"who": ["token:denied"], "deny": ["*"], "what": ["config:secret/*", "kv:vault", "storage:1/1/bag/42", "flow:hidden"]},
	{"who": ["token:reader"], "allow": ["read"], "what": ["*"]}]}`

// Every command of the table, as every caller: one without a decision that is declared here fails.
func TestEveryCommandDecidesAboutEverybody(t *testing.T) {
	s := besiege(t)
	root := as(t, s.srv, s.admin)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/table.json","contents":`+tableRole+`}`), `"code":0`)
	tokens := map[string]string{"intruder": s.intruder, "admin": s.admin}
	for _, name := range []string{"stranger", "denied", "reader"} {
		_, tokens[name] = tokenFor(t, root, name)
	}
	before := s.everything()
	for _, row := range protocol.Commands {
		if row.Role != protocol.Served || row.Right == access.Anyone || row.Right == access.Nobody {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			s.decides(t, row, tokens)
		})
	}
	require.Equal(t, before, s.everything(), "nothing has changed")
}

func (s *besieged) decides(t *testing.T, row protocol.Row, tokens map[string]string) {
	c, named := sampleOf(row.ID)
	if !named {
		c.forbidden = `{}`
	}
	if row.ID.Model() == "review" { // which tells strangers of no change, as if there was none
		for _, mark := range []string{markValue, markName, markNumber} {
			require.NotContains(t, s.take(&way{cmd: row.ID, body: c.forbidden}, tokens["stranger"]), mark)
		}
		return
	}
	refused := func(who, body string) {
		got := s.take(&way{cmd: row.ID, body: body}, tokens[who])
		require.Contains(t, got, `"code":1025`, "%s %s", who, body)
		for _, mark := range []string{markValue, markName, markNumber} {
			require.NotContains(t, got, mark, who)
		}
	}
	refused("stranger", c.forbidden)
	if c.own != "" {
		refused("stranger", c.own)
	}
	unknown := servertest.Dial(t, s.srv.Addr)
	require.NotContains(t, unknown.Call(row.ID, s.fill(c.forbidden)), `"code":0`, "before WHOAMI")
	class, verb, ok := policy.Of(row.Right)
	require.True(t, ok || row.Right == access.KVEach)
	switch {
	case named:
		refused("intruder", c.forbidden)
		if class != policy.Roles {
			refused("denied", c.forbidden)
		}
	case unnamed[row.ID] == "": // needed as a whole
		refused("intruder", c.forbidden)
	}
	if verb != policy.Read && (named || unnamed[row.ID] == "") {
		refused("reader", c.forbidden)
	}
	if c.own != "" {
		got := s.take(&way{cmd: row.ID, body: c.own}, tokens["intruder"])
		require.NotContains(t, got, `"code":1025`, c.own)
		require.NotContains(t, got, `"code":400`, c.own)
		require.False(t, strings.Contains(got, markValue) || strings.Contains(got, markName), got)
	}
}
