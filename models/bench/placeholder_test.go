package bench_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/models/bench"
)

// placed are tasks with a text in each of the places where placeholders are replaced.
func placed(text string) map[string]string {
	quoted, _ := json.Marshal(text)
	return map[string]string{
		"a command":          fmt.Sprintf("{driver: shell, shell: {command: %s}}", quoted),
		"a program":          fmt.Sprintf("{driver: exec, exec: {command: %s}}", quoted),
		"an argument":        fmt.Sprintf("{driver: exec, exec: {command: x, args: [a, %s]}}", quoted),
		"a variable":         fmt.Sprintf("{driver: shell, env: [{k: K, v: %s}], shell: {command: x}}", quoted),
		"a sign of readines": fmt.Sprintf("{background: true, driver: shell, shell: {command: x}, ready: {tasks: [{driver: shell, shell: {command: %s}}]}}", quoted),
	}
}

func specOf(place, task string) string {
	background := ""
	if place == "a sign of readines" {
		background = "background: true, "
	}
	return "name: j\nnodeAssignments: [{name: srv, role: any}, {name: a.b, role: any}]\nstages: [{name: s, " + background + "tasks: [" + task + "]}]\n"
}

func TestMisspeltPlaceholdersAreProblems(t *testing.T) {
	for _, text := range []string{
		"{{.Nodes.nope.Ip}}", "{{ .Nodes.srv.Ip }}", "{{.Nodes.srv.Ip }}", "{{ .Nodes.srv.Ip}}", "{{.Nodes. srv.Ip}}", "{{.Nodes.srv .Ip}}", "{{\t.Nodes.srv.Ip}}",
		"{{.Nodes.srv.IP}}", "{{.Nodes.srv.ip}}", "{{.Nodes.srv.Port}}", "{{.Nodes.srv.}}", "{{.Nodes.srv}}", "{{.Nodes}}", "{{.Nodes..Ip}}", "{{.Nodes.SRV.Ip}}", "{{.Nodes.srv.Ip.x}}",
		"{{.nodes.srv.Ip}}", "{{.Node.srv.Ip}}", "{{Nodes.srv.Ip}}", "{{.Noeds.srv.Ip}}", "{{.Job.Nodes.Ip}}", "{{$.Nodes.srv.Ip}}", "{{.Nodes.srv.Ip | upper}}", "{{index .Nodes 0}}",
		"{{.Nodes.srv.Ip", "{{.Nodes.srv.Ip}", "{.Nodes.srv.Ip}", "{.Nodes.srv.Ip}}", "{{.Nodes.a.Ip}}", "x {{.Nodes.srv.Ip}} {{.Nodes.cli.Ip}} y",
		"{{.srv.Ip}}", "{{srv.Ip}}", "{{.Nodes_srv_Ip}}", "{.{Nodes.srv.Ip}}", "{.{.Nodes.srv.Ip}}", "[[.Nodes.srv.Ip]]", "{{.Job.Id}}", "{{.State.Running}}", "{{ .Node }}", "{{json .}}", "{{x}}",
		"{{.Nodes/srv/Ip}}", "{{.Nodes:srv:Ip}}", "{{.Nodes[srv].Ip}}", "{{.Nodes-srv-Ip}}", "{{NodessrvIp}}", "{{`{{`}}", "{{ {{.Nodes.srv.Ip}} }}", "[[srv.Ip]]", "{.{srv.Ip}}", "((.Nodes.srv.Ip))",
		"(.Nodes.srv.Ip)", "<.Nodes.srv.Ip>", "<<Nodes.srv.Ip>>", "<% Nodes.srv.Ip %>", "%Nodes.srv.Ip%", "${Nodes.srv.Ip}", "$Nodes.srv.Ip", "${.Nodes.srv.Ip}", "{ {.Nodes.srv.Ip} }", "{Nodes.srv.Ip}",
		"{Nodes_srv_Ip}", "[nodes.srv.Ip]", "[Nodes.srv.ip]", "[[.Nodes.a.b.Ip]]", "｛｛.Nodes.srv.Ip｝｝", "{{.Nodes.srv.Ip]]", "[[.Nodes.srv.Ip}}", "{[.Nodes.srv.Ip]}", "{(Nodes srv Ip)}",
		"x .Nodes.srv.Ip}}", ".Nodes.nope.Ip}}", "Nodes.srv.Ip }}", "a=.Job.Id}}", "{{.Nodes.srv.Ip}}}}", "{{{{.Nodes.srv.Ip}}}}", "{{{{.Nodes.srv.Ip}}", "}}.Nodes.srv.Ip{{",
	} {
		for place, task := range placed(text) {
			_, err := bench.ParseSpec(specOf(place, task))
			require.Equal(t, codes.InvalidConfig, codes.Of(err), "%s in %s", text, place)
			require.ErrorContains(t, err, "is no placeholder: write {{.Nodes.NAME.Ip}}", place)
			require.ErrorContains(t, err, "stage s: task 0")
		}
	}
	for name, task := range map[string]string{
		"the name of a variable": `{driver: shell, env: [{k: "{{.Nodes.srv.Ip}}", v: x}], shell: {command: x}}`,
		"the name of an image":   `{driver: docker, docker: {image: "{{.Nodes.srv.Ip}}/x", action: 1}}`,
	} {
		_, err := bench.ParseSpec(specOf("", task))
		require.ErrorContains(t, err, "is in "+name+", where nothing is replaced")
	}
}

func TestWhatIsNoPlaceholderIsKept(t *testing.T) {
	for _, text := range []string{
		"{{.Nodes.srv.Ip}}", "{{.Nodes.srv.Host}}:{{.Nodes.srv.Id}}{{.Nodes.srv.BindAddr}}", "{{.Nodes.a.b.Ip}}", "{{{.Nodes.srv.Ip}}}", `{"nodes":["{{.Nodes.srv.Ip}}"]}`,
		`docker inspect -f '{{"{{"}}.State.Running}}' x`, `{{"{{"}}.Nodes.srv.Ip}}`, `{{"{{"}}range .}}{{"{{"}}.Id}}{{"{{"}}end}}`, "awk '{print $1}'", `{"a":{"b":{"c":1}}}`, "{{a,b},c}", "echo x}}", `{"a":{"b":"{{.Nodes.srv.Ip}}"}}`, `{"a":{"b":{{.Nodes.srv.Id}}}}`, `{"a":{"b":{"c":{{.Nodes.srv.Id}}}}}`, `{"a":{"x":".Nodes"}}`, "{a: {b: x{{.Nodes.srv.Ip}}}}",
		"jq '{a: {ip: .nodes.srv.ip}}'", "jq '{a: {ip: .Nodes.srv.Ip}}'", "{{{{.Nodes.srv.Ip}},b},c}", ".Nodes.srv.Ip",
		"${HOME}", "{}", "{", "{{", "{{}}", "{{ }}", "echo nodes.x.ip .Nodes.srv.Ip", "jq '{ip: .nodes.srv.ip}'", "jq '[.nodes.srv.ip]'", "select (srv.id)", "f(srv.Id)", "[srv.Ip]", "$srv.Ip", "[[ -n $srv ]]",
	} {
		for place, task := range placed(text) {
			_, err := bench.ParseSpec(specOf(place, task))
			require.NoError(t, err, "%s in %s", text, place)
		}
	}
}
