package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

// Tokens and secret values are in no output of any verb, unless they are asked for.
func TestSecretsAreHidden(t *testing.T) {
	const token = "cct_0123456789abcdef_AbCdEfGhIjKlMnOpQrStUvWxYz-_0123456789abcdefghi"
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, capture.RawIP)
	require.NoError(t, err)
	c := capture.NewSynth(netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4800"), w.Write)
	require.NoError(t, c.Open(1))
	at, seq := int64(1), uint16(0)
	say := func(cmd protocol.Command, request, reply string) {
		at, seq = at+1000, seq+1
		require.NoError(t, c.Data(0, at, protocol.AppendFrame(nil, cmd, seq, []byte(request))))
		require.NoError(t, c.Data(1, at, protocol.AppendFrame(nil, cmd.Reply(), seq, []byte(reply))))
	}
	say(protocol.Whoami, `{"svrid":0,"svrname":"app","token":"`+token+`"}`, `{"code":0,"svrid":2001}`)
	say(protocol.KVPut, `{"ns":"n","key":"k","value":"s3cret","seal":true}`, `{"code":0,"rev":2}`)
	say(protocol.KVGet, `{"ns":"n","key":"k","reveal":true}`, `{"code":0,"rev":2,"type":"string","value":"s3cret"}`)
	say(protocol.KVGet, `{"ns":"n","key":"open"}`, `{"code":0,"rev":2,"type":"string","value":"plain"}`)
	say(protocol.GetConfig, `{"file_pattern":"a.json"}`, `{"code":0,"mtime":1,"file_pattern":"a.json","contents":{"password":"s3cret","port":"plain"}}`)
	say(protocol.GetConfig, `{"file_pattern":"a.json","key_pattern":"/password"}`, `{"code":0,"mtime":1,"file_pattern":"a.json","contents":"s3cret"}`)
	say(protocol.KVWatch, `{"ns":"n","key":"k","reveal":true}`, `{"code":0,"rev":2,"watch":1}`)
	require.NoError(t, w.Flush())
	replayed := filepath.Join(t.TempDir(), "replayed.pcap") // no one waits for an event that does not come
	require.NoError(t, os.WriteFile(replayed, file.Bytes(), 0o600))
	require.NoError(t, c.Data(1, at, protocol.AppendFrame(nil, protocol.KVEvent, 1, []byte(`{"watch":         1,"rev":3,"events":[{"op":"put","key":"k","value":"s3cret"}]}`))))
	require.NoError(t, c.Close(at))
	require.NoError(t, w.Flush())
	name := filepath.Join(t.TempDir(), "secrets.pcap")
	require.NoError(t, os.WriteFile(name, file.Bytes(), 0o600))
	for _, args := range [][]string{
		{name}, {name, "--body", "whole"}, {name, "--body", "pretty"}, {name, "-o", "json"}, {name, "--errors"}, {name, "--slower", "1ns"}, {"summary", name},
		{"replay", replayed, "--to", fresh(t).Addr().String()}, {"replay", replayed, "--exact", "--to", fresh(t).Addr().String()},
	} {
		s := ccdump(t, args...)
		require.NotContains(t, s.out+s.status, token[21:], args)
		require.NotContains(t, s.out+s.status, "s3cret", args)
		if args[0] == name && !strings.HasPrefix(args[len(args)-1], "--errors") && args[len(args)-1] != "1ns" {
			require.Contains(t, s.out, "plain", args)
			s = ccdump(t, append(args, "--secrets")...)
			require.Contains(t, s.out, token, args)
			require.Contains(t, s.out, "s3cret", args)
		}
	}
	s := ccdump(t, "replay", replayed, "--secrets", "--to", fresh(t).Addr().String())
	require.Contains(t, s.out, "s3cret")
}
