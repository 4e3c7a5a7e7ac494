package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// Lists and frames are encoded once and shared. No matter who asks or listens first, each client is
// told what it may be told, and an administrator is told everything.
func TestWhatIsEncodedOnceIsGivenToNobodyWhoMayLess(t *testing.T) {
	for _, rootFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("administrator first: %v", rootFirst), func(t *testing.T) {
			s := besiege(t)
			tokens := []string{s.intruder, s.admin}
			if rootFirst {
				tokens[0], tokens[1] = tokens[1], tokens[0]
			}
			watches := map[string][2]string{
				s.intruder: {`{"prefix":"game/"}`, `{"ns":"shared","prefix":"open"}`},
				s.admin:    {`{"prefix":""}`, `{"ns":"shared"}`},
			}
			listeners := map[string]*servertest.Peer{}
			for _, token := range tokens {
				p := as(t, s.srv, token)
				require.Contains(t, p.Call(protocol.CfWatch, watches[token][0]), `"code":0`)
				require.Contains(t, p.Call(protocol.KVWatch, watches[token][1]), `"code":0`)
				listeners[token] = p
			}
			root := as(t, s.srv, s.admin)
			for i := range 4 {
				for _, change := range []string{
					`{"filename":"secret/%[1]s%[2]d.json","contents":{"v":"%[3]s"}}`, `{"filename":"game/n%[2]d.json","contents":{"n":%[2]d}}`,
				} {
					require.Contains(t, root.Call(protocol.SetConfig, fmt.Sprintf(change, markName, i, markValue)), `"code":0`)
				}
				put := fmt.Sprintf(`{"ns":"shared","then":[{"op":"put","key":"hidden","value":"%s"},{"op":"put","key":"open","value":"LAST%d"}]}`, markValue, i)
				require.Contains(t, root.Call(protocol.KVTxn, put), `"code":0`)
				for _, token := range tokens {
					s.namesAre(token, fmt.Sprintf("game/n%d.json", i), fmt.Sprintf("%s%d.json", markName, i))
				}
			}
			for _, token := range tokens {
				told := heard(listeners[token], "game/n3.json", "LAST3")
				require.Equal(t, token == s.admin, strings.Contains(told, markName), told)
				require.Equal(t, token == s.admin, strings.Contains(told, markValue), told)
			}
		})
	}
}

// namesAre asks for names in each way: with is among them, and hidden for administrators only.
func (s *besieged) namesAre(token, with, hidden string) {
	p := as(s.t, s.srv, token)
	defer p.Close()
	for _, body := range []string{`{}`, `{"detail":true}`} {
		names := p.Call(protocol.GetCfgName, body)
		require.Contains(s.t, names, with)
		require.Equal(s.t, token == s.admin, strings.Contains(names, hidden), names)
	}
	status, files := bearer(s.t, s.srv, token, "GET", "/v1/config/files", "")
	require.Equal(s.t, 200, status)
	require.Contains(s.t, files, with)
	require.Equal(s.t, token == s.admin, strings.Contains(files, hidden), files)
}

// heard is what p is told until it has heard each of these.
func heard(p *servertest.Peer, these ...string) string {
	var told strings.Builder
	for _, text := range these {
		for !strings.Contains(told.String(), text) {
			told.WriteString(p.Next().Body)
		}
	}
	return told.String()
}

// What has queued for a peer that does not read is no way around the end of its rights: it is
// cut off, and nothing of what came later is in what it can still read.
func TestNothingThatChangesAfterARightHasEndedIsDelivered(t *testing.T) {
	for _, end := range []string{"a token that is revoked", "a role that is changed"} {
		t.Run(end, func(t *testing.T) {
			srv, admin := guarded(t)
			root := as(t, srv, admin)
			id, text := tokenFor(t, root, "game-1")
			slow, witness := servertest.Dial(t, srv.Addr), as(t, srv, admin)
			slow.Identify(fmt.Sprintf(`{"svrid":0,"svrname":"slow-reader","token":%q}`, text))
			stream := openStream(t, srv, text, "/v1/store/stream?ns=match")
			for _, p := range []*servertest.Peer{slow, witness} {
				require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"match"}`), `"code":0`)
			}
			put := func(value string) {
				require.Contains(t, root.Call(protocol.KVPut, `{"ns":"match","key":"k","value":"`+value+`"}`), `"code":0`)
			}
			for range 40 {
				put("BEFORE" + strings.Repeat("x", 100_000))
			}
			if end == "a token that is revoked" {
				root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id))
			} else {
				less := strings.Replace(gameRole, `"kv:match"`, `"kv:other"`, 1)
				require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/games.json","contents":`+less+`}`), `"code":0`)
			}
			eventually(t, "the session has ended", func() bool { return !strings.Contains(root.Call(protocol.GetCli, `{}`), "slow-reader") })
			put("AFTER")
			require.Contains(t, heard(witness, "AFTER"), "BEFORE")
			for {
				f, err := slow.TryNext()
				if err != nil {
					require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is cut off")
					break
				}
				require.NotContains(t, f.Body, "AFTER")
			}
			require.NotContains(t, stream.rest(), "AFTER")
		})
	}
}

