package integration

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

func frame(cmd protocol.Command, seq uint16, body string) []byte {
	return protocol.AppendFrame(nil, cmd, seq, []byte(body))
}

// headerOnly announces a body of n bytes that does not follow.
func headerOnly(cmd protocol.Command, seq uint16, n uint32) []byte {
	h := protocol.AppendHeader(nil, cmd, seq, 0)
	binary.BigEndian.PutUint32(h[2:], n)
	return h
}

// answered expects the reply to a request that was sent by hand.
func answered(t *testing.T, p *servertest.Peer, cmd protocol.Command, seq uint16) string {
	t.Helper()
	f := p.Next()
	require.Equal(t, cmd.Reply(), f.Command, f)
	require.Equal(t, seq, f.Seq, f)
	return f.Body
}

func TestHeader(t *testing.T) {
	srv := start(t, servertest.Options{})
	for _, version := range []byte{0, 1, 2, 255} {
		t.Run(fmt.Sprintf("version_%d_is_taken_and_answered_with_1", version), func(t *testing.T) {
			p := dial(t, srv)
			b := frame(protocol.Whoami, 1, `{"svrid":0}`)
			b[0] = version
			p.Raw(b)
			var head [2]byte
			_, err := p.Conn.Read(head[:])
			require.NoError(t, err)
			require.Equal(t, [2]byte{1, 10}, head)
		})
	}
	for _, length := range []byte{0, 9, 11, 255} {
		t.Run(fmt.Sprintf("header_length_%d_is_closed_without_a_reply", length), func(t *testing.T) {
			for _, p := range []*servertest.Peer{dial(t, srv), peer(t, srv)} {
				b := frame(protocol.Whoami, 1, `{"svrid":0}`)
				b[1] = length
				p.Raw(b)
				p.Closed()
			}
		})
	}
	for _, seq := range []uint16{0, 1, 0x7fff, 0x8000, 0xffff} {
		t.Run(fmt.Sprintf("sequence_%d_is_echoed", seq), func(t *testing.T) {
			p := peer(t, srv)
			p.Raw(frame(protocol.GetCfgName, seq, ""))
			answered(t, p, protocol.GetCfgName, seq)
		})
	}
}

func TestWhatWasAskedBeforeABadHeaderIsAnswered(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("large.json", `"`+strings.Repeat("x", 1<<20)+`"`)})
	p := peer(t, srv)
	var b burst
	for range 8 {
		b.add(protocol.GetConfig, `{"file_pattern":"large.json"}`)
	}
	b.frames = append(b.frames, 1, 11, 0, 0, 0, 0, 0, 9, 0, 1)
	p.Raw(b.frames)
	for i := range uint16(8) {
		answered(t, p, protocol.GetConfig, i+1)
	}
	p.Closed()
}

func TestBodyLength(t *testing.T) {
	srv := start(t, servertest.Options{})
	for _, row := range []struct {
		name       string
		identified bool
		limit      uint32
	}{{"before_whoami_64_KiB", false, 64 << 10}, {"after_whoami_4_MiB", true, 4 << 20}} {
		connect := func(t *testing.T) *servertest.Peer {
			if row.identified {
				return peer(t, srv)
			}
			return dial(t, srv)
		}
		t.Run(row.name+"_and_one_byte_is_closed_at_once_without_a_reply", func(t *testing.T) {
			for _, n := range []uint32{row.limit + 1, 200 << 20, 200<<20 + 1, 0xffffffff} {
				p := connect(t)
				p.Raw(headerOnly(protocol.Whoami, 1, n))
				p.Closed()
			}
		})
		t.Run(row.name+"_exactly_is_accepted", func(t *testing.T) {
			p := connect(t)
			body := `{"svrid":0}`
			body += strings.Repeat(" ", int(row.limit)-len(body))
			p.Raw(frame(protocol.Whoami, 1, body))
			require.EqualValues(t, 0, result(t, answered(t, p, protocol.Whoami, 1)).Code)
		})
	}
}

