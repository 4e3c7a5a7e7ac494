package integration

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
	"confcenter/server/tcp/loop"
)

// mayPrecede are the ids that a connection may send before WHOAMI.
var mayPrecede = map[protocol.Command]bool{
	protocol.Whoami: true, protocol.Whoami.Reply(): true, protocol.Iamserv: true, protocol.Iamserv.Reply(): true,
}

// strangeIDs are all ids of the table and the ends of every range.
func strangeIDs() []protocol.Command {
	ids := []protocol.Command{0, 0x1E, 0x1F, 0xFF, 0x100, 0x1FF, 0x200, 0xFFF, 0x1000, 0x101E, 0x1FFF, 0x2000, 0x2001, 0x7FFF, 0x8000, 0xEFFF, 0xF00E, 0xFFFF}
	for _, row := range protocol.Commands {
		ids = append(ids, row.ID, row.ID.Reply())
	}
	return ids
}

func TestBeforeWhoami(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{}`)})
	for _, cmd := range strangeIDs() {
		if mayPrecede[cmd] {
			continue
		}
		for name, body := range map[string]string{"empty": ``, "object": `{"file_pattern":"a.json","filename":"b.json","contents":{}}`, "bad": `{`} {
			if cmd.IsReply() {
				t.Run(fmt.Sprintf("reply_0x%X_%s_is_closed_without_a_reply", uint16(cmd), name), func(t *testing.T) {
					p := dial(t, srv)
					p.Raw(frame(cmd, 7, body))
					p.Closed()
				})
				continue
			}
			t.Run(fmt.Sprintf("request_0x%X_%s_is_401_and_closed", uint16(cmd), name), func(t *testing.T) {
				p := dial(t, srv)
				p.Raw(frame(cmd, 7, body))
				require.Equal(t, protocol.Result{Code: 401, Desc: fmt.Sprintf("Not Auth(0x%X-7)", uint16(cmd))}, result(t, answered(t, p, cmd, 7)))
				p.Closed()
			})
		}
	}
	t.Run("desc_has_the_id_in_upper_case_hex_and_the_sequence", func(t *testing.T) {
		p := dial(t, srv)
		p.Raw(frame(0x000E, 65535, ``))
		require.Equal(t, "Not Auth(0xE-65535)", result(t, answered(t, p, 0x000E, 65535)).Desc)
	})
	for cmd := range mayPrecede {
		if cmd == protocol.Whoami {
			continue
		}
		t.Run(fmt.Sprintf("0x%X_is_ignored_and_identifies_nobody", uint16(cmd)), func(t *testing.T) {
			p := dial(t, srv)
			for _, body := range []string{`{"code":0,"svrid":5}`, `{"svrid":5}`, ``, `{`} {
				p.Raw(frame(cmd, 1, body))
			}
			require.EqualValues(t, 401, result(t, p.Call(protocol.GetCfgName, ``)).Code)
			p.Closed()
		})
	}
	t.Run("what_comes_behind_a_fatal_error_is_not_executed", func(t *testing.T) {
		p, q := dial(t, srv), peer(t, srv)
		var b burst
		b.add(protocol.GetCfgName, ``)
		b.add(protocol.Whoami, `{"svrid":4000}`)
		b.add(protocol.SetConfig, `{"filename":"behind.json","contents":{}}`)
		p.Raw(b.frames)
		require.EqualValues(t, 401, result(t, answered(t, p, protocol.GetCfgName, 1)).Code)
		p.Closed()
		require.Nil(t, q.Get("behind.json").Contents)
		require.EqualValues(t, 404, result(t, q.Call(protocol.GetCli, `{"svrid":4000}`)).Code)
	})
	t.Run("what_comes_behind_a_refused_whoami_is_not_executed", func(t *testing.T) {
		p, q := dial(t, srv), peer(t, srv)
		var b burst
		b.add(protocol.Whoami, `{}`)
		b.add(protocol.Whoami, `{"svrid":4000}`)
		p.Raw(b.frames)
		require.EqualValues(t, 400, result(t, answered(t, p, protocol.Whoami, 1)).Code)
		p.Closed()
		require.EqualValues(t, 404, result(t, q.Call(protocol.GetCli, `{"svrid":4000}`)).Code)
	})
}

func TestUnknownAndForeignIDsAreIgnored(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{}`)})
	p := peer(t, srv)
	for _, cmd := range strangeIDs() {
		row := protocol.Lookup(cmd)
		if row != nil && row.Role != protocol.Peers && row.Role != protocol.Unused && row.Role != protocol.Accepted {
			continue
		}
		t.Run(fmt.Sprintf("0x%X", uint16(cmd)), func(t *testing.T) {
			for _, body := range []string{``, `{}`, `{`, `[]`, `7`, `{"to":` + fmt.Sprint(p.ID) + `,"filename":"a.json","contents":{"evil":1},"svrid":5}`} {
				if cmd.IsReply() && strings.Contains(body, "to") {
					continue // may be routed
				}
				p.Send(cmd, body)
			}
			p.Quiet()
		})
	}
	require.JSONEq(t, `{}`, string(p.Get("a.json").Contents))
	require.Equal(t, fmt.Sprint(p.ID), properties(t, p, p.ID)["svrid"])
}

