package integration

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// The intruder may do much with its own things, and a little with some of others. What it must
// never see has one of these marks in it: a value, a name that no request has, or a number.
const (
	markValue  = "M4RKEDvalue"
	markName   = "M4RKEDname"
	markNumber = "777001777"
)

const intruderRole = `{"rules": [
	{"who": ["token:intruder"], "allow": ["read", "watch", "write", "delete", "history", "inherit"], "what": ["config:game/*"]},
	{"who": ["token:intruder"], "allow": ["read", "write", "delete", "history"], "what": ["config:_meta.json"]},
	{"who": ["token:intruder"], "allow": ["*"], "what": ["kv:mine", "kv:shared/open*"]},
	{"who": ["token:intruder"], "allow": ["write", "delete", "lock", "lease"], "what": ["kv:blind"]},
	{"who": ["token:intruder"], "allow": ["*"], "what": ["storage:1/1/bag/7", "flow:mine", "clients:intruder"]},
	{"who": ["token:granter"], "allow": ["*"], "what": ["roles", "config:game/*"]}]}`

// besieged is a server with things that the intruder is after.
type besieged struct {
	t                        *testing.T
	srv                      *Process
	admin, intruder, granter string // tokens
	adminID                  string
	lease, fence             int64        // of the administrator's lock
	revision                 int64        // at which everything was there
	mtime                    int64        // of a document
	client                   *tls.Config  // of who proves itself by a certificate, see byCertificate
	web                      *http.Client // with that certificate; nil: not made yet
}

// byCertificate stands for the token of a caller that has none, and connects by TLS with a certificate.
const byCertificate = "by certificate"

// dial is a connection for who has a token, and the token to give on it.
func (s *besieged) dial(token string) (*servertest.Peer, string) {
	if token != byCertificate {
		return servertest.Dial(s.t, s.srv.Addr), token
	}
	conn, err := tls.Dial("tcp", s.srv.TLS, s.client)
	require.NoError(s.t, err)
	return servertest.Over(s.t, conn), ""
}

var hiddenFiles = map[string]string{
	"_access/intruder.json": intruderRole, "game/a.json": `{"a":1}`, "game/heir.json": `{"h":1}`,
	"secret/hidden.json": `{"v":"` + markValue + `"}`, "secret/" + markName + ".json": `{"x":"` + markValue + `"}`,
	"base/hidden.json": `{"b":"inherited"}`, "broken.json": `{"v":"` + markValue + `"}`,
	"_meta.json": `{"conf_inherit":{"game/heir.json":"base/hidden.json"}}`,
}