func TestBodyText(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`)})
	ask := func(t *testing.T, body string) string { return peer(t, srv).Call(protocol.GetConfig, body) }
	for name, body := range map[string]string{
		"byte_order_mark":         "\xef\xbb\xbf{}",
		"text_behind_it":          `{} x`,
		"second_value":            `{}{}`,
		"comment":                 `{/* no */}`,
		"trailing_comma":          `{"a":1,}`,
		"trailing_comma_in_array": `{"a":[1,]}`,
		"not_a_number":            `{"a":NaN}`,
		"infinity":                `{"a":Infinity}`,
		"number_beyond_double":    `{"a":1e400}`,
		"leading_zero":            `{"a":01}`,
		"raw_control_character":   "{\"a\":\"x\ny\"}",
		"lone_high_surrogate":     `{"a":"\ud800"}`,
		"lone_low_surrogate":      `{"a":"\udc00x"}`,
		"literal_in_wrong_case":   `{"a":True}`,
		"single_quotes":           `{'a':1}`,
		"nothing":                 ``,
		"blanks_only":             " \t\r\n",
		"a_nul_in_front":          "\x00{}",
	} {
		t.Run(name+"_is_404_and_stays_open", func(t *testing.T) {
			p := peer(t, srv)
			require.EqualValues(t, 404, result(t, p.Call(protocol.GetConfig, body)).Code)
			p.Quiet()
		})
	}
	t.Run("ends_at_a_nul", func(t *testing.T) {
		require.Contains(t, ask(t, "{\"file_pattern\":\"a.json\"}\x00 no { json"), `"contents":{"k":1}`)
	})
	t.Run("invalid_utf8_is_accepted_and_echoed_raw", func(t *testing.T) {
		require.Contains(t, ask(t, "{\"file_pattern\":\"a\xff\xfe\"}"), "\"file_pattern\":\"a\xff\xfe\"")
	})
	t.Run("first_of_equal_names_wins", func(t *testing.T) {
		require.Contains(t, ask(t, `{"file_pattern":"a.json","file_pattern":"none"}`), `"contents":{"k":1}`)
	})
	t.Run("names_are_case_sensitive", func(t *testing.T) {
		require.Contains(t, ask(t, `{"File_Pattern":"a.json"}`), `"file_pattern":"","contents":null`)
	})
	t.Run("escaped_names_are_the_same_names", func(t *testing.T) {
		require.Contains(t, ask(t, `{"file\u005fpattern":"a.json"}`), `"contents":{"k":1}`)
	})
	for _, body := range []string{`[]`, `5`, `"a.json"`, `null`, `true`, `[{"file_pattern":"a.json"}]`} {
		t.Run("no_object_is_like_no_members_"+body, func(t *testing.T) {
			require.Equal(t, `{"code":0,"mtime":0,"file_pattern":"","contents":null}`, ask(t, body))
		})
	}
}

func TestFieldTypes(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`)})
	mtime := peer(t, srv).Get("a.json").Mtime
	for name, value := range map[string]string{
		"float": fmt.Sprintf("%d.0", mtime), "bool": `true`, "string": fmt.Sprintf(`"%d"`, mtime), "null": `null`,
		"beyond_int32": "2147483648", "exponent": "2e9",
	} {
		t.Run("int_given_as_"+name+"_counts_as_absent", func(t *testing.T) {
			body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"a.json","gt_mtime":`+value+`}`)
			require.Contains(t, body, `"contents":{"k":1}`)
		})
	}
	t.Run("int_is_any_int32_literal", func(t *testing.T) {
		body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":"a.json","gt_mtime":2147483647}`)
		require.Equal(t, `1`, body)
	})
	for _, value := range []string{`5`, `null`, `true`, `["a.json"]`, `{}`} {
		t.Run("string_given_as_"+value+"_counts_as_empty", func(t *testing.T) {
			body := peer(t, srv).Call(protocol.GetConfig, `{"file_pattern":`+value+`}`)
			require.Contains(t, body, `"file_pattern":"","contents":null`)
		})
	}
	t.Run("svrid_of_getcli_and_hungup_and_to_may_be_strings", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		id := strconv.Itoa(int(q.ID))
		require.Contains(t, p.Call(protocol.GetCli, `{"svrid":"`+id+`"}`), `"count":1`)
		require.EqualValues(t, 0, result(t, p.Call(protocol.Hungup, `{"op":"set","svrid":"`+id+`"}`)).Code)
		p.Send(protocol.EvNotify, `{"to":"`+id+`","notify":"x"}`)
		require.Equal(t, protocol.EvNotify, q.Next().Command)
	})
}