// What is wrong with a file tells neither what is in it nor, to who may not read it, its name.
func TestWhatIsWrongWithAFileIsNotToldToWhoMayNotReadIt(t *testing.T) {
	s := besiege(t)
	root := as(t, s.srv, s.admin)
	role := `{"filename":"_access/observer.json","contents":{"rules":[{"who":["token:observer"],"allow":["read"],"what":["status","config:game/*"]}]}}`
	require.Contains(t, root.Call(protocol.SetConfig, role), `"code":0`)
	_, observer := tokenFor(t, root, "observer")
	for _, name := range []string{"secret/" + markName + "-broken.json", "game/broken.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.srv.Conf, name), []byte(`{"v": `+markValue), 0o644))
	}
	status := func(token string) string { _, text := bearer(t, s.srv, token, "GET", "/v1/status", ""); return text }
	eventually(t, "both are found broken", func() bool {
		text := status(s.admin)
		return strings.Contains(text, markName+"-broken.json") && strings.Contains(text, "game/broken.json")
	})
	eventually(t, "the observer's role", func() bool { return strings.Contains(status(observer), "game/broken.json") })
	for _, token := range []string{s.intruder, observer, "", s.admin} {
		for _, w := range []way{
			{request: "GET /v1/status"}, {request: "GET /v1/status/samples"}, {request: "GET /metrics"}, {request: "GET /readyz?verbose"},
			{request: "GET /v1/config/stream"}, {request: "GET /v1/config/files"}, {request: "GET /v1/config/revisions?prefix=game/"},
			{cmd: protocol.GetWarn, body: `{}`}, {cmd: protocol.GetLogr, body: `{}`}, {cmd: protocol.GetCfgName, body: `{"detail":true}`},
			{cmd: protocol.CfWatch, body: `{"prefix":"game/"}`}, {cmd: protocol.KVStat, body: `{}`},
		} {
			got := s.take(&w, token)
			require.NotContains(t, got, "v\": "+markValue, "%v%s", w.cmd, w.request)
			if token != s.admin {
				require.NotContains(t, got, markName, "%v%s", w.cmd, w.request)
				require.NotContains(t, got, markValue, "%v%s", w.cmd, w.request)
			}
		}
	}
}

// Every command of the state store is refused what the server keeps there for itself, by its name.
func TestNoCommandOfTheStoreReachesWhatTheServerKeepsThere(t *testing.T) {
	s := besiege(t)
	before, seen := s.everything(), 0
	for _, row := range protocol.Commands {
		if !strings.HasPrefix(row.Name, "KV") || row.Role != protocol.Served || !strings.HasPrefix(row.Request, "ns") {
			continue
		}
		for _, ns := range []string{"@access", "@audit", "@review", "@conf", "@conf/doc", "@secret", "@storage/1_1", "@flow"} {
			body := fmt.Sprintf(`{"ns":%q,"key":"k","value":"x","type":"string","by":1,"expect":null,"rev":1,"lease":%d,"fence":1`, ns, s.lease)
			switch row.ID {
			case protocol.KVMGet:
				body = fmt.Sprintf(`{"ns":%q,"keys":["k"]`, ns)
			case protocol.KVTxn:
				body = fmt.Sprintf(`{"ns":"mine","then":[{"op":"get","ns":%q,"key":"k"}]`, ns)
			case protocol.KVIncr:
				body = fmt.Sprintf(`{"ns":%q,"key":"k","by":1`, ns)
			case protocol.KVDelPrefix, protocol.KVDrop, protocol.KVList:
				body = fmt.Sprintf(`{"ns":%q,"prefix":"","confirm":%[1]q`, ns)
				if row.ID == protocol.KVDrop {
					body = fmt.Sprintf(`{"ns":%q,"confirm":%[1]q`, ns)
				}
			}
			got := s.take(&way{cmd: row.ID, body: body + "}"}, s.intruder)
			_, got, _ = strings.Cut(got, "}")               // the greeting
			if row.ID == protocol.KVList && ns == "@conf" { // it has of documents what may be read
				require.Contains(t, got, "doc/game/a.json")
				require.NotContains(t, got, "hidden")
				continue
			}
			require.NotContains(t, got, `"code":0`, "%s %s", row.Name, ns)
			require.NotContains(t, got, markValue, "%s %s", row.Name, ns)
			seen++
		}
	}
	require.Greater(t, seen, 100)
	require.Equal(t, before, s.everything(), "nothing has changed")
	for _, ns := range []string{"@access", "@audit", "@conf"} {
		require.Contains(t, s.take(&way{cmd: protocol.KVList, body: `{"ns":"` + ns + `","keys_only":1}`}, s.admin), `"key`, "there is something to find in "+ns)
	}
}

