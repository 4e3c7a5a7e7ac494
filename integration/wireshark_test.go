package integration

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// record starts a proxy in front of a server that writes all connections to a capture,
// alternately by IPv4 and IPv6, in segments of odd sizes.
func record(t *testing.T, c *capture, to string) (addr string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ; i++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.DialTimeout("tcp", to, servertest.Patience)
			if err != nil {
				client.Close()
				t.Error(err)
				return
			}
			w := c.conn(4800, i%2 == 1, time.Now())
			running.Go(func() { w.relay(0, client, server) })
			running.Go(func() { w.relay(1, server, client) })
		}
	})
	stop = func() {
		listener.Close()
		running.Wait()
	}
	return listener.Addr().String(), stop
}

// relay writes data to the capture before it forwards it, so that no reply precedes its
// request.
func (w *wire) relay(side int, from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		w.sendNow(side, buffer[:n], 1400, 7, 1400, 33)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// said is a frame of a conversation as it passed the proxy.
type said struct {
	protocol.Header
	body    string
	conn    *wire
	side    int
	at      time.Time
	packet  int // that ends it
	request *said
	client  string // svrname, once identified
}

// conversation decodes the capture's segments with the protocol's own decoder.
func (c *capture) conversation() []*said {
	c.t.Helper()
	type direction struct {
		conn *wire
		side int
	}
	open := map[direction][]byte{}
	waiting := map[string][]*said{}
	clients := map[*wire]string{}
	var all []*said
	for _, s := range c.log {
		way := direction{s.wire, s.side}
		buffer := append(open[way], s.data...)
		for len(buffer) >= protocol.HeaderSize {
			h, err := protocol.ParseHeader(buffer)
			require.NoError(c.t, err)
			end := protocol.HeaderSize + int(h.BodyLen)
			if len(buffer) < end {
				break
			}
			f := &said{Header: h, body: string(buffer[protocol.HeaderSize:end]), conn: s.wire, side: s.side, at: s.at, packet: s.packet}
			buffer = buffer[end:]
			asker := s.side
			if h.Command.IsReply() {
				asker = 1 - asker
			}
			key := fmt.Sprint(s.wire.ports[0], asker, h.Command.Request(), h.Seq)
			if !h.Command.IsReply() {
				waiting[key] = append(waiting[key], f)
			} else if queue := waiting[key]; len(queue) > 0 {
				f.request, waiting[key] = queue[0], queue[1:]
				if h.Command == protocol.Whoami.Reply() {
					var r protocol.Request
					require.NoError(c.t, r.Parse([]byte(f.request.body)))
					clients[s.wire] = string(r.Text("svrname"))
				}
			}
			f.client = clients[s.wire]
			all = append(all, f)
		}
		open[way] = buffer
	}
	for way, rest := range open {
		require.Empty(c.t, rest, "half a frame at the end of %v", way)
	}
	return all
}

// talk is a conversation of each family: session, config, push and state store.
func talk(t *testing.T, addr string) {
	t.Helper()
	reader, writer := servertest.Dial(t, addr), servertest.Dial(t, addr)
	reader.Identify(`{"svrid":0,"svrname":"reader","tag":"é \u00e9"}`)
	writer.Identify(`{"svrid":0,"svrname":"writer"}`)
	reader.Call(protocol.GetConfig, `{"file_pattern":"a.json"}`)
	reader.Call(protocol.GetConfig, `{"file_pattern":"large.json"}`)
	reader.Call(protocol.GetConfig, `{"file_pattern":"a.json","gt_mtime":2000000000}`)
	reader.Call(protocol.GetConfig, `{"file_pattern":"none"}`)
	reader.Call(protocol.GetCfgName, ``)
	reader.Call(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
	writer.Set("a.json", `{"k":2,"text":"tab\t and \\ \" <&> ü"}`)
	require.Equal(t, "a.json", reader.Push().File)
	reader.Call(protocol.GetCli, `{"svrid":0,"key":"svrname"}`)
	reader.Call(protocol.SetArgs, `not JSON`)
	reader.Call(protocol.KeepAlive, ``)

	reader.Call(protocol.KVWatch, `{"ns":"shop","prefix":"","raw":1}`)
	writer.Call(protocol.KVPut, `{"ns":"shop","key":"blob","raw":4}`+"\x00\x01{\xff")
	require.Equal(t, protocol.KVEvent, reader.Next().Command)
	writer.Call(protocol.KVGet, `{"ns":"shop","key":"blob","raw":1}`)
	writer.Call(protocol.KVGet, `{"ns":"shop","key":"blob"}`)
	writer.Call(protocol.KVGet, `{"ns":"shop","key":"none"}`)
	writer.Call(protocol.KVTxn, `{"ns":"shop","then":[{"op":"put","key":"a","raw":2},{"op":"put","key":"b","raw":1},{"op":"put","key":"c","value":{"raw":5}}]}`+"aab")
	require.Equal(t, protocol.KVEvent, reader.Next().Command)
	writer.Call(protocol.KVList, `{"ns":"shop","prefix":"","raw":1}`)
	writer.Call(protocol.KVMGet, `{"ns":"shop","keys":["b","none"]}`)
	writer.Call(protocol.KVIncr, `{"ns":"shop","key":"n"}`)
	require.Equal(t, protocol.KVEvent, reader.Next().Command)
	writer.Call(protocol.KVPut, `{"ns":"shop","key":"blob","raw":4}`+"short")
	writer.Call(protocol.KVStat, ``)

	// Pipelined, under one sequence.
	var many []byte
	for range 3 {
		many = append(many, frame(protocol.KVGet, 77, `{"ns":"shop","key":"n"}`)...)
		many = append(many, frame(protocol.KeepAlive, 77, ``)...)
	}
	writer.Raw(many)
	for range 6 {
		require.EqualValues(t, 77, writer.Next().Seq)
	}
	require.NoError(t, reader.Close())
	require.NoError(t, writer.Close())
}

// recorded is a capture of talk.
func recorded(t *testing.T) (*capture, string) {
	t.Helper()
	srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`, "large.json", `{"long":"`+strings.Repeat("0123456789", 20000)+`"}`)})
	c := newCapture(t)
	addr, stop := record(t, c, srv.Addr().String())
	talk(t, addr)
	stop()
	return c, c.done()
}

// For a real conversation, tshark with the dissector that people install shows what went
// over the wire.
func TestWiresharkShowsAConversation(t *testing.T) {
	c, file := recorded(t)
	want := c.conversation()
	got := dissect(t, file)
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		line := servertest.Frame{Header: w.Header, Body: w.body}.String()
		require.Equal(t, w.packet, g.packet, line)
		require.Equal(t, protocol.Version, g.number(t, "version"), line)
		require.Equal(t, protocol.HeaderSize, g.number(t, "header_length"), line)
		require.Equal(t, w.Command.String(), g.text("name"), line)
		require.Equal(t, int(w.Command), g.number(t, "command"), line)
		require.Equal(t, int(w.Seq), g.number(t, "seq"), line)
		require.Equal(t, int(w.BodyLen), g.number(t, "body_length"), line)
		require.Equal(t, w.Command.IsReply(), g.text("reply") == "1", line)
		require.Equal(t, w.body, g.octets(t, "body")+g.octets(t, "raw"), line)
		require.Equal(t, w.client, g.text("svrname"), line)
		if w.request == nil {
			require.False(t, g.has("confcenter.time"), line)
			continue
		}
		require.Equal(t, w.request.packet, g.number(t, "response_to"), line)
		seconds, err := strconv.ParseFloat(g.text("time"), 64)
		require.NoError(t, err, line)
		require.InDelta(t, w.at.Sub(w.request.at).Seconds(), seconds, 1e-6, line)
	}
	replies := map[int][]int{}
	for _, w := range want {
		if w.request != nil {
			replies[w.request.packet] = append(replies[w.request.packet], w.packet)
		}
	}
	for i, w := range want {
		if !w.Command.IsReply() && len(replies[w.packet]) > 0 {
			require.Contains(t, replies[w.packet], got[i].number(t, "response_in"))
		}
	}
}

// tshark accepts every filter of the README, and finds what the conversation has.
func TestWiresharkFiltersOfTheREADME(t *testing.T) {
	_, file := recorded(t)
	text, err := os.ReadFile("../tools/wireshark/README.md")
	require.NoError(t, err)
	finds := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`confcenter.*?`) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(row[1], -1) {
			filter := strings.ReplaceAll(strings.Trim(quoted, "`"), `\|`, "|")
			finds[filter] = len(tshark(t, "-r", file, "-2", "-Y", filter)) > 0
		}
	}
	require.GreaterOrEqual(t, len(finds), 8)
	for filter, found := range finds {
		few := strings.Contains(filter, "app1") || strings.Contains(filter, "time >")
		require.True(t, found || few, filter)
	}
}

