package integration

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// callers are the kinds of callers that each row of the tables is asked by, in this order: those who may
// change something come last.
var callers = []string{"nobody", "wrong", "revoked", "expired", "elsewhere", "reader", "certificate", "historian", "writer", "unrevealed", "administrator"}

const callersRole = `{"rules": [
	{"who": ["token:elsewhere"], "allow": ["*"], "what": ["kv:mine", "config:game/*", "storage:1/1/bag/7", "flow:mine"]},
	{"who": ["token:reader", "cert:CN=reader"], "allow": ["read"], "what": ["*"]},
	{"who": ["token:historian"], "allow": ["history"], "what": ["*"]},
	{"who": ["token:writer"], "allow": ["write"], "what": ["*"]},
	{"who": ["token:unrevealed"], "allow": ["*"], "what": ["*"]},
	{"who": ["token:unrevealed"], "deny": ["reveal"], "what": ["*"]}]}`

// callersOf are the tokens of the callers, by their names.
func callersOf(t *testing.T, s *besieged) map[string]string {
	root := as(t, s.srv, s.admin)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/callers.json","contents":`+callersRole+`}`), `"code":0`)
	tokens := map[string]string{"certificate": byCertificate, "wrong": "cct_0123456789abcdef_" + strings.Repeat("A", 43), "administrator": s.admin}
	for _, name := range callers {
		if _, there := tokens[name]; there || name == "nobody" || name == "expired" {
			continue
		}
		id, text := tokenFor(t, root, name)
		if tokens[name] = text; name == "revoked" {
			require.Contains(t, root.Call(authRevoke, `{"id":"`+id+`"}`), `"code":0`)
		}
	}
	var made struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(root.Call(authMake, `{"name":"expired","ttl":1}`)), &made))
	tokens["expired"] = made.Text
	eventually(t, "the token to end", func() bool {
		status, _ := bearer(t, s.srv, made.Text, "GET", "/v1/config/files", "")
		return status == http.StatusUnauthorized
	})
	return tokens
}

// markSealed is in a value that is sealed, so that only who may reveal it can be told.
const markSealed = "M4RKEDsealed"

// withSecrets is a besieged server with TLS, which trusts the certificate of one caller, and with a key for
// sealed values.
func withSecrets(t *testing.T) *besieged {
	dir, from := t.TempDir(), newAuthority(t)
	own, err := from.Issue("server", time.Now().Add(time.Hour))
	require.NoError(t, err)
	reader, err := from.Issue("reader", time.Now().Add(time.Hour))
	require.NoError(t, err)
	flags := []string{"--tls-listen", "127.0.0.1:0", "--http-tls", "127.0.0.1:0"}
	for flag, text := range map[string][]byte{"tls-cert": own.Cert, "tls-key": own.Key, "tls-client-ca": from.PEM(), "secret-key-file": []byte(strings.Repeat("0f", 32))} {
		path := filepath.Join(dir, flag)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		flags = append(flags, "--"+flag, path)
	}
	s := besiege(t, flags...)
	cert, err := reader.Certificate()
	require.NoError(t, err)
	s.client = &tls.Config{RootCAs: from.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{cert}}
	return s
}

// seal has the key and the document that rows ask about hold something sealed, though the row before has
// written there.
func (s *besieged) seal(root *servertest.Peer) {
	if !strings.Contains(root.Call(protocol.KVGet, `{"ns":"vault","key":"k","reveal":1}`), markSealed) {
		require.Contains(s.t, root.Call(protocol.KVPut, `{"ns":"vault","key":"k","seal":1,"value":"`+markSealed+`"}`), `"code":0`)
	}
	if !strings.Contains(root.Call(protocol.GetConfig, `{"file_pattern":"secret/hidden.json"}`), markSealed) {
		require.Contains(s.t, root.Call(protocol.SetConfig, `{"filename":"secret/hidden.json","contents":{"v":{"$seal":"`+markSealed+`"}}}`), `"code":0`)
	}
}

// sealedIn says what an answer has of a sealed value: the mark that stands for it, or the value itself.
func sealedIn(answer string) string {
	switch {
	case strings.Contains(answer, markSealed), strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(markSealed))):
		return "+value"
	case strings.Contains(answer, "$secret:v"):
		return "+mark"
	}
	return ""
}

var lastCode = regexp.MustCompile(`"code":(-?\d+)`)

