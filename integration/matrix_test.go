package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/protocol"
)

// callers are the kinds of callers that each row of the tables is asked by, in this order: those who may
// change something come last.
var callers = []string{"nobody", "wrong", "revoked", "expired", "elsewhere", "reader", "historian", "writer", "unrevealed", "administrator"}

const callersRole = `{"rules": [
	{"who": ["token:elsewhere"], "allow": ["*"], "what": ["kv:mine", "config:game/*", "storage:1/1/bag/7", "flow:mine"]},
	{"who": ["token:reader"], "allow": ["read"], "what": ["*"]},
	{"who": ["token:historian"], "allow": ["history"], "what": ["*"]},
	{"who": ["token:writer"], "allow": ["write"], "what": ["*"]},
	{"who": ["token:unrevealed"], "allow": ["*"], "what": ["*"]},
	{"who": ["token:unrevealed"], "deny": ["reveal"], "what": ["*"]}]}`

// callersOf are the tokens of the callers, by their names.
func callersOf(t *testing.T, s *besieged) map[string]string {
	root := as(t, s.srv, s.admin)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/callers.json","contents":`+callersRole+`}`), `"code":0`)
	tokens := map[string]string{"wrong": "cct_0123456789abcdef_" + strings.Repeat("A", 43), "administrator": s.admin}
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

var lastCode = regexp.MustCompile(`"code":(-?\d+)`)

// TestEveryRowAnswersEveryCaller asks each command and each route, about what only some may have, as each
// kind of caller, and compares the outcomes with those that someone has looked at and found right: a row
// that is new, or answers otherwise, fails until its line is in testdata/matrix.golden (-update writes it).
func TestEveryRowAnswersEveryCaller(t *testing.T) {
	s := besiege(t)
	tokens := callersOf(t, s)
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
		fmt.Fprintf(&got, "%s:", row.Name)
		for _, who := range callers {
			outcome := "answered" // without a code, as CppCloud does
			if found := lastCode.FindAllStringSubmatch(s.take(&way{cmd: row.ID, body: c.forbidden}, tokens[who]), -1); len(found) > 1 {
				outcome = found[1][1]
			} else if len(found) == 1 && found[0][1] != "0" {
				outcome = "out " + found[0][1] // by what WHOAMI was answered
			}
			fmt.Fprintf(&got, " %s", strings.ReplaceAll(outcome, " ", ":"))
		}
		got.WriteByte('\n')
	}
	for _, request := range routesOf(t) {
		fmt.Fprintf(&got, "%s:", request)
		for _, who := range callers {
			method, path, _ := strings.Cut(request, " ")
			fmt.Fprintf(&got, " %d", statusOf(t, s, tokens[who], method, path))
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

// statusOf is how a route answers; of a stream only the beginning is read.
func statusOf(t *testing.T, s *besieged, token, method, path string) int {
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.srv.HTTP+path, strings.NewReader("{}"))
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(t, err, "%s %s", method, path)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode
}

// routesOf are the requests that the description of the API lists, about what only some may have.
func routesOf(t *testing.T) (all []string) {
	type parameter struct{ Ref, Name, In string }
	var api struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	text, err := os.ReadFile("../gateway/openapi.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"$ref"`, `"ref"`)), &api))
	values := map[string]string{"ns": "vault", "namespace": "vault", "key": "k", "confirm": "vault", "name": "secret/hidden.json", "scope": "hidden", "app": "1", "region": "1", "type": "bag", "id": "42", "q": "x"}
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