// A link that an operator made is a document of its own name. Nothing out of the directory is
// served by one, and who may write by its name does not change what it leads to.
func TestALinkLeadsNobodyToWhatItMayNotChange(t *testing.T) {
	s := besiege(t)
	outside := filepath.Join(t.TempDir(), "outside.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{"v":"`+markValue+`"}`), 0o644))
	for name, to := range map[string]string{"game/out.json": outside, "game/link.json": "../secret/hidden.json", "game/dir": filepath.Dir(outside)} {
		require.NoError(t, os.Symlink(to, filepath.Join(s.srv.Conf, name)))
	}
	read := func(token, name string) string {
		return s.take(&way{cmd: protocol.GetConfig, body: `{"file_pattern":"` + name + `"}`}, token)
	}
	eventually(t, "the link inside is served by its name", func() bool { return strings.Contains(read(s.admin, "game/link.json"), markValue) })
	for _, token := range []string{s.intruder, s.admin} {
		require.NotContains(t, read(token, "game/out.json"), markValue)
		require.NotContains(t, read(token, "game/dir/outside.json"), markValue)
	}
	p := as(t, s.srv, s.intruder)
	require.Contains(t, p.Call(protocol.SetConfig, `{"filename":"game/link.json","contents":{"v":"mine"}}`), `"code":0`)
	require.Contains(t, read(s.admin, "game/link.json"), "mine")
	require.Contains(t, read(s.admin, "secret/hidden.json"), markValue)
	require.NotContains(t, p.Call(protocol.SetConfig, `{"filename":"game/out.json","contents":{"v":"mine"}}`), markValue)
	text, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Contains(t, string(text), markValue)
}

// A file that links give other names is written only by who may change it by each of these; all change at
// once, and the audit has who it was.
func TestAFileWithSeveralNamesNeedsTheRightsToEach(t *testing.T) {
	s := besiege(t)
	p, admin := as(t, s.srv, s.intruder), as(t, s.srv, s.admin)
	require.Contains(t, p.Call(protocol.SetConfig, `{"filename":"game/x.json","contents":{"v":"mine"}}`), `"code":0`)
	for name, to := range map[string]string{"secret/x.json": "../game/x.json", "_access/x.json": "../game/x.json"} {
		require.NoError(t, os.Symlink(to, filepath.Join(s.srv.Conf, name)))
	}
	read := func(name string) string {
		return s.take(&way{cmd: protocol.GetConfig, body: `{"file_pattern":"` + name + `"}`}, s.admin)
	}
	eventually(t, "the link is served by its name", func() bool { return strings.Contains(read("secret/x.json"), "mine") })
	got := p.Call(protocol.SetConfig, `{"filename":"game/x.json","contents":{"v":"theirs"}}`)
	require.Contains(t, got, "another name")
	require.NotContains(t, got, `"code":0`)
	require.NotContains(t, got, "secret")
	require.Contains(t, read("game/x.json"), "mine")
	require.Contains(t, admin.Call(protocol.SetConfig, `{"filename":"game/x.json","contents":{"v":"everybody's"}}`), `"code":0`)
	require.Contains(t, read("secret/x.json"), "everybody's")
	eventually(t, "the audit has both", func() bool {
		return strings.Contains(s.take(&way{request: "GET /v1/audit/lines?kind=change"}, s.admin), `"what":["config:game/x.json","config:secret/x.json"]`)
	})
	eventually(t, "the role is not", func() bool { return strings.Contains(read("_access/x.json"), "is a symlink to game/x.json") })
}