// Every command with every kind of JSON that it does not expect; CppCloud's server
// aborts on some of these.
func TestEveryCommandTakesEveryKindOfBody(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{}`)})
	deep := func(open, close string) string { return strings.Repeat(open, 100_000) + strings.Repeat(close, 100_000) }
	bodies := map[string]string{
		"array": `[]`, "array_of_objects": `[{"svrid":1}]`, "string": `"x"`, "number": `1e10`, "true": `true`, "null": `null`, "empty": ``, "cut": `{"a`,
		"deep_arrays": deep("[", "]"), "deep_objects": deep(`{"a":`, "")[:500_000], "deep_unclosed": strings.Repeat("[", 100_000), "deep_in_a_member": `{"contents":` + deep("[", "]") + `}`,
		"nul": "\x00", "not_utf8": "\xff\xfe", "wrong_types": `{"svrid":[],"file_pattern":{},"filename":1,"contents":[],"to":{},"notify":[],"op":7,"size":{},"key":[],"warn":{},"mtime":"x"}`,
	}
	noJSON := map[string]bool{"cut": true, "empty": true, "nul": true, "not_utf8": true}
	for _, row := range protocol.Commands {
		t.Run(row.Name, func(t *testing.T) {
			for name, body := range bodies {
				p := peer(t, srv)
				for _, cmd := range []protocol.Command{row.ID, row.ID.Reply()} {
					p.Send(cmd, body)
				}
				// The server lives, and its answers are JSON, or empty where the
				// command's reply is.
				if row.ID == protocol.Whoami && !noJSON[name] && !strings.HasPrefix(name, "deep") {
					require.EqualValues(t, 400, result(t, p.Next().Body).Code, name)
					continue // and closed
				}
				p.Raw(frame(protocol.KeepAlive, 0xABCD, ``))
				for {
					f := p.Next()
					if f.Command == protocol.KeepAlive.Reply() && f.Seq == 0xABCD {
						break
					}
					require.Equal(t, row.ID.Reply(), f.Command, "%s: %s", name, f)
					if row.ID != protocol.KeepAlive {
						require.NotEmpty(t, object(t, f.Body), name)
					}
					switch {
					case row.ID == protocol.KeepAlive, row.ID == protocol.GetCfgName: // take any body
					case row.Role == protocol.Reserved:
						require.EqualValues(t, 501, result(t, f.Body).Code, name)
					case noJSON[name] || strings.HasPrefix(name, "deep"):
						want := 404 // CppCloud's, which in our own families means an absent key
						if row.ID >= protocol.KVGet {
							want = 1001
						}
						require.EqualValues(t, want, result(t, f.Body).Code, name)
					}
				}
			}
		})
	}
	t.Run("deep_before_whoami", func(t *testing.T) {
		p := dial(t, srv)
		require.EqualValues(t, 404, whoami(t, p, strings.Repeat("[", 60_000)).Code)
		p.Identify(`{"svrid":0}`)
	})
	t.Run("contents_as_deep_as_allowed", func(t *testing.T) {
		p := peer(t, srv)
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		require.Zero(t, set(t, p, "deep.json", nested(500), ``).Code)
		require.Equal(t, nested(500), string(p.Get("deep.json").Contents))
		require.EqualValues(t, 404, set(t, p, "deep.json", nested(513), ``).Code)
		require.Equal(t, nested(500), string(p.Get("deep.json").Contents))
	})
}