// With a read filter, -R, two passes decide in the first one, which knows no replies.
func TestWiresharkRecipeForRequestsWithoutAReply(t *testing.T) {
	c, file := recorded(t)
	text, err := os.ReadFile("../tools/wireshark/README.md")
	require.NoError(t, err)
	recipe := regexp.MustCompile("(?m)^\\| `(.*?)` \\| requests without a reply, and pushes \\(tshark: with `(.*?)`\\) \\|").FindSubmatch(text)
	require.NotNil(t, recipe)
	asked, answered := map[int]bool{}, map[int]bool{}
	for _, f := range c.conversation() {
		if f.request != nil {
			answered[f.request.packet] = true
		}
		asked[f.packet] = asked[f.packet] || !f.Command.IsReply()
	}
	var want, got []string
	for packet := 1; packet <= c.packets; packet++ {
		if asked[packet] && !answered[packet] {
			want = append(want, strconv.Itoa(packet))
		}
	}
	require.NotEmpty(t, want, "the pushes")
	args := append([]string{"-r", file, "-T", "fields", "-e", "frame.number"}, strings.Fields(string(recipe[2]))...)
	got = strings.Fields(string(tshark(t, append(args, string(recipe[1]))...)))
	require.Equal(t, want, got)
}

func TestWiresharkFindsKeysWithinTransactions(t *testing.T) {
	_, file := recorded(t)
	found := map[string]bool{}
	for _, frame := range dissect(t, file, "-Y", `confcenter.key == "b"`) {
		for _, key := range frame.fields["confcenter.key"] {
			if key.Show == "b" {
				found[frame.text("name")] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"KVTXN": true, "KVEVENT": true, "KVLIST_RSP": true, "KVMGET": true, "KVMGET_RSP": true}, found)
	require.Empty(t, tshark(t, "-r", file, "-2", "-Y", `confcenter.key == "value"`), "only names of keys are keys")
}
