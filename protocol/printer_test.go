package protocol_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

var update = flag.Bool("update", false, "write testdata anew")

func line(p protocol.Printer, cmd protocol.Command, seq uint16, body string) string {
	return string(p.AppendLine(nil, protocol.Header{Command: cmd, Seq: seq, BodyLen: uint32(len(body))}, []byte(body)))
}

func TestPrinterLine(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 200) + `"}`
	for _, c := range []struct {
		name string
		p    protocol.Printer
		cmd  protocol.Command
		body string
		want string
	}{
		{"no body", protocol.Printer{}, protocol.KeepAlive, "", "KEEPALIVE seq=7 0B"},
		{"a reply", protocol.Printer{}, protocol.KeepAlive.Reply(), "", "KEEPALIVE_RSP seq=7 0B"},
		{"an unknown id", protocol.Printer{}, 0x0f00, "x", "0x0F00 seq=7 1B x"},
		{"blanks are left out, the length is the wire's", protocol.Printer{}, protocol.GetConfig,
			` { "file_pattern" : "a b" } `, `GETCONFIG seq=7 28B {"file_pattern":"a b"}`},
		{"cut", protocol.Printer{Width: 8}, protocol.GetConfig, long, `GETCONFIG seq=7 208B {"a":"xx… +200B`},
		{"cut at the default", protocol.Printer{}, protocol.GetConfig, long, `GETCONFIG seq=7 208B ` + long[:120] + `… +88B`},
		{"exactly as long as allowed", protocol.Printer{Width: 7}, protocol.GetConfig, `{"a":1}`, `GETCONFIG seq=7 7B {"a":1}`},
		{"never in the middle of a character", protocol.Printer{Width: 4}, protocol.GetConfig, `"aé€"`, `GETCONFIG seq=7 8B "aé… +4B`},
		{"whole", protocol.Printer{Style: protocol.BodyWhole}, protocol.GetConfig, long, `GETCONFIG seq=7 208B ` + long},
		{"left out", protocol.Printer{Style: protocol.BodyNone}, protocol.GetConfig, long, `GETCONFIG seq=7 208B`},
		{"not JSON", protocol.Printer{}, protocol.GetConfig, "ok\r\nGETCONFIG", `GETCONFIG seq=7 13B ok\x0D\x0AGETCONFIG`},
		{"terminal escapes", protocol.Printer{}, protocol.GetConfig, "\"\x7f\x1b[2J\u0085\u202e\"", `GETCONFIG seq=7 12B "\x7F\x1B[2J\xC2\x85\xE2\x80\xAE"`},
		{"not UTF-8", protocol.Printer{}, protocol.GetConfig, "\"\xff\"", `GETCONFIG seq=7 3B "\xFF"`},
		{"pretty", protocol.Printer{Style: protocol.BodyPretty}, protocol.GetConfig, `{"a":[1],"b":{}}`,
			"GETCONFIG seq=7 16B\n{\n    \"a\": [\n        1\n    ],\n    \"b\": {}\n}"},
		{"octets are counted", protocol.Printer{}, protocol.KVPut, "{\"ns\":\"a\", \"raw\":3}\x1b[m", `KVPUT seq=7 22B {"ns":"a","raw":3} raw=3B`},
		{"octets of a reply", protocol.Printer{}, protocol.KVGet.Reply(), `{"raw":2}{}`, `KVGET_RSP seq=7 11B {"raw":2} raw=2B`},
		{"octets behind cut JSON", protocol.Printer{Width: 4}, protocol.KVEvent, `{"raw":2}{}`, `KVEVENT seq=7 11B {"ra… +5B raw=2B`},
		{"octets, pretty", protocol.Printer{Style: protocol.BodyPretty}, protocol.KVPut, `{"raw":2}{}`, "KVPUT seq=7 11B\n{\n    \"raw\": 2\n} raw=2B"},
		{"octets left out", protocol.Printer{Style: protocol.BodyNone}, protocol.KVPut, `{"raw":2}{}`, "KVPUT seq=7 11B"},
		{"a store's command that is no object", protocol.Printer{}, protocol.KVPut, "12\x00", `KVPUT seq=7 3B 12\x00`},
		{"CppCloud's commands have no octets", protocol.Printer{}, protocol.GetConfig, "{}\x00", `GETCONFIG seq=7 3B {}\x00`},
		{"pretty, not JSON", protocol.Printer{Style: protocol.BodyPretty}, protocol.GetConfig, "ok\n", `GETCONFIG seq=7 3B ok\x0A`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, line(c.p, c.cmd, 7, c.body))
		})
	}
}

// Half a megabyte of text can ask for half a gigabyte of blanks.
func TestPrinterDoesNotBlowUpDeepBodies(t *testing.T) {
	body := strings.Repeat("[", 500) + strings.Repeat("1,", 250_000) + "1" + strings.Repeat("]", 500)
	got := line(protocol.Printer{Style: protocol.BodyPretty}, protocol.GetConfig, 1, body)
	require.Equal(t, line(protocol.Printer{Style: protocol.BodyWhole}, protocol.GetConfig, 1, body), got)
}