func besiege(t *testing.T, flags ...string) *besieged {
	conf := t.TempDir()
	for name, text := range hiddenFiles {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(conf, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	s := &besieged{t: t, srv: process.Start(t, conf, append([]string{"--access-control", "--slow-request", "1ms", "--refusal-delay", "0"}, flags...)...)}
	text, err := os.ReadFile(filepath.Join(s.srv.Data, "administrator.token"))
	require.NoError(t, err)
	s.admin = strings.TrimSpace(string(text))
	root := as(t, s.srv, s.admin)
	s.adminID, _ = tokenFor(t, root, markName+"-token")
	_, s.intruder = tokenFor(t, root, "intruder")
	_, s.granter = tokenFor(t, root, "granter")
	for _, put := range []string{
		`{"ns":"vault","key":"k","value":"` + markValue + `"}`, `{"ns":"vault","key":"` + markName + `","value":"x"}`, `{"ns":"` + markName + `","key":"k","value":"x"}`,
		`{"ns":"vault","key":"n","type":"int","value":` + markNumber + `}`, `{"ns":"blind","key":"n","type":"int","value":` + markNumber + `}`,
		`{"ns":"shared","key":"hidden","value":"` + markValue + `"}`, `{"ns":"shared","key":"open","value":"1","token":"guessed"}`,
		`{"ns":"mine","key":"k","value":"1"}`,
	} {
		require.Contains(t, root.Call(protocol.KVPut, put), `"code":0`, put)
	}
	require.Contains(t, root.Call(protocol.StUpdate, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","fields":{"gold":"`+markValue+`"}}`), `"code":0`)
	for _, set := range []string{`{"scope":"hidden","key":"k","value":"` + markValue + `"}`, `{"scope":"` + markName + `","key":"k","value":1}`, `{"key":"k","value":"` + markValue + `"}`} {
		require.Contains(t, root.Call(flowSet, set), `"code":0`, set)
	}
	s.lease = numberIn(t, root.Call(protocol.KVLease, `{"ttl":3600000}`), "lease")
	s.fence = numberIn(t, root.Call(protocol.KVLock, fmt.Sprintf(`{"ns":"blind","key":"lock","lease":%d,"value":"%s"}`, s.lease, markValue)), "fence")
	s.revision = numberIn(t, root.Call(protocol.KVPut, `{"ns":"vault","key":"last","value":"x"}`), "rev")
	s.mtime = numberIn(t, root.Call(protocol.GetConfig, `{"file_pattern":"secret/hidden.json"}`), "mtime")
	person := servertest.Dial(t, s.srv.Addr)
	person.Identify(fmt.Sprintf(`{"svrid":0,"svrname":"%s","tag":"%s","token":%q}`, markName+"-program", markValue, s.admin))
	return s
}

// numberIn is a number among the members of a reply.
func numberIn(t *testing.T, reply, member string) (n int64) {
	_, rest, found := strings.Cut(reply, `"`+member+`":`)
	require.True(t, found, "%s in %s", member, reply)
	_, err := fmt.Sscan(rest, &n)
	require.NoError(t, err, reply)
	return n
}

// way is one way to what is hidden: a request over the wire or over HTTP.
type way struct {
	name    string
	cmd     protocol.Command
	request string // "METHOD path", if it is over HTTP
	body    string
	header  string // "Name: value"
	// leads says that an administrator sees a mark on this way, so that it would lead there.
	leads bool
	token string // of whom; empty: the intruder's; "-": none is given
}

// fill puts what only this server knows into a request.
func (s *besieged) fill(text string) string {
	return strings.NewReplacer("LEASE", fmt.Sprint(s.lease), "FENCE", fmt.Sprint(s.fence), "REVISION", fmt.Sprint(s.revision), "MTIME", fmt.Sprint(s.mtime), "TOKENID", s.adminID).Replace(text)
}

// take goes a way, and returns every byte that came back.
func (s *besieged) take(w *way, token string) string {
	if w.request != "" {
		return s.overHTTP(w, token)
	}
	p, token := s.dial(token)
	defer p.Close()
	got := p.Call(protocol.Whoami, fmt.Sprintf(`{"svrid":0,"svrname":"intruder","token":%q}`, token))
	seq := p.Send(w.cmd, s.fill(w.body))
	for {
		f, err := p.TryNext()
		if err != nil {
			return got + err.Error()
		}
		got += f.Body
		if f.Seq == seq && f.Command == w.cmd.Reply() || f.Command == protocol.KeepAlive.Reply() {
			return got
		}
		if seq > 0 { // what is routed has no reply
			p.Send(protocol.KeepAlive, "")
			seq = 0
		}
	}
}

func (s *besieged) overHTTP(w *way, token string) string {
	ctx, cancel := context.WithTimeout(s.t.Context(), servertest.Patience)
	defer cancel()
	method, path, _ := strings.Cut(s.fill(w.request), " ")
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.srv.HTTP, strings.NewReader(s.fill(w.body)))
	require.NoError(s.t, err)
	r.URL.Opaque = "//" + s.srv.HTTP + path // as it is, not cleaned
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if name, value, found := strings.Cut(w.header, ": "); found {
		r.Header.Set(name, s.fill(value))
		if name == "Host" {
			r.Host = value
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(&untilQuiet{got, cancel})
	return fmt.Sprint(got.StatusCode, got.Header, string(text))
}

// untilQuiet reads a reply, or the beginning of a stream: streams end when nothing came for a while.
type untilQuiet struct {
	got    *http.Response
	cancel func()
}

func (u *untilQuiet) Read(p []byte) (int, error) {
	timer := time.AfterFunc(time.Second, u.cancel)
	defer timer.Stop()
	return u.got.Body.Read(p)
}

// everything is all that must stay as it is, as the administrator sees it.
func (s *besieged) everything() string {
	root := as(s.t, s.srv, s.admin)
	var all strings.Builder
	for _, ns := range []string{"vault", "shared", "blind", markName} {
		all.WriteString(root.Call(protocol.KVList, `{"ns":"`+ns+`"}`))
	}
	all.WriteString(root.Call(protocol.StAll, `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42"}`))
	for _, path := range []string{"/v1/history/export?hashes=1", "/v1/auth/tokens"} {
		_, text := bearer(s.t, s.srv, s.admin, "GET", path, "")
		for line := range strings.SplitSeq(text, "},{") {
			if !strings.Contains(line, `"name":"game/`) && !strings.Contains(line, "_meta.json") {
				_, line, _ = strings.Cut(line, `"name":`)
				line, _, _ = strings.Cut(line, `,"used"`) // the last use of a token
				all.WriteString(strings.Trim(line, ",]}\n") + "\n")
			}
		}
	}
	lease := root.Call(protocol.KVLeaseInfo, s.fill(`{"lease":LEASE}`))
	require.Contains(s.t, lease, `"keys":1`)
	return anyRevision.ReplaceAllString(all.String(), "")
}

// anyRevision is that of the store, which rises with what the intruder may write.
var anyRevision = regexp.MustCompile(`"rev":\d+,`)

// Each way is numbered and named, so that a report can name it.
func TestAHostileClientGetsAtNothing(t *testing.T) {
	require.Greater(t, len(directWays)+len(secondWays)+len(idWays)+len(trustWays), 40)
	nowhere(t, directWays)
}

// The same data must not be had by a watch, history, a transaction, another edge, a backup or figures.
func TestThereIsNoSecondWayToTheSameData(t *testing.T) { nowhere(t, secondWays) }

// A caller who knows an id may do no more than one who does not.
func TestEveryLookUpByAnIDAsksForItsOwner(t *testing.T) { nowhere(t, idWays) }

// No header, path or address makes a caller trusted.
func TestNoCallerIsTrustedForHowItCalls(t *testing.T) { nowhere(t, trustWays) }

// nowhere tries ways that must lead to nothing, and leave everything as it is.
func nowhere(t *testing.T, ways []way) {
	s := besiege(t)
	before := s.everything()
	marks := []string{markValue, base64.StdEncoding.EncodeToString([]byte(markValue)), markName, markNumber}
	sees := func(text string) bool {
		return slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(text, mark) })
	}
	for i := range ways {
		w := &ways[i]
		t.Run(fmt.Sprintf("%02d %s", i+1, w.name), func(t *testing.T) {
			token := map[string]string{"": s.intruder, "granter": s.granter}[w.token]
			got := s.take(w, token)
			require.False(t, sees(got), "%s%s: %s", w.request, w.body, got)
			require.NotContains(t, got, `"code":500`)
			if w.leads {
				admin := s.take(w, s.admin)
				require.True(t, sees(admin), "an administrator sees nothing either: %s", admin)
			}
		})
	}
	require.Equal(t, before, s.everything(), "nothing has changed")
}

// What is pushed is judged as what is asked for: a base that may not be read is not named, and
// other keys and documents are not told of.
func TestOnlyWhatMayBeSeenIsPushed(t *testing.T) {
	s := besiege(t)
	root, p := as(t, s.srv, s.admin), as(t, s.srv, s.intruder)
	require.NotContains(t, p.Call(protocol.BookCfgChange, `{"file_pattern":"game/heir.json","incbase":1}`), "hidden")
	require.Contains(t, p.Call(protocol.CfWatch, `{"prefix":"game/","resolved":1}`), `"code":0`)
	require.Contains(t, p.Call(protocol.KVWatch, `{"ns":"shared","prefix":"open"}`), `"code":0`)
	stream := openStream(t, s.srv, s.intruder, "/v1/store/stream?ns=shared&prefix=open")
	for _, change := range []struct {
		cmd  protocol.Command
		body string
	}{
		{protocol.SetConfig, `{"filename":"secret/hidden.json","contents":{"v":"` + markValue + `2"}}`},
		{protocol.SetConfig, `{"filename":"base/hidden.json","contents":{"b":"new"}}`},
		{protocol.KVPut, `{"ns":"shared","key":"hidden","value":"` + markValue + `2"}`},
		{protocol.KVTxn, `{"ns":"shared","then":[{"op":"put","key":"hidden","value":"` + markValue + `3"},{"op":"put","key":"open2","value":"LAST"}]}`},
	} {
		require.Contains(t, root.Call(change.cmd, change.body), `"code":0`, change.body)
	}
	var told strings.Builder
	for waiting := map[protocol.Command]bool{protocol.EvNotify: true, protocol.CfEvent: true, protocol.KVEvent: true}; len(waiting) > 0; {
		f := p.Next()
		told.WriteString(f.Body)
		if f.Command != protocol.KVEvent || strings.Contains(f.Body, "LAST") {
			delete(waiting, f.Command)
		}
	}
	events := bufio.NewReader(stream.body)
	for line := ""; !strings.Contains(line, "LAST"); {
		var err error
		line, err = events.ReadString('\n')
		require.NoError(t, err)
		told.WriteString(line)
	}
	require.Contains(t, told.String(), "game/heir.json")
	require.NotContains(t, told.String(), "hidden")
	require.NotContains(t, told.String(), markValue)
}
