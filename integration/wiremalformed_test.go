package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// began is when made-up captures begin.
var began = time.Unix(1700000000, 0)

// bodies are JSON and nearly JSON.
var bodies = []string{
	`{}`, ` {"a":1} `, `[]`, `1`, `"x"`, `null`, `true`, `-0`, `0.5e-07`, `1E+2`, `1e308`, `-1e308`, `{"a":[{},[],{"b":[1,{"c":null}]}]}`,
	`{"":1}`, `{"a":1,"a":2}`, `"\"\\\/\b\f\n\r\t\u00aF"`, `"\uD83D\uDE00"`, "\"\x7f\"", "\"\xff\xc3\x28\"", `{"é":"ü"}`,
	strings.Repeat("[", 512) + strings.Repeat("]", 512), "1" + strings.Repeat("0", 308), strings.Repeat("9", 400) + "e-300",
	" ", `{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":2}`, `{}x`, `{} {}`, `]`, `}`, `,`,
	`01`, `+1`, `1.`, `.5`, `-`, `1e`, `1e+`, `0x10`, `NaN`, `Infinity`, `tru`, `nul`, `True`, `truex`, `1e400`, `-1e400`, "1" + strings.Repeat("0", 400),
	`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12G4"`, `"\uD83D"`, `"\uDE00"`, `"\uD83D\u0041"`, `"\uD83Dx"`, "\"\n\"", "\"\x01\"", "\xEF\xBB\xBF{}", "// x\n{}",
	strings.Repeat("[", 513) + strings.Repeat("]", 513), strings.Repeat(`{"a":`, 513) + "1" + strings.Repeat("}", 513), "\xff", "{}\x00", "{}\x00x", "\x00{}", "{\x00}", "{\"a\x00\":1}",
}

// The dissector finds the same faults in bodies as the server, at the same place.
func TestWiresharkJudgesJSONAsTheServer(t *testing.T) {
	t.Parallel()
	c := newCapture(t)
	w := c.conn(4800, false, began)
	for i, body := range bodies {
		w.send(0, frame(protocol.GetCli, uint16(i), body), began, 0)
	}
	frames := dissect(t, c.done())
	require.Len(t, frames, len(bodies))
	for i, body := range bodies {
		var r protocol.Request
		err := r.Parse([]byte(body))
		var want []string
		if err != nil {
			offset, _, _ := strings.Cut(err.Error(), ":")
			want = []string{"Body " + offset}
		}
		var got []string
		for _, message := range frames[i].experts {
			place, _, _ := strings.Cut(message, ":")
			got = append(got, place)
		}
		require.Equal(t, want, got, "%q: %v: %s", body, err, frames[i].experts)
		require.Equal(t, len(body), len(frames[i].octets(t, "body"))+len(frames[i].octets(t, "rest")), "%q", body)
	}
	require.Equal(t, 512, jsontext.MaxDepth)
}

