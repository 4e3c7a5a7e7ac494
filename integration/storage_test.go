package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// players is the binary, serving player storage without a database.
func players(t *testing.T) *Process {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	return StartProcess(t, conf)
}

// What a program in any language says, byte by byte, and what it is answered.
func TestStorageConversation(t *testing.T) {
	p := players(t).Peer()
	const owner = `"logicType":"bag","ownerId":"a:b"`
	for _, step := range []kvStep{
		{protocol.StGet, `{` + owner + `,"names":["a"]}`, `{"code":0,"fields":{}}`},
		{protocol.StAll, `{` + owner + `}`, `{"code":0,"fields":{},"more":"absent"}`},
		{protocol.StUpdate, `{` + owner + `,"fields":{"a":"1","cachedAllKey":":delFlag"},"bytes":{"pic":"AP8="},"token":"t1"}`, `{"code":0,"replayed":"absent"}`},
		{protocol.StUpdate, `{` + owner + `,"token":"t1","bytes":{"pic":"AP8="},"fields":{"a":"1","cachedAllKey":":delFlag"}}`, `{"code":0,"replayed":1}`},
		{protocol.StUpdate, `{` + owner + `,"token":"t1","fields":{"a":"2"}}`, `{"code":1019}`},
		{protocol.StGet, `{` + owner + `,"names":["a","pic","none"]}`, `{"code":0,"fields":{"a":"1"},"bytes":{"pic":"AP8="},"versions":"absent"}`},
		{protocol.StAll, `{` + owner + `,"limit":2}`, `{"code":0,"fields":{"a":"1","cachedAllKey":":delFlag"},"more":1,"next":"cachedAllKey"}`},
		{protocol.StAll, `{` + owner + `,"after":"cachedAllKey"}`, `{"code":0,"bytes":{"pic":"AP8="},"more":"absent"}`},
		{protocol.StIncr, `{` + owner + `,"deltas":{"n":"5","a":-3},"prev":1}`, `{"code":0,"values":{"n":5,"a":-2},"prev":{"fields":{"a":"1"}}}`},
		{protocol.StIncr, `{` + owner + `,"deltas":{"n":1,"cachedAllKey":1}}`, `{"code":1016}`},
		{protocol.StIncr, `{` + owner + `,"deltas":{"n":9223372036854775807}}`, `{"code":1014}`},
		{protocol.StUpdate, `{` + owner + `,"fields":{"a":"x"},"expect":{"a":1,"none":0}}`, `{"code":412}`},
		{protocol.StRemove, `{` + owner + `,"names":["n","none"],"prev":1}`, `{"code":0,"prev":{"fields":{"n":"5"}}}`},
		{protocol.StGet, `{` + owner + `,"names":["n"]}`, `{"code":0,"fields":{}}`},
		{protocol.StRestore, `{` + owner + `,"names":["n","none"]}`, `{"code":404}`},
		{protocol.StRestore, `{` + owner + `,"names":["n"]}`, `{"code":0,"fields":{"n":"5"}}`},
		{protocol.StUpdate, `{"appId":"2","regionId":"eu","logicType":"bag","ownerId":"a:b","fields":{"a":"other"}}`, `{"code":0}`},
		{protocol.StGet, `{"appId":"2","regionId":"eu","logicType":"bag","ownerId":"a:b","names":["a","n"]}`, `{"code":0,"fields":{"a":"other"}}`},
		{protocol.StOwners, `{}`, `{"code":0,"owners":[{"logicType":"bag","ownerId":"a:b"}],"more":"absent"}`},
		{protocol.StOwners, `{"count":1,"logicType":"hat"}`, `{"code":0,"count":0}`},
		{protocol.StStatus, `{}`, `{"code":0}`},
		{protocol.StErrors, `{}`, `{"code":0,"errors":[]}`},

		{protocol.StUpdate, `{"logicType":"bag","fields":{"a":"1"}}`, `{"code":1010}`},
		{protocol.StUpdate, `{` + owner + `}`, `{"code":400}`},
		{protocol.StUpdate, `{` + owner + `,"fields":{"a":1}}`, `{"code":1009}`},
		{protocol.StUpdate, `{` + owner + `,"fields":{"a":"1"}} x`, `{"code":1001}`},
		{protocol.StUpdate, `{"logicType":"bag","ownerId":"` + fmt.Sprintf("%0256d", 0) + `","fields":{"a":"1"}}`, `{"code":1011}`},
		{protocol.StGet, `[]`, `{"code":1001}`},
		{protocol.KVPut, `{"ns":"@storage/1_1","key":"bag:42:gold","value":"1"}`, `{"code":1027}`},
		{protocol.KVDrop, `{"ns":"@storage/1_1","confirm":"@storage/1_1"}`, `{"code":1027}`},
		{protocol.KVTxn, `{"ns":"n","then":[{"op":"put","key":"a","value":"1"},{"op":"delete","ns":"@landing","key":"base"}]}`, `{"code":1027}`},
		{protocol.KVList, `{"ns":"@storage/2_eu","limit":1}`, `{"code":0,"count":1}`},
	} {
		t.Log(step.cmd, step.body)
		kvExpect(t, p, step.cmd, step.body, step.want)
	}
}

