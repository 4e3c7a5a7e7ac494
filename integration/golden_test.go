package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// conversation is the traffic between peers and the server, as the frame printer shows
// it.
type conversation struct {
	t     *testing.T
	srv   *servertest.Server
	peers map[string]*servertest.Peer
	text  strings.Builder
}

// says sends a request and takes the resulting frames for the same peer.
func (c *conversation) says(who string, cmd protocol.Command, body string, frames int) {
	c.t.Helper()
	p := c.peers[who]
	if p == nil {
		p = dial(c.t, c.srv)
		c.peers[who] = p
	}
	seq := p.Send(cmd, body)
	h := protocol.Header{Command: cmd, Seq: seq, BodyLen: uint32(len(body))}
	c.line(who, ">", servertest.Frame{Header: h, Body: body})
	c.hears(who, frames)
}

// hears takes frames from the server.
func (c *conversation) hears(who string, frames int) {
	c.t.Helper()
	for range frames {
		c.line(who, "<", c.peers[who].Next())
	}
}

// closed expects the server to close the connection.
func (c *conversation) closed(who string) {
	c.t.Helper()
	c.peers[who].Closed()
	delete(c.peers, who)
	fmt.Fprintf(&c.text, "%s < closed\n", who)
}

// The parts that differ from run to run: the epoch, and the server's own sequence.
var (
	epochText = regexp.MustCompile(`"epoch":"[0-9a-f]+"`)
	pushSeq   = regexp.MustCompile(`EVNOTIFY seq=\d+`)
)

func (c *conversation) line(who, direction string, f servertest.Frame) {
	line := f.String()
	if direction == "<" && f.Command == protocol.EvNotify && !strings.Contains(f.Body, `"from"`) {
		line = pushSeq.ReplaceAllString(line, "EVNOTIFY seq=*")
	}
	fmt.Fprintf(&c.text, "%s %s %s\n", who, direction, epochText.ReplaceAllString(line, `"epoch":"…"`))
}

func (c *conversation) remark(text string) { fmt.Fprintf(&c.text, "\n# %s\n", text) }

func TestConversations(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(c *conversation){
		"start":   talkStart,
		"change":  talkChange,
		"refused": talkRefused,
		"routed":  talkRouted,
	} {
		t.Run(name, func(t *testing.T) {
			times := map[string]int32{}
			opts := family()
			opts.Files["_meta.json"] = `{"conf_inherit":{"dev.json":"common.json app.json"},"app_profile":{"default":{"app":"dev.json"}}}`
			for file := range opts.Files {
				times[file] = old
			}
			opts.Before = at(t, times)
			fake := clocktest.NewFake(time.Unix(now, 0))
			opts.Store = confstore.Config{Clock: fake, NoEvents: true}
			opts.Server = tcp.Config{Clock: fake}
			c := &conversation{t: t, srv: start(t, opts), peers: map[string]*servertest.Peer{}}
			talk(c)
			for _, p := range c.peers {
				p.Quiet() // that was all
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(golden, []byte(c.text.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), c.text.String())
		})
	}
}

func talkStart(c *conversation) {
	c.remark("a program that knows its name and nothing else gets its whole configuration")
	c.says("app", protocol.Whoami, `{"svrid":0,"svrname":"app","clitype":100,"pid":42}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev.json","incbase":1}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"dev.json","incbase":"1"}`, 1)
	c.remark("later it asks only for what is newer")
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev.json","incbase":1,"gt_mtime":1500000000}`, 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"none.json","gt_mtime":1500000000}`, 1)
	c.remark("one value, by its path and by the short name")
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"key_pattern":"/o/a"}`, 1)
	c.says("app", protocol.GetCfgName, ``, 1)
	c.says("app", protocol.KeepAlive, ``, 1)
}

func talkChange(c *conversation) {
	c.says("app", protocol.Whoami, `{"svrid":0,"svrname":"app"}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"dev","incbase":1}`, 1)
	c.says("ops", protocol.Whoami, `{"svrid":0,"svrname":"ops"}`, 1)
	c.remark("a base changes: its name first, then the subscribed name")
	c.says("ops", protocol.SetConfig, `{"filename":"common.json","contents":{"c":2}}`, 1)
	c.hears("app", 2)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"gt_mtime":1500000000}`, 1)
	c.remark("the document itself changes; what is older or the same changes nothing")
	c.says("ops", protocol.SetConfig, `{"filename":"dev.json","mtime":1700000100,"contents":{"d":2}}`, 1)
	c.hears("app", 1)
	c.says("ops", protocol.SetConfig, `{"filename":"dev.json","mtime":1700000099,"contents":{"d":3}}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"dev.json","contents":{"d":2}}`, 1)
	c.says("ops", protocol.SetConfig, `{"filename":"dev.json","if_mtime":1,"contents":{"d":4}}`, 1)
	c.remark("it is deleted and leaves its bases")
	c.says("ops", protocol.SetConfig, `{"filename":"dev.json"}`, 1)
	c.hears("app", 1)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev","incbase":1,"gt_mtime":1700000100}`, 1)
	c.remark("a writer who follows what he writes is told, then answered")
	c.says("ops", protocol.BookCfgChange, `{"file_pattern":"app.json","mtime":1}`, 2)
	c.says("ops", protocol.SetConfig, `{"filename":"app.json","contents":{"a":2}}`, 2)
	c.hears("app", 2)
}