// Octets after the JSON are shown separately, one field for each value.
func TestWiresharkShowsOctetsBehindJSON(t *testing.T) {
	t.Parallel()
	type sent struct {
		cmd    protocol.Command
		body   string
		json   int
		raw    []string
		expert string
	}
	text := func(json, tail string, cmd protocol.Command, expert string, raw ...string) sent {
		return sent{cmd, json + tail, len(json), raw, expert}
	}
	all := []sent{
		text(`{"ns":"a","key":"k","raw":3}`, "a\x00c", protocol.KVPut, "", "a\x00c"),
		text(`{"ns":"a","key":"k","type":"bytes","raw":"3"}`, "}{\xff", protocol.KVPut, "", "}{\xff"),
		text(`{"ns":"a","key":"k","raw":0}`, "", protocol.KVPut, ""),
		text(`{"ns":"a","key":"k","expect":{"raw":2},"raw":3}`, "eevvv", protocol.KVCas, "", "ee", "vvv"),
		text(`{"ns":"a","key":"k","raw":1}`, "", protocol.KVGet, ""),
		text(`{"ns":"a","key":"k","raw":1}`, " \n", protocol.KVGet, ""),
		text(`{"ns":"a","if":[{"key":"k","target":"value","raw":1}],"then":[{"op":"put","key":"k","raw":2},{"op":"put","key":"j","value":{"raw":9}}],"raw":1}`,
			"1zz", protocol.KVTxn, "", "1", "zz"),
		text(`{"code":0,"rev":9,"type":"bytes","raw":4,"create":1}`, "wxyz", protocol.KVGet.Reply(), "", "wxyz"),
		text(`{"code":0,"rev":9,"entries":[{"key":"a","raw":1},null,{"key":"b","type":"json","value":{"raw":7}},{"key":"c","raw":2}]}`, "abb", protocol.KVList.Reply(), "", "a", "bb"),
		text(`{"watch":1,"rev":3,"events":[{"op":"put","raw":1,"prev":{"raw":1}}]}`, "np", protocol.KVEvent, "", "n", "p"),
		text(`{"ns":"a","key":"k","raw":3}`, "ab", protocol.KVPut, "Body offset 28: 3 octets are announced behind the JSON, there are 2", "ab"),
		text(`{"ns":"a","key":"k","raw":1}`, "ab", protocol.KVPut, "Body offset 28: 1 octets are announced behind the JSON, there are 2", "ab"),
		text(`{"ns":"a","key":"k"}`, "x", protocol.KVGet, "Body offset 20: no octets are announced, and text follows the JSON", "x"),
		text(`{"ns":"a","key":"k"}`, "\x00x", protocol.KVGet, ""),
	}
	c := newCapture(t)
	w := c.conn(4800, true, began)
	for i, s := range all {
		side := 0
		if s.cmd.IsReply() {
			side = 1
		}
		w.send(side, frame(s.cmd, uint16(i), s.body), began, 0)
	}
	frames := dissect(t, c.done())
	require.Len(t, frames, len(all))
	for i, s := range all {
		require.Equal(t, s.body[:s.json], frames[i].octets(t, "body"), "%d", i)
		require.Equal(t, strings.Join(s.raw, ""), frames[i].octets(t, "raw"), "%d", i)
		require.Len(t, frames[i].fields["confcenter.raw"], len(s.raw), "%d", i)
		require.Equal(t, s.expert, strings.Join(frames[i].experts, "; "), "%d", i)
		require.Equal(t, s.expert == "", frames[i].has("json"), "%d: JSON is shown as a tree where it is sound", i)
	}
}

// Bytes that are not a frame are marked, with the reason, and what follows is decoded.
func TestWiresharkFindsItsPlaceAgain(t *testing.T) {
	t.Parallel()
	good := func(seq int) []byte { return frame(protocol.GetConfig, uint16(seq), `{"file_pattern":"a.json"}`) }
	join := func(parts ...[]byte) (all []byte) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	c := newCapture(t)
	w := c.conn(4800, false, began)
	w.send(0, join([]byte(`ey":"the end of a frame"}`), good(1), good(2)), began, 0)
	w.send(0, join([]byte("GET / HTTP/1.1\r\n\r\n"), good(3)), began, 0)
	w.send(0, join([]byte{1, 10, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 1}, good(4)), began, 0)
	w.send(0, join([]byte{9, 10, 0, 0, 0, 2, 9, 9, 0, 1, '{', '}'}, good(4)), began, 0)
	w.send(0, join([]byte("}"), frame(protocol.GetConfig, 0, "{}")[:9], []byte("\x00x"), good(4)), began, 0)
	w.send(0, frame(0x0777, 5, `{}`), began, 0)
	w.send(0, frame(0x3001, 6, `{}`), began, 0)
	w.send(0, frame(protocol.Whoami, 7, ``), began, 0)
	w.send(0, frame(protocol.KeepAlive, 8, ``), began, 0)
	long := good(9)
	w.send(0, long, began, 54+len(long)-4)
	w.send(0, good(10), began, 54+4)
	w.send(0, good(11)[:20], began, 0)
	w.lose(0, len(good(11))-20)
	w.send(0, good(12), began, 0)
	w.send(1, frame(protocol.GetConfig.Reply(), 1, `{"code":404,"desc":"there is no \"a.json\""}`), began.Add(time.Second), 0)
	w.send(1, frame(protocol.GetConfig.Reply(), 2, `1`), began.Add(time.Second), 0)
	w.send(1, frame(protocol.GetCfgName.Reply(), 3, `{"code":[1,7],"desc":[1,8]}`), began, 0)

	var lines []string
	for _, s := range dissect(t, c.done()) {
		line := fmt.Sprintf("%s %s %s", s.text("name"), s.text("seq"), strings.Join(s.experts, "; "))
		lines = append(lines, strings.TrimSpace(line))
	}
	require.Equal(t, []string{
		"Skipped 25 bytes up to the next frame: the header's length is 121, it must be 10", "GETCONFIG 1", "GETCONFIG 2",
		"Skipped 18 bytes up to the next frame: the header's length is 69, it must be 10", "GETCONFIG 3",
		"Skipped 10 bytes up to the next frame: 4294967295 bytes of body are more than any frame has", "GETCONFIG 4",
		"Skipped 12 bytes up to the next frame: the version is 9, and there is no command 0x0909", "GETCONFIG 4",
		"Skipped 12 bytes up to the next frame: the header's length is 1, it must be 10", "GETCONFIG 4",
		"0x0777 5 There is no command 0x0777", "0x3001 6 There is no command 0x3001",
		"WHOAMI 7 Body offset 0: empty text", "KEEPALIVE 8",
		"GETCONFIG 9 4 of the body's bytes are missing",
		"The capture does not have all of the frame",
		"GETCONFIG 12",
		`GETCONFIG_RSP 1 Refused with code 404: there is no "a.json"`, "GETCONFIG_RSP 2", "GETCFGNAME_RSP 3",
	}, lines)
}