// Random bytes, cut anywhere, under right and wrong headers: whatever they do to their
// own connection, all others are served.
func TestRandomBytes(t *testing.T) {
	srv := start(t, servertest.Options{Files: files("a.json", `{"k":1}`)})
	healthy := peer(t, srv)
	const rounds = 300
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := dial(t, srv)
		if seed%2 == 0 {
			p.Identify(`{"svrid":0}`)
		}
		junk := randomFrames(r)
		for len(junk) > 0 {
			n := min(1+r.IntN(400), len(junk))
			if _, err := p.Write(junk[:n]); err != nil {
				break // closed by the server, as it should be for most of it
			}
			junk = junk[n:]
		}
		p.Close()
		if seed%20 == 0 {
			require.JSONEq(t, `{"k":1}`, string(healthy.Get("a.json").Contents))
		}
	}
	eventually(t, "none of them is left", func() bool { return srv.Stats().Get("server_connections") == 1 })
	require.JSONEq(t, `{"k":1}`, string(healthy.Get("a.json").Contents))
	require.Zero(t, srv.Stats().Get("server_memory_bytes"))
}

// randomFrames mixes noise with frames of random ids and bodies, some nearly right.
func randomFrames(r *rand.Rand) []byte {
	var out []byte
	fragments := []string{`{`, `}`, `[`, `]`, `"`, `:`, `,`, `"svrid"`, `"file_pattern"`, `"k"`, `\u12`, `1e5`, `null`, "\x00", "\xff", ` `, `"to":1`, `"filename":"../x"`}
	for range 1 + r.IntN(20) {
		var body []byte
		for range r.IntN(12) {
			body = append(body, fragments[r.IntN(len(fragments))]...)
		}
		f := protocol.AppendFrame(nil, protocol.Command(r.IntN(0x20)|r.IntN(2)<<12), uint16(r.Uint32()), body)
		switch r.IntN(12) {
		case 0:
			f[r.IntN(len(f))] = byte(r.Uint32())
		case 1:
			binary.BigEndian.PutUint32(f[2:], r.Uint32())
		}
		out = append(out, f...)
	}
	return out
}

func TestClientsBeyondTheLimitAreToldToTryAgain(t *testing.T) {
	limiter := admission.New(admission.Limits{})
	srv := start(t, servertest.Options{Server: tcp.Config{MaxConnections: 2, Connections: limiter}})
	in := []*servertest.Peer{peer(t, srv), peer(t, srv)}
	waiting := dial(t, srv)
	for range 5 {
		refused := whoami(t, waiting, `{"svrid":0}`)
		require.EqualValues(t, 503, refused.Code)
		require.Contains(t, refused.Desc, "try again")
	}
	require.EqualValues(t, 5, limiter.Count.Settled.Load())
	in[0].Quiet()
	require.NoError(t, in[1].Close())
	eventually(t, "the place is free", func() bool { return srv.Stats().Get("server_clients") == 1 })
	waiting.Identify(`{"svrid":0}`)
	waiting.Quiet()
}

// Incomplete frames hold memory only while the process can spare it.
func TestHalfFramesAreClosedWhenMemoryRunsOut(t *testing.T) {
	srv := start(t, servertest.Options{Server: tcp.Config{Limits: loop.Limits{Memory: 8 << 20}}})
	healthy := peer(t, srv)
	part := append(headerOnly(protocol.SetConfig, 1, 4<<20), make([]byte, 2<<20)...)
	for range 12 {
		p := peer(t, srv)
		_, _ = p.Write(part) // may be closed while it writes
	}
	eventually(t, "some are closed", func() bool {
		return srv.Stats().Get("server_limits_met_total", "memory") > 0 && srv.Stats().Get("server_memory_bytes") <= 8<<20
	})
	healthy.Set("a.json", `{}`)
}
