package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// recorded lists the captured conversations, one for each family of commands.
var recorded = []struct {
	name, file string
	talk       func(c *cast)
}{
	{"config", "config.pcap", talkConfig},
	{"session", "session.pcap", talkSession},
	{"state", "state.pcapng", talkState},
	{"push", "push.pcapng", talkPush},
}

// cast are the clients of a conversation.
type cast struct {
	t     testing.TB
	addr  string
	peers map[string]*servertest.Peer
	order []string
}

// says sends a request and waits for that many frames.
func (c *cast) says(who string, cmd protocol.Command, body string, frames int) {
	c.t.Helper()
	p := c.peers[who]
	if p == nil {
		p = servertest.Dial(c.t, c.addr)
		c.peers[who] = p
		c.order = append(c.order, who)
	}
	p.Send(cmd, body)
	c.hears(who, frames)
}

func (c *cast) hears(who string, frames int) {
	c.t.Helper()
	for range frames {
		c.peers[who].Next()
	}
}

// leave ends the connections one after the other.
func (c *cast) leave() {
	for _, who := range c.order {
		c.peers[who].Close()
	}
}

// fresh returns a server in the state before any conversation.
func fresh(t testing.TB) *servertest.Server {
	t.Helper()
	fake := clocktest.NewFake(time.Unix(1_700_000_000, 0))
	return servertest.Start(t, servertest.Options{
		Files: map[string]string{
			"_meta.json":  `{"conf_inherit":{"dev.json":"common.json app.json"},"app_profile":{"default":{"app":"dev.json"}}}`,
			"common.json": `{"c":1,"o":{"c":1}}`, "app.json": `{"a":1,"o":{"a":1}}`, "dev.json": `{"d":1.50}`,
		},
		Before: func(dir string) {
			names, err := filepath.Glob(filepath.Join(dir, "*.json"))
			require.NoError(t, err)
			for _, name := range names {
				require.NoError(t, os.Chtimes(name, time.Unix(1_500_000_000, 0), time.Unix(1_500_000_000, 0)))
			}
		},
		Store:  confstore.Config{Clock: fake, NoEvents: true},
		Server: tcp.Config{Clock: fake},
	})
}

func talkConfig(c *cast) {
	c.says("app", protocol.Whoami, `{"svrid":0,"svrname":"app","clitype":100,"pid":42}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"gt_mtime":1500000000}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"key_pattern":"/o/a"}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"none","gt_mtime":1}`, 1)
	c.says("ops", protocol.Whoami, `{"svrid":0,"svrname":"ops \"at night\"","tag":"нет"}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"app.json","contents":{"a":2,"s":"\u0007"},"if_mtime":1500000000}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"app.json","contents":{"a":3},"if_mtime":1500000000}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"../../etc/passwd","contents":{}}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"gt_mtime":1500000000}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"app.json"}`, 1)
	c.says("app", protocol.GetCfgName, ``, 1)
	c.says("app", protocol.GetCfgName, `{"detail":1}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":`, 1)
	c.says("app", 0x0B01, `ignored`, 0)
	c.says("app", protocol.KeepAlive, ``, 1)
}

func talkSession(c *cast) {
	c.says("early", protocol.GetConfig, `{"file_pattern":"dev"}`, 1)
	c.peers["early"].Closed()
	c.says("app", protocol.Whoami, `{"svrid":7001,"svrname":"app"}`, 1)
	c.says("ops", protocol.Whoami, `{"svrid":0,"svrname":"ops"}`, 1)
	c.says("thief", protocol.Whoami, `{"svrid":7001}`, 1)
	c.peers["thief"].Closed()
	c.says("app", protocol.SetArgs, `{"warn":"ng","rack":"7"}`, 1)
	c.says("ops", protocol.GetWarn, `{}`, 1)
	c.says("ops", protocol.GetCli, `{"svrid":7001}`, 1)
	c.says("ops", protocol.GetCli, `{"svrid":9999}`, 1)
	c.says("ops", protocol.GetLogr, `{"size":2}`, 1)
	c.says("ops", protocol.Hungup, `{"op":"get"}`, 1)
	c.says("ops", protocol.EvNotify, `{"to":7001,"notify":"check-alive"}`, 0)
	c.hears("app", 1)
	c.peers["app"].Raw(protocol.AppendFrame(nil, protocol.EvNotify.Reply(), 7, []byte(`{"code":0,"result":"alive","to":2001}`)))
	c.hears("ops", 1)
	c.says("ops", protocol.EvNotify, `{"to":9999,"notify":"check-alive"}`, 1)
	c.says("ops", protocol.Exchang, `{"to":9999}`, 1)
	c.says("ops", protocol.SvrSearch, `{"regname":"x"}`, 1)
	c.says("ops", protocol.SvrStat, `[]`, 0)
	c.says("ops", protocol.Testing, `{"cmd":"broadshow"}`, 1)
	c.says("ops", protocol.EvNotify, `{"notify":"closelink","svrid":7001}`, 1)
	c.peers["app"].Closed()
	c.says("ops", protocol.KeepAlive, ``, 1)
}