func TestPrinterStream(t *testing.T) {
	first := protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0}`))
	two := protocol.AppendFrame(first, protocol.KeepAlive, 2, nil)
	lines := "WHOAMI seq=1 11B {\"svrid\":0}\nKEEPALIVE seq=2 0B\n"
	for name, c := range map[string]struct{ stream, want string }{
		"whole":             {string(two), lines},
		"empty":             {"", ""},
		"cut in a header":   {string(two) + "\x01\x0a\x00", lines + "! 3 bytes of a header\n"},
		"cut in a body":     {string(two) + string(first[:12]), lines + "WHOAMI seq=1 11B ! 9 of the body's bytes are missing\n"},
		"not this protocol": {string(two) + "GET / HTTP/1.1\r\n", lines + "! " + (&protocol.HeaderError{HTTP: true}).Error() + "\n"},
		"a length that lies": {string(protocol.AppendHeader(nil, protocol.GetConfig, 1, 0xFFFFFFFF)),
			"GETCONFIG seq=1 4294967295B ! 4294967295 of the body's bytes are missing\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, string(protocol.Printer{}.AppendStream(nil, []byte(c.stream))))
		})
	}
}

// talk is one side's frames of a conversation, in the order they were sent.
type talk struct {
	toServer bool
	frame    []byte
}

func ask(cmd protocol.Command, seq uint16, body []byte) talk {
	return talk{true, protocol.AppendFrame(nil, cmd, seq, body)}
}

func answer(cmd protocol.Command, seq uint16, body []byte) talk {
	return talk{false, protocol.AppendFrame(nil, cmd.Reply(), seq, body)}
}

func push(seq uint16, c protocol.Change) talk {
	return talk{false, protocol.AppendFrame(nil, protocol.EvNotify, seq, protocol.AppendChange(nil, c))}
}

// conversation is a client's life, every family of messages once. On its first
// connection it forgot to say who it is.
func conversation() []talk {
	found := func(name, contents string, mtime int32) []byte {
		return append(append(protocol.AppendConfigStart(nil, mtime, []byte(name)), contents...), protocol.ConfigEnd...)
	}
	file := protocol.Subscription{File: "app1-dev", Inherit: true, Mtime: 1539596952, HasMtime: true}
	part := protocol.Subscription{File: "app1-dev", Path: "/key3", Inherit: true}
	update := protocol.ConfigUpdate{Name: "app1.json", Contents: []byte(`{"key1":"new"}`), IfMtime: 1539596952, HasIfMtime: true}
	me := []protocol.Property{{"_ip", "127.0.0.1"}, {"svrid", "2001"}, {"svrname", "app1"}}
	files := []protocol.ConfigFile{
		{Name: "app1.json", Mtime: 1539596953, Size: 14, State: protocol.FileGood},
		{Name: "app2.json", Mtime: 1539596950, Size: 2, State: protocol.FileBroken, Reason: "offset 9: text ends too early"},
	}
	return []talk{
		ask(protocol.GetConfig, 1, protocol.AppendConfigQuery(nil, "app1", "", 0, false)),
		answer(protocol.GetConfig, 1, protocol.AppendResult(nil, 401, "Not Auth(0xE-1)")),
		ask(protocol.Whoami, 1, protocol.AppendIdentify(nil, protocol.Identify{Name: "app1", Tag: "dev", Props: map[string]string{"pid": "4711", "desc": "a \"quoted\"\nline"}})),
		answer(protocol.Whoami, 1, protocol.AppendIdentified(nil, 2001, "app1-dev.json", "6a1f")),
		ask(protocol.GetConfig, 2, protocol.AppendConfigQuery(nil, "app1-dev", "", 0, true)),
		answer(protocol.GetConfig, 2, found(`"app1-dev"`, `{"key1":"key1 in app1-dev","price":1.50,"ключ":"значение"}`, 1539596952)),
		ask(protocol.GetConfig, 3, protocol.AppendConfigQuery(nil, "app1-dev", "/key3/subkey3", 1539596952, true)),
		answer(protocol.GetConfig, 3, protocol.UpToDate),
		ask(protocol.GetConfig, 4, protocol.AppendConfigQuery(nil, "nothing", "", 1, false)),
		answer(protocol.GetConfig, 4, protocol.AppendNoSuchConfig(nil, 404, []byte(`"nothing"`), "no such file")),
		ask(protocol.BookCfgChange, 5, protocol.AppendSubscription(nil, file)),
		answer(protocol.BookCfgChange, 5, protocol.AppendSubscribed(nil, 1539596952, "monitor common.json app1.json app1-dev.json  success")),
		ask(protocol.BookCfgChange, 6, protocol.AppendSubscription(nil, part)),
		answer(protocol.BookCfgChange, 6, protocol.AppendSubscribed(nil, 1539596952, "monitor common.json app1.json app1-dev.json  success")),
		ask(protocol.SetConfig, 7, protocol.AppendConfigUpdate(nil, update)),
		push(1, protocol.Change{File: "app1.json", Mtime: 1539596953}),
		push(2, protocol.Change{File: "app1-dev", Mtime: 1539596953}),
		push(3, protocol.Change{File: "app1-dev", Mtime: 1539596953, Path: "/key3"}),
		answer(protocol.SetConfig, 7, protocol.AppendConfigUpdated(nil, 0, 1539596953, "success")),
		ask(protocol.SetConfig, 8, protocol.AppendConfigUpdate(nil, update)),
		answer(protocol.SetConfig, 8, protocol.AppendConfigUpdated(nil, 412, 1539596953, "app1.json is at version 1539596953")),
		ask(protocol.GetCfgName, 9, nil),
		answer(protocol.GetCfgName, 9, []byte(`{"app1.json":[1,1539596953],"app2.json":[1,1539596950]}`)),
		ask(protocol.GetCfgName, 10, []byte(`{"detail":1}`)),
		answer(protocol.GetCfgName, 10, protocol.AppendConfigFiles(nil, files, []protocol.ConfigProblem{{Name: "app2.json", Text: "broken"}})),
		ask(protocol.GetCli, 11, []byte(`{"svrid":"2001"}`)),
		answer(protocol.GetCli, 11, protocol.AppendRecords(nil, slices.Values([][]protocol.Property{me}), true)),
		ask(protocol.GetLogr, 12, []byte(`{"size":1}`)),
		answer(protocol.GetLogr, 12, protocol.AppendLines(nil, []string{"2018-10-15 09:49:12: CLIENT_LOGIN| app1#2001"})),
		ask(protocol.EvNotify, 13, []byte(`{"to":2002,"notify":"check-alive"}`)),
		answer(protocol.EvNotify, 13, protocol.AppendRouteError(nil, 1, 2001, nil)),
		ask(protocol.EvNotify, 14, []byte(`{"notify":"closelink","svrid":2002}`)),
		answer(protocol.EvNotify, 14, protocol.AppendNotifyResult(nil, -2, []byte(protocol.NotifyCloseLink))),
		ask(protocol.SvrSearch, 15, []byte(`{"regname":"httpapp1"}`)),
		answer(protocol.SvrSearch, 15, protocol.AppendResult(nil, 501, "the service registry is not part of this server yet")),
		{false, protocol.AppendFrame(nil, protocol.KeepAlive, 4, nil)},
		{true, protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), 4, nil)},
		ask(0x0F01, 16, []byte("ignored\x1b[31m")),
	}
}

// The lines are what conversation tests and capture tools show; a change here is
// a change of their format, or of the wire.
func TestPrinterGolden(t *testing.T) {
	const file = "testdata/conversation.golden"
	var got []byte
	for _, one := range conversation() {
		arrow := "← "
		if one.toServer {
			arrow = "→ "
		}
		got = protocol.Printer{Style: protocol.BodyWhole}.AppendStream(append(got, arrow...), one.frame)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// requirePlain proves that text cannot break out of its line or steer a terminal.
func requirePlain(t *testing.T, text []byte, lines bool) {
	require.True(t, utf8.Valid(text), "%q", text)
	for _, r := range string(text) {
		if r == '\n' && lines {
			continue
		}
		require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r), "%U in %q", r, text)
	}
}

func FuzzPrinter(f *testing.F) {
	f.Add(uint16(1), uint16(1), uint32(5), []byte("{\"a\":\"\\n\x7f\"}"), 0)
	f.Add(uint16(0x100E), uint16(9), uint32(0), []byte("\x1b[2J\r\n\u2028\u202e\xff"), 3)
	f.Add(uint16(0xFFFF), uint16(0), uint32(1<<31), []byte(strings.Repeat("é", 200)), 7)
	f.Add(uint16(0x0101), uint16(2), uint32(9), []byte("{\"raw\":3}\x1b[m"), 3)
	f.Fuzz(func(t *testing.T, cmd, seq uint16, length uint32, body []byte, width int) {
		h := protocol.Header{Command: protocol.Command(cmd), Seq: seq, BodyLen: length}
		for _, style := range []protocol.BodyStyle{protocol.BodyCut, protocol.BodyWhole, protocol.BodyNone} {
			p := protocol.Printer{Style: style, Width: width}
			one := p.AppendLine([]byte("kept "), h, body)
			requirePlain(t, one, false)
			require.True(t, bytes.HasPrefix(one, []byte("kept "+h.Command.String()+" seq=")))
			if style == protocol.BodyCut && width > 0 && width < 1<<20 {
				require.LessOrEqual(t, len(one), 100+4*width)
			}
		}
		pretty := protocol.Printer{Style: protocol.BodyPretty}
		requirePlain(t, pretty.AppendLine(nil, h, body), true)
	})
}

func FuzzPrinterStream(f *testing.F) {
	f.Add(protocol.AppendFrame(nil, protocol.Whoami, 1, []byte("{}\n")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		out := protocol.Printer{}.AppendStream(nil, stream)
		requirePlain(t, out, true)
		require.LessOrEqual(t, bytes.Count(out, []byte("\n")), len(stream)/protocol.HeaderSize+1, "a line a frame")
		require.Equal(t, len(stream) == 0, len(out) == 0)
	})
}
