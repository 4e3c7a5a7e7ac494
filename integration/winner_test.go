package integration

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// winnersRole has callers of whom each request can be refused for two reasons at once.
const winnersRole = `{"rules": [
	{"who": ["token:elsewhere"], "allow": ["*"], "what": ["kv:mine", "config:game/*", "storage:1/1/bag/7", "flow:mine", "clients:mine"]},
	{"who": ["token:payer", "token:hasty"], "allow": ["*"], "what": ["*"]}],
	"quotas": [
	{"who": ["token:hasty", "token:stranger"], "bytes": 1},
	{"what": ["kv:vault"], "bytes": 1}, {"what": ["storage:1/1"], "bytes": 1}, {"what": ["flow:hidden"], "bytes": 1}, {"what": ["bench"], "bytes": 1}]}`

// pair is two faults of a request: one of who sends it, and one of its body or, over HTTP, its query. The
// callers nothing and stranger have no rights; stranger and hasty are beyond their rate; elsewhere has rights,
// but not to these names; payer may do everything, but the namespaces are beyond their rates.
type pair struct{ name, who, fault string }

var pairs = []pair{
	{"long+rate", "hasty", "long"}, {"long+right", "nothing", "long"}, {"rate+right", "stranger", ""}, {"rate+form", "hasty", "form"},
	{"right+form", "nothing", "form"}, {"form+quota", "payer", "form"}, {"badname+name", "elsewhere", "badname"},
	{"name+quota", "elsewhere", ""}, {"badname+quota", "payer", "badname"}, {"quota+seal", "payer", "seal"},
}

// spoilt is a sample's body or query with a fault.
func spoilt(sample, fault string) string {
	switch fault {
	case "form":
		return strings.TrimSuffix(sample, "}") + ","
	case "badname":
		bad := strings.NewReplacer("hidden", `hid\u0001den`, `"k"`, `"\u0001"`, `"42"`, `"4\u00012"`, `"lock"`, `"lo\u0001ck"`, `"n"`, `"\u0001n"`)
		return bad.Replace(sample)
	case "seal":
		sealed := strings.NewReplacer(`"expect":null`, `"expect":{"type":"json","value":{"$seal":1}}`, `"then":`, `"if":[{"key":"k","target":"value","type":"json","value":{"$seal":1}}],"then":`, `"lease":LEASE`, `"lease":LEASE,"type":"json","value":{"$seal":1}`)
		return sealed.Replace(sample)
	}
	return sample
}

// TestWhichRefusalWins sends each command and each route with two things wrong with it, and compares what it
// is refused for with what someone has looked at and found right: a row that is new, or answers otherwise,
// fails until its line is in testdata/winners.golden (-update writes it).
func TestWhichRefusalWins(t *testing.T) {
	s := withSecrets(t)
	root := as(t, s.srv, s.admin)
	require.Contains(t, root.Call(protocol.SetConfig, `{"filename":"_access/winners.json","contents":`+winnersRole+`}`), `"code":0`)
	tokens := map[string]string{}
	for _, name := range []string{"elsewhere", "payer", "hasty", "nothing", "stranger"} {
		_, tokens[name] = tokenFor(t, root, name)
	}
	s.spend(tokens)
	var got strings.Builder
	got.WriteString("row:")
	for _, p := range pairs {
		got.WriteString(" " + p.name)
	}
	got.WriteByte('\n')
	for _, row := range protocol.Commands {
		if row.Role != protocol.Served && row.Role != protocol.Routed || row.Right == access.Anyone || row.Right == access.Nobody {
			continue
		}
		c, named := sampleOf(row.ID)
		if !named {
			c.forbidden = `{}`
		}
		fmt.Fprintf(&got, "%s:", row.Name)
		for _, p := range pairs {
			got.WriteString(" " + s.refusedOverTCP(row, s.fill(spoilt(c.forbidden, p.fault)), tokens[p.who], p.fault == "long"))
		}
		got.WriteByte('\n')
	}
	for _, request := range routesOf(t) {
		fmt.Fprintf(&got, "%s:", request)
		for _, p := range pairs {
			switch {
			case p.fault == "seal":
			case p.fault == "long" && (strings.HasPrefix(request, http.MethodGet) || strings.HasPrefix(request, http.MethodDelete)):
				got.WriteString(" -") // it has no body
			default:
				got.WriteString(" " + s.refusedOverHTTP(request, p.fault, tokens[p.who]))
			}
		}
		got.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "winners.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(want), "\n"), strings.Split(got.String(), "\n"))
}

// spend has the callers and the namespaces that have a rate be an hour beyond it: a request may be longer
// than its bucket.
func (s *besieged) spend(tokens map[string]string) {
	blank := strings.Repeat(" ", 4000)
	for _, who := range []string{"hasty", "stranger"} {
		s.take(&way{cmd: protocol.KVStat, body: "{" + blank + "}"}, tokens[who])
	}
	for cmd, body := range map[protocol.Command]string{
		protocol.KVGet: `{"ns":"vault","key":"k"`, protocol.StGet: `{"appId":"1","regionId":"1","logicType":"bag","ownerId":"42","names":["gold"]`,
		flowRead: `{"scope":"hidden"`, protocol.OfModel("bench", 0): `{`,
	} {
		for _, refused := range []bool{false, true} {
			got := s.take(&way{cmd: cmd, body: body + blank + "}"}, tokens["payer"])
			require.Equal(s.t, refused, strings.Contains(got, `"retry_after"`), "%v: %s", cmd, got)
		}
	}
}

// refusedOverTCP is the code of the answer, or that there is none.
func (s *besieged) refusedOverTCP(row protocol.Row, body, token string, long bool) string {
	p := servertest.Dial(s.t, s.srv.Addr)
	defer p.Close()
	p.Identify(fmt.Sprintf(`{"svrid":0,"svrname":"asker","token":%q}`, token))
	if long {
		p.Raw(protocol.AppendHeader(nil, row.ID, 7, int(row.MaxBody)+1))
	} else {
		p.Send(row.ID, body)
	}
	p.Send(protocol.KeepAlive, "") // behind what has no answer
	for {
		f, err := p.TryNext()
		switch code := lastCode.FindStringSubmatch(f.Body); {
		case err != nil:
			return "closed"
		case f.Command == row.ID.Reply() && code != nil:
			return code[1]
		case f.Command == row.ID.Reply():
			return "answered" // without a code, as CppCloud does
		case f.Command == protocol.KeepAlive.Reply():
			return "silence"
		}
	}
}

// refusedOverHTTP is the status of the answer.
func (s *besieged) refusedOverHTTP(request, fault, token string) string {
	conn, err := net.Dial("tcp", s.srv.HTTP)
	require.NoError(s.t, err)
	defer conn.Close()
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(servertest.Patience)))
	method, path, _ := strings.Cut(request, " ")
	body, length := "{}", 2
	switch fault {
	case "long":
		body, length = "", 1<<30
	case "form":
		body, length = "{,", 2
		if method == http.MethodGet || method == http.MethodDelete {
			before, query, _ := strings.Cut(path, "?")
			body, length, path = "", 0, before+"?unknown=1&"+query
		}
	case "badname":
		path = strings.NewReplacer("vault", "va%01ult", "hidden", "hid%01den", "key=k", "key=%01", "/42", "/4%012").Replace(path)
	}
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, token, length, body)
	require.NoError(s.t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(s.t, err, request)
	return fmt.Sprint(answer.StatusCode) // a stream's body has no end
}