// The store's own namespaces can be read and watched, and not locked.
func TestStorageIsWatchedAsTheStoreIs(t *testing.T) {
	p := peer(t, start(t, servertest.Options{}))
	kvExpect(t, p, protocol.KVWatch, `{"ns":"@storage/1_1","prefix":"bag:42:"}`, `{"code":0}`)
	kvExpect(t, p, protocol.StUpdate, `{"logicType":"bag","ownerId":"43","fields":{"gold":"1"}}`, `{"code":0}`)
	p.Send(protocol.StUpdate, `{"logicType":"bag","ownerId":"42","fields":{"gold":"1"}}`)
	push := p.Next()
	require.Equal(t, protocol.KVEvent, push.Header.Command)
	kvHas(t, `{"events":[{"op":"put","ns":"@storage/1_1","key":"bag:42:gold"}]}`, string(push.Body))
	require.Equal(t, protocol.StUpdate.Reply(), p.Next().Header.Command)
	granted, _ := kvBody(t, p.Call(protocol.KVLease, `{"ttl":60000}`))
	kvExpect(t, p, protocol.KVLock, fmt.Sprintf(`{"ns":"@landing","key":"lock/0","lease":%v}`, granted["lease"]), `{"code":1027}`)
}

// The command line has a verb for each operation.
func TestStorageVerbs(t *testing.T) {
	c := newCLI(t, players(t))
	c.verb = "storage"
	c.ok("update", "bag", "42", "gold=10", "name=Ann=a", "a=b=c")
	require.Equal(t, "10", c.ok("get", "bag", "42", "gold"))
	require.Equal(t, "b=c", c.ok("get", "bag", "42", "a"))
	require.Equal(t, "gold=15\nwins=1", c.ok("incr", "bag", "42", "gold=5", "wins"))
	c.ok("update", "bag", "42", "pic=AP8=", "--base64")
	require.Equal(t, `{"bytes":{"pic":"AP8="},"fields":{"gold":"15"}}`, c.ok("get", "bag", "42", "gold", "pic", "-o", "json"))
	require.Equal(t, "\x00\xff", c.ok("get", "bag", "42", "pic", "-o", "raw"))
	require.Contains(t, c.ok("get", "bag", "42", "gold", "wins", "--versions"), "VERSION")
	c.ok("remove", "bag", "42", "gold")
	require.Equal(t, `{"bytes":{"pic":"AP8="},"fields":{"a":"b=c","name":"Ann=a","wins":"1"}}`, c.ok("all", "bag", "42", "-o", "json"))
	require.Regexp(t, `"fields":\{"gold":"15"\}`, c.ok("restore", "bag", "42", "gold", "-o", "json"))
	require.Regexp(t, `"prev":\{"fields":\{"wins":"1"\}\}`, c.ok("update", "bag", "42", "wins=2", "--prev", "-o", "json"))
	c.ok("update", "hat", "7", "x=1", "--app", "2", "--region", "eu")
	require.Equal(t, "1", c.ok("owners", "--count"))
	require.Equal(t, `[{"logicType":"hat","ownerId":"7"}]`, c.ok("owners", "hat", "--app", "2", "--region", "eu", "-o", "json"))
	require.Regexp(t, `LOGIC +OWNER\nbag +42$`, c.ok("owners", "bag"))
	c.ok("status")
	require.Equal(t, "[]", c.ok("errors", "-o", "json"))
	require.Equal(t, c.ok("incr", "bag", "42", "once", "--token", "t"), c.ok("incr", "bag", "42", "once", "--token", "t"))
	for _, bad := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"get", "bag", "42", "none"}, 3, `no field "none"`},
		{[]string{"restore", "bag", "42", "none"}, 3, "none"},
		{[]string{"incr", "bag", "42", "a"}, 5, "a"},
		{[]string{"incr", "bag", "42", "a=x"}, 2, "NAME=N"},
		{[]string{"update", "bag", "42", "a"}, 2, "NAME=VALUE"},
		{[]string{"update", "bag", "42", "a=1", "--if-version", "a=7"}, 5, "versions are map[a:"},
		{[]string{"update", "bag", "42"}, 2, "NAME=VALUE is missing"},
		{[]string{"drop", "bag", "42", "a", "--confirm", "1"}, 5, "no database is set up"},
		{[]string{"drop", "bag", "42", "--confirm", "1"}, 2, "NAME is missing"},
		{[]string{"reland", "--since", "2026-01-01T00:00:00Z"}, 5, "no database is set up"},
		{[]string{"reland", "--since", "soon"}, 2, "must be a time like"},
		{[]string{"get", "bag", "42", "a", "pic", "-o", "raw"}, 2, "one NAME"},
		{[]string{}, 2, "needs a verb"},
	} {
		code, _, stderr := c.run("", bad.args...)
		require.Equal(t, bad.code, code, "%v: %s", bad.args, stderr)
		require.Contains(t, stderr, bad.text, "%v", bad.args)
	}
}