func talkRefused(c *conversation) {
	c.remark("nothing goes before WHOAMI, and what is no JSON does not count")
	c.says("early", protocol.GetConfig, `{"file_pattern":"dev.json"}`, 1)
	c.closed("early")
	c.says("app", protocol.Whoami, `{"svrid":0,`, 1)
	c.says("app", protocol.Whoami, `{"svrid":4000}`, 1)
	c.says("thief", protocol.Whoami, `{"svrid":4000}`, 1)
	c.closed("thief")
	c.remark("a request that cannot be answered keeps its connection")
	c.says("app", protocol.GetConfig, `{"file_pattern":}`, 1)
	c.says("app", protocol.SetConfig, `{"contents":{}}`, 1)
	c.says("app", protocol.SetConfig, `{"filename":"../../etc/passwd.json","contents":{}}`, 1)
	c.says("app", protocol.BookCfgChange, `{"file_pattern":"none.json"}`, 1)
	c.says("app", protocol.Hungup, `{"op":"forget"}`, 1)
	c.says("app", protocol.SvrSearch, `{"regname":"x"}`, 1)
	c.remark("what is between servers is not obeyed, and nobody answers an answer")
	c.says("app", protocol.SetConfig3, `{"filename":"dev.json","contents":{"d":"evil"}}`, 0)
	c.says("app", protocol.GetConfig.Reply(), `{"code":404}`, 0)
	c.says("app", protocol.SvrStat, `[]`, 0)
	c.says("app", protocol.GetConfig, `{"file_pattern":"dev.json"}`, 1)
}

func talkRouted(c *conversation) {
	c.says("app", protocol.Whoami, `{"svrid":7001,"svrname":"app"}`, 1)
	c.says("ops", protocol.Whoami, `{"svrid":7002,"svrname":"ops"}`, 1)
	c.remark("through the server to another client and back")
	c.says("ops", protocol.EvNotify, `{"notify":"check-alive","to":7001}`, 0)
	c.hears("app", 1)
	c.peers["app"].Raw(frame(protocol.EvNotify.Reply(), 2, `{"code":0,"result":"alive","to":7002}`))
	c.hears("ops", 1)
	c.remark("to nobody, and to the server itself")
	c.says("ops", protocol.EvNotify, `{"notify":"check-alive","to":9999}`, 1)
	c.says("ops", protocol.EvNotify, `{"notify":"check-alive"}`, 1)
	c.says("ops", protocol.Exchang, `{"to":9999}`, 1)
	c.says("ops", protocol.EvNotify, `{"notify":"closelink","svrid":7001}`, 1)
	c.closed("app")
}