// TestEveryRowAnswersEveryCaller asks each command and each route, about what only some may have, as each
// kind of caller, and compares the outcomes with those that someone has looked at and found right: a row
// that is new, or answers otherwise, fails until its line is in testdata/matrix.golden (-update writes it).
// Rows that can reveal sealed values are asked to.
func TestEveryRowAnswersEveryCaller(t *testing.T) {
	s := withSecrets(t)
	tokens := callersOf(t, s)
	root := as(t, s.srv, s.admin)
	var got strings.Builder
	fmt.Fprintf(&got, "row: %s\n", strings.Join(callers, " "))
	for _, row := range protocol.Commands {
		if row.Role != protocol.Served || row.Right == access.Anyone || row.Right == access.Nobody {
			continue
		}
		c, named := sampleOf(row.ID)
		if !named {
			c.forbidden = `{}`
		}
		if strings.Contains(row.Request, "reveal") {
			c.forbidden = strings.Replace(c.forbidden, "{", `{"reveal":1,`, 1)
		}
		s.seal(root)
		fmt.Fprintf(&got, "%s:", row.Name)
		for _, who := range callers {
			outcome := "answered" // without a code, as CppCloud does
			answer := s.take(&way{cmd: row.ID, body: c.forbidden}, tokens[who])
			if found := lastCode.FindAllStringSubmatch(answer, -1); len(found) > 1 {
				outcome = found[1][1]
			} else if len(found) == 1 && found[0][1] != "0" {
				outcome = "out " + found[0][1] // by what WHOAMI was answered
			}
			fmt.Fprintf(&got, " %s%s", strings.ReplaceAll(outcome, " ", ":"), sealedIn(answer))
		}
		got.WriteByte('\n')
	}
	for _, request := range routesOf(t) {
		fmt.Fprintf(&got, "%s:", request)
		s.seal(root)
		for _, who := range callers {
			method, path, _ := strings.Cut(request, " ")
			status, answer := s.statusOf(tokens[who], method, path)
			fmt.Fprintf(&got, " %d%s", status, sealedIn(answer))
		}
		got.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "matrix.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(want), "\n"), strings.Split(got.String(), "\n"))
}

// statusOf is how a route answers; streams are not read.
func (s *besieged) statusOf(token, method, path string) (status int, text string) {
	url := "http://" + s.srv.HTTP
	if token == byCertificate {
		url = "https://" + s.srv.HTTPS
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, url+path, strings.NewReader("{}"))
	require.NoError(s.t, err)
	if token != "" && token != byCertificate {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if s.web == nil {
		s.web = &http.Client{Transport: &http.Transport{TLSClientConfig: s.client}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		s.t.Cleanup(s.web.CloseIdleConnections)
	}
	answer, err := s.web.Do(r)
	require.NoError(s.t, err, "%s %s", method, path)
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		return answer.StatusCode, ""
	}
	all, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err, "%s %s", method, path)
	return answer.StatusCode, string(all)
}

// routesOf are the requests that the description of the API lists, about what only some may have.
func routesOf(t *testing.T) (all []string) {
	type parameter struct{ Ref, Name, In string }
	var api struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	text, err := os.ReadFile("../server/http/openapi.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"$ref"`, `"ref"`)), &api))
	values := map[string]string{"ns": "vault", "namespace": "vault", "key": "k", "confirm": "vault", "name": "secret/hidden.json", "scope": "hidden", "app": "1", "region": "1", "type": "bag", "id": "42", "q": "secret", "reveal": "1"} // q: what every mark has, whatever its value is encrypted to
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(api.Paths[path])) {
			var operation struct{ Parameters []parameter }
			if method == "parameters" || json.Unmarshal(api.Paths[path][method], &operation) != nil {
				continue
			}
			query, full := url.Values{}, path
			for _, p := range operation.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					p = api.Components.Parameters[name]
				}
				if value := values[p.Name]; p.In == "query" && value != "" {
					query.Set(p.Name, value)
				}
			}
			for name, value := range values {
				full = strings.ReplaceAll(full, "{"+name+"}", url.PathEscape(value))
			}
			full = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(full, "x")
			if len(query) > 0 {
				full += "?" + query.Encode()
			}
			all = append(all, strings.ToUpper(method)+" "+full)
		}
	}
	require.Greater(t, len(all), 100)
	return all
}