func talkState(c *cast) {
	c.says("job", protocol.Whoami, `{"svrid":0,"svrname":"job"}`, 1)
	c.says("job", protocol.KVPut, `{"ns":"shop","key":"greeting","value":"hello","ttl":60000}`, 1)
	c.says("job", protocol.KVPut, `{"ns":"shop","key":"blob","raw":4}`+"\x00\x01\x0a\xff", 1)
	c.says("job", protocol.KVGet, `{"ns":"shop","key":"blob","raw":1}`, 1)
	c.says("job", protocol.KVGet, `{"ns":"shop","key":"none"}`, 1)
	c.says("job", protocol.KVMGet, `{"ns":"shop","keys":["greeting","none"]}`, 1)
	c.says("job", protocol.KVPut, `{"ns":"shop","key":"greeting","value":"hi","if_mod":9}`, 1)
	c.says("job", protocol.KVCas, `{"ns":"shop","key":"n","expect":null,"value":2}`, 1)
	c.says("job", protocol.KVIncr, `{"ns":"shop","key":"n","by":4,"max":10}`, 1)
	c.says("job", protocol.KVTxn, `{"ns":"shop","if":[{"key":"n","target":"value","op":">","value":0}],"then":[{"op":"incr","key":"n","by":-1},{"op":"get","key":"greeting"}]}`, 1)
	c.says("job", protocol.KVHistory, `{"ns":"shop","key":"n"}`, 1)
	c.says("job", protocol.KVRestore, `{"ns":"shop","key":"n","rev":4}`, 1)
	c.says("job", protocol.KVList, `{"ns":"shop","prefix":"g"}`, 1)
	c.says("job", protocol.KVNames, `{}`, 1)
	c.says("job", protocol.KVLease, `{"ttl":10000}`, 1)
	c.says("job", protocol.KVLeaseInfo, `{"lease":8}`, 1)
	c.says("job", protocol.KVAlive, `{"lease":8}`, 1)
	c.says("job", protocol.KVDel, `{"ns":"shop","key":"n","prev":1}`, 1)
	c.says("job", protocol.KVRevoke, `{"lease":8}`, 1)
	c.says("job", protocol.KVDelPrefix, `{"ns":"shop","prefix":"b"}`, 1)
	c.says("job", protocol.KVDrop, `{"ns":"shop"}`, 1)
	c.says("job", protocol.KVDrop, `{"ns":"shop","confirm":"shop"}`, 1)
	c.says("job", protocol.KVStat, `{}`, 1)
	c.says("job", protocol.KVGet, `{"ns":"shop"`, 1)
}

func talkPush(c *cast) {
	c.says("app", protocol.Whoami, `{"svrid":0,"svrname":"app"}`, 1)
	c.says("ops", protocol.Whoami, `{"svrid":0,"svrname":"ops"}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"dev","incbase":1}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"none"}`, 1)
	c.says("ops", protocol.BookCfgChange, `{"file_pattern":"common.json","key_pattern":"/c","mtime":1}`, 2)
	c.says("ops", protocol.SetConfig, `{"filename":"common.json","contents":{"c":2}}`, 2)
	c.hears("app", 2)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"gt_mtime":1500000000}`, 1)
	c.says("app", protocol.KVWatch, `{"ns":"shop","prefix":"cart/","prev":1}`, 1)
	c.says("ops", protocol.KVPut, `{"ns":"shop","key":"cart/1","value":"full"}`, 1)
	c.hears("app", 1)
	c.says("ops", protocol.KVTxn, `{"ns":"shop","then":[{"op":"put","key":"cart/2","value":1},{"op":"delete","key":"cart/1"}]}`, 1)
	c.hears("app", 1)
	c.says("app", protocol.KVLease, `{"ttl":60000}`, 1)
	c.says("app", protocol.KVLock, `{"ns":"shop","key":"lock","lease":5,"value":"app"}`, 1)
	c.says("ops", protocol.KVLease, `{"ttl":60000}`, 1)
	c.says("ops", protocol.KVLock, `{"ns":"shop","key":"lock","lease":7,"value":"ops"}`, 1)
	c.says("ops", protocol.KVLock, `{"ns":"shop","key":"lock","lease":7,"value":"ops","wait":1}`, 1)
	c.says("app", protocol.KVUnlock, `{"ns":"shop","key":"lock","fence":6}`, 1)
	c.hears("ops", 1)
	c.says("app", protocol.KVUnwatch, `{"watch":1}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"dev","unsubscribe":1}`, 1)
}