func TestFrameBoundaries(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`)})
	request := frame(protocol.GetConfig, 7, `{"file_pattern":"a.json"}`)
	t.Run("a_body_cut_anywhere_is_fine_and_a_header_cut_anywhere_too", func(t *testing.T) {
		p := peer(t, srv)
		other := peer(t, srv)
		for cut := 1; cut < len(request); cut++ {
			p.Raw(request[:cut])
			other.Quiet() // the server has had the time to look at the first part
			p.Raw(request[cut:])
			require.Contains(t, answered(t, p, protocol.GetConfig, 7), `"contents":{"k":1}`)
		}
	})
	t.Run("byte_by_byte", func(t *testing.T) {
		p := peer(t, srv)
		for _, b := range request {
			p.Raw([]byte{b})
		}
		answered(t, p, protocol.GetConfig, 7)
	})
	t.Run("many_frames_in_one_segment_are_answered_each_in_order", func(t *testing.T) {
		p := peer(t, srv)
		const n = 5000 // far more than the burst that gets a CppCloud connection closed
		var burst []byte
		for i := range n {
			burst = append(burst, frame(protocol.GetConfig, uint16(i), `{"file_pattern":"a.json"}`)...)
		}
		go p.Write(burst)
		for i := range n {
			answered(t, p, protocol.GetConfig, uint16(i))
		}
	})
	t.Run("the_end_of_one_and_the_beginning_of_the_next_in_one_segment", func(t *testing.T) {
		p := peer(t, srv)
		two := bytes.Repeat(request, 2)
		half := len(request) + 15
		p.Raw(two[:half])
		answered(t, p, protocol.GetConfig, 7)
		p.Raw(two[half:])
		answered(t, p, protocol.GetConfig, 7)
	})
	t.Run("a_withheld_body_or_half_a_header_stalls_nobody_else", func(t *testing.T) {
		for range 8 {
			peer(t, srv).Raw(headerOnly(protocol.SetConfig, 1, 1<<20))
			dial(t, srv).Raw([]byte{1, 10, 0})
		}
		for range 4 {
			require.NotNil(t, peer(t, srv).Get("a.json").Contents)
		}
	})
	t.Run("half_closed_after_requests_gets_all_replies_then_the_close", func(t *testing.T) {
		p := peer(t, srv)
		const n = 50
		p.Raw(bytes.Repeat(request, n))
		p.CloseWrite()
		for range n {
			answered(t, p, protocol.GetConfig, 7)
		}
		p.Closed()
	})
	t.Run("half_closed_after_a_write_keeps_the_write", func(t *testing.T) {
		p, q := peer(t, srv), peer(t, srv)
		p.Raw(frame(protocol.SetConfig, 1, `{"filename":"last.json","contents":{"stands":true}}`))
		p.CloseWrite()
		eventually(t, "the write stands", func() bool { return q.Get("last.json").Contents != nil })
	})
}

// Clients read a header and then a body with one call each; pieces or delays break them
// while they start.
func TestOneFrameIsOneWrite(t *testing.T) {
	big := `{"k":"` + strings.Repeat("x", 10_000) + `"}`
	srv := start(t, servertest.Options{Files: files("big.json", big)})
	p := dial(t, srv)
	p.Identify(`{"svrid":0}`)
	buf := make([]byte, 64<<10)
	for range 200 {
		p.Send(protocol.GetConfig, `{"file_pattern":"big.json"}`)
		require.NoError(t, p.SetReadDeadline(time.Now().Add(servertest.Patience)))
		n, err := p.Conn.Read(buf)
		require.NoError(t, err)
		require.Equal(t, n, protocol.HeaderSize+int(binary.BigEndian.Uint32(buf[2:])), "header and body came in one read")
	}
}

// The server runs in this process, so the options of its sockets can be read.
func TestSocketOptions(t *testing.T) {
	srv := start(t, servertest.Options{})
	p := peer(t, srv)
	fd, err := strconv.Atoi(properties(t, p, p.ID)["fd"])
	require.NoError(t, err)
	option := func(level, name int) int {
		value, err := unix.GetsockoptInt(fd, level, name)
		require.NoError(t, err)
		return value
	}
	require.NotZero(t, option(unix.IPPROTO_TCP, unix.TCP_NODELAY), "small frames do not wait for acknowledgements")
	require.NotZero(t, option(unix.SOL_SOCKET, unix.SO_KEEPALIVE), "a half-open connection does not hold its id for half an hour")
	require.LessOrEqual(t, option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT), 60_000)
	require.NotZero(t, option(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT))
}