// Servers on other ports are recognised by their frames, and by the preference.
func TestWiresharkFindsTheProtocolOnAnyPort(t *testing.T) {
	t.Parallel()
	c := newCapture(t)
	w := c.conn(4900, false, began)
	body := `{"svrid":0,"svrname":"app"}`
	w.send(0, frame(protocol.Whoami, 1, body), began, 0)
	w.send(1, frame(protocol.Whoami.Reply(), 1, `{"code":0,"svrid":2001}`), began, 0)
	other := c.conn(4901, false, began)
	other.send(0, frame(0x0777, 2, body), began, 0)
	other.send(0, []byte("GET / HTTP/1.1\r\n\r\n"), began, 0)
	file := c.done()
	require.Len(t, dissect(t, file), 2)
	require.Len(t, dissect(t, file, "-o", "confcenter.ports:4901"), 4)
	require.Empty(t, dissect(t, file, "--disable-heuristic", "confcenter_tcp"))
	require.Len(t, dissect(t, file, "-o", "confcenter.ports:4900-4901", "--disable-heuristic", "confcenter_tcp"), 4)
}

// A client that returns on the same port starts a new conversation: its replies do not
// answer requests that the first one left open.
func TestWiresharkTellsReusedPortsApart(t *testing.T) {
	t.Parallel()
	c := newCapture(t)
	for i, name := range []string{"first", "second"} {
		at := began.Add(time.Duration(i) * time.Hour)
		w := c.conn(4800, false, at)
		c.conns-- // the next one has its port
		w.send(0, frame(protocol.Whoami, 1, fmt.Sprintf(`{"svrid":0,"svrname":%q}`, name)), at, 0)
		w.send(1, frame(protocol.Whoami.Reply(), 1, `{"code":0,"svrid":2001}`), at.Add(time.Second), 0)
		w.send(0, frame(protocol.GetConfig, 2, `{"file_pattern":"a"}`), at.Add(2*time.Second), 0)
		if i == 1 {
			w.send(1, frame(protocol.GetConfig.Reply(), 2, `1`), at.Add(5*time.Second), 0)
		}
	}
	var lines []string
	for _, s := range dissect(t, c.done()) {
		lines = append(lines, fmt.Sprintf("%s %s %s", s.text("name"), s.text("svrname"), s.text("time")))
	}
	require.Equal(t, []string{
		"WHOAMI  ", "WHOAMI_RSP first 1.000000000", "GETCONFIG first ",
		"WHOAMI  ", "WHOAMI_RSP second 1.000000000", "GETCONFIG second ", "GETCONFIG_RSP second 3.000000000",
	}, lines)
}

// Bytes that are changed, lost or cut off cost frames, but never crash the dissector.
func TestWiresharkSurvivesDamage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	c := newCapture(t)
	for i := range 40 {
		w := c.conn(4800, i%2 == 1, began)
		for seq := range 30 {
			body := bodies[random.IntN(len(bodies))]
			if random.IntN(2) == 0 {
				body = `{"ns":"a","key":"k","expect":{"raw":2},"raw":3}` + "eevvv"
			}
			row := protocol.Commands[random.IntN(len(protocol.Commands))]
			id := row.ID
			if random.IntN(2) == 0 {
				id = id.Reply()
			}
			data := frame(id, uint16(seq), body)
			for range random.IntN(4) {
				data[random.IntN(len(data))] = byte(random.IntN(256))
			}
			snap := 0
			switch random.IntN(8) {
			case 0:
				w.lose(0, random.IntN(50))
			case 1:
				snap = 54 + random.IntN(len(data))
			case 2:
				data = data[random.IntN(len(data)):]
			}
			w.sendNow(random.IntN(2), data[:len(data)/2], 1400)
			w.send(random.IntN(2), data[len(data)/2:], began, snap)
		}
	}
	frames := dissect(t, c.done())
	require.NotEmpty(t, frames)
	for _, f := range frames {
		require.False(t, f.has("_ws.lua.error"))
	}
}
