package bench_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/models/bench"
)

// pingpong starts a server in the background, loads it from a client, and stops it.
const pingpong = `# start a server, wait for it, ping it
name: pingpong
owner: {id: "1", name: at15, type: user}
workload:
  framework: pingpong
  frameworkVersion: "0.0.1"
nodeAssignments:
  - name: srv
    role: database
  - selectors:
      - role: loader
    properties: {name: cli, role: loader}
pipelines:
  - name: download
    stages: [download_client, download_server]
  - name: run_server
    stages: [start_server]
  - name: run_workload
    stages: [ping_server]
  - stages: [stop_server]
stages:
  - name: download_client
    selectors:
      - name: cli
    tasks:
      - driver: shell
        shell: {command: wget pingclient}
  - name: download_server
    selectors:
      - name: srv
    tasks:
      - driver: exec
        exec: {command: wget, args: [pingserver]}
  - name: start_server
    background: true
    selectors:
      - role: DATABASE
    tasks:
      - name: serve
        background: true
        driver: shell
        env: [{k: HOST, v: "{{.Nodes.srv.Host}}"}]
        shell: {command: pingserver 8080}
        ready:
          tasks:
            - driver: shell
              shell: {command: "waitforit -w http://{{.Nodes.srv.Ip}}:8080/ping"}
  - name: ping_server
    pipelines:
      - {name: first, tasks: [warm, look]}
      - {tasks: [ping]}
    selectors:
      - name: cli
    tasks:
      - name: warm
        driver: shell
        shell: {command: "pingclient http://{{.Nodes.srv.Ip}}:8080"}
      - name: look
        driver: docker
        docker: {image: look, action: run, ports: [{guest: 1, host: 2}]}
      - name: ping
        driver: exec
        exec: {command: pingclient, args: ["{{.Nodes.cli.Id}}", "{{.Nodes.srv.BindAddr}}"]}
  - name: stop_server
    selectors:
      - none: true
    tasks:
      - driver: stopper
        stopper: {stage: start_server, all: true}
`

func TestParseSpecReadsEveryMember(t *testing.T) {
	spec, err := bench.ParseSpec(pingpong)
	require.NoError(t, err)
	require.Equal(t, bench.Owner{ID: "1", Name: "at15", Type: 1}, spec.Owner)
	require.Equal(t, []bench.NodeAssignment{
		{Properties: bench.Properties{Name: "srv", Role: bench.DatabaseRole}},
		{Selectors: []bench.Selector{{Role: bench.LoaderRole}}, Properties: bench.Properties{Name: "cli", Role: bench.LoaderRole}},
	}, spec.NodeAssignments)
	require.Equal(t, []string{"download_client", "download_server"}, spec.Pipelines[0].Stages)
	require.Equal(t, []string{"warm", "look"}, spec.Stages[3].Pipelines[0].Tasks)
	require.Equal(t, &bench.DockerSpec{Image: "look", Action: 2, Ports: []bench.Port{{Guest: 1, Host: 2}}}, spec.Stages[3].Tasks[1].Docker)
	require.True(t, spec.Stages[4].Tasks[0].Stopper.All)

	without, err := bench.ParseSpec(small)
	require.NoError(t, err)
	require.Equal(t, []bench.PipelineSpec{{Stages: []string{"a"}}, {Stages: []string{"b"}}}, without.Pipelines, "one after another")
	_, err = bench.ParseSpec(stopping)
	require.NoError(t, err)
}

// small has the least that a job needs.
const small = `name: small
nodeAssignments: [{name: n, role: any}]
stages:
  - {name: a, tasks: [{driver: shell, shell: {command: x}}]}
  - {name: b, tasks: [{driver: shell, shell: {command: y}}]}
`

// stopping has a background stage too, and one that stops it.
const stopping = small + `  - {name: c, background: true, tasks: [{background: true, driver: shell, shell: {command: z}}]}
  - {name: d, tasks: [{driver: stopper, stopper: {stage: c}}]}
`

func TestSpecsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ what, raw, says string }{
		{"nothing", "", "empty"},
		{"not UTF-8", "name: \xff", "UTF-8"},
		{"broken", "name: [", "line 1"},
		{"two documents", small + "---\nname: x\n", "more than one document"},
		{"an unknown field", small + "colour: red\n", "line 6: field colour not found"},
		{"a repeated field", small + "name: x\n", "more than once in a mapping"},
		{"a wrong type", strings.Replace(small, "stages:", "pipelines: 7\nstages:", 1), "cannot unmarshal"},
		{"an unknown role", strings.Replace(small, "any", "boss", 1), `line 2: "boss" is no role: use one of UNKNOWN_ROLE, ANY`},
		{"an id", small + "id: 7\n", "id is set by the server"},
		{"no name", strings.Replace(small, "small", "''", 1), "the job has no name"},
		{"no nodes", strings.Replace(small, "[{name: n, role: any}]", "[]", 1), "give 1 to 64"},
		{"a node twice", strings.Replace(small, "[{", "[{name: n, role: any}, {", 1), "nodeAssignment n is there more than once"},
		{"a node of two names", strings.Replace(small, "role: any", "role: any, properties: {name: m}", 1), "twice"},
		{"a node of no kind", strings.Replace(small, ", role: any", "", 1), "neither selectors nor a role"},
		{"an empty selector", strings.Replace(small, "role: any", "selectors: [{}]", 1), "selector 0"},
		{"a selector of all and some", strings.Replace(small, "role: any", "selectors: [{all: true, role: any}]", 1), "selector 0"},
		{"a stage twice", strings.Replace(small, "name: b", "name: a", 1), "stage a is there more than once"},
		{"a stage on no node", strings.Replace(small, "name: b,", "name: b, selectors: [{name: m}],", 1), "stage b: its selectors select no node"},
		{"an unknown stage", small + "pipelines: [{stages: [a, b, c]}]\n", `pipeline 0 names stage "c", which does not exist`},
		{"a stage in no pipeline", small + "pipelines: [{stages: [a]}]\n", "stage b is in no pipeline"},
		{"a stage in two pipelines", small + "pipelines: [{stages: [a, b]}, {stages: [a]}]\n", "stage a is in the pipelines more than once"},
		{"an empty pipeline", small + "pipelines: [{stages: [a, b]}, {stages: []}]\n", "pipeline 1 has no stages"},
		{"a background stage without a background task", strings.Replace(small, "name: b,", "name: b, background: true,", 1), "stage b: it is in the background, and none of its tasks is"},
		{"a background task in another stage", strings.Replace(small, "driver: shell, shell: {command: y}", "background: true, driver: shell, shell: {command: y}", 1), "stage b: it is not in the background, and one of its tasks is"},
		{"no tasks", strings.Replace(small, "[{driver: shell, shell: {command: y}}]", "[]", 1), "stage b: it has no tasks"},
		{"no driver", strings.Replace(small, "driver: shell, shell: {command: y}", "name: t", 1), "it has no driver"},
		{"another driver", strings.Replace(small, "driver: shell, shell: {command: y}", "driver: exec, shell: {command: y}", 1), "its driver is EXEC, and shell is given"},
		{"no command", strings.Replace(small, "command: y", "", 1), "no command"},
		{"a task without a name in pipelines", strings.Replace(small, "name: b,", "name: b, pipelines: [{tasks: [x]}],", 1), "stage b: task 0 needs a name"},
		{"a stopper of nothing", strings.Replace(small, "driver: shell, shell: {command: y}", "driver: stopper, stopper: {stage: a}", 1), `it stops stage "a", which is not a background stage`},
		{"a stopper before its stage", stopping + "pipelines: [{stages: [a, b, d]}, {stages: [c]}]\n", `stage d: task 0 stops stage "c", which is in no earlier pipeline`},
		{"a stopper beside its stage", stopping + "pipelines: [{stages: [a, b]}, {stages: [c, d]}]\n", `stage d: task 0 stops stage "c", which is in no earlier pipeline`},
		{"a stopper of its own stage", strings.Replace(stopping, "[{background", "[{driver: stopper, stopper: {stage: c}}, {background", 1), `stage c: task 0 stops stage "c", which is in no earlier pipeline`},
		{"more stages than can be shown", "name: x\nnodeAssignments: [{name: n, role: any}]\nstages: [" + strings.Repeat("{name: a},", 257) + "]", "the job has 257 stages, the limit is 256"},
		{"readiness of a foreground task", strings.Replace(small, "command: y}", "command: y}, ready: {tasks: [{driver: shell, shell: {command: z}}]}", 1), "ready is for a background task"},
	} {
		_, err := bench.ParseSpec(c.raw)
		require.Equal(t, codes.InvalidConfig, codes.Of(err), "%s: %v", c.what, err)
		require.ErrorContains(t, err, "INVALID_CONFIG: ", c.what)
		require.ErrorContains(t, err, c.says, c.what)
	}
}

func TestB15ListsAllProblems(t *testing.T) {
	_, err := bench.ParseSpec(`name: x
colour: red
owner: {type: nobody}
nodeAssignments: [{name: n, role: any}]
pipelines: [{stages: [a, c]}]
stages:
  - {name: a, background: true, tasks: [{driver: shell, shell: {command: x}}]}
  - {name: a, tasks: [{name: t, driver: shell, shell: {command: y}}, {name: t, driver: shell, shell: {command: y}}]}
`)
	for _, problem := range []string{
		"line 2: field colour not found", `line 3: "nobody" is no owner type`, "stage a is there more than once", `names stage "c", which does not exist`,
		"stage a: it is in the background, and none of its tasks is", "task t is there more than once",
	} {
		require.ErrorContains(t, err, problem)
	}
	_, err = bench.ParseSpec("name: x\nnodeAssignments: [{name: n, role: any}]\nstages: [" + strings.Repeat("{name: a},", 100) + "]")
	require.ErrorContains(t, err, "more")
	require.Less(t, len(err.Error()), 8<<10)
	_, err = bench.ParseSpec(small + "pipelines: [{stages: [" + strings.Repeat("a,", 10_001) + "]}]")
	require.ErrorContains(t, err, "the limit is 10000")
}

func TestTheSpecificationOfTheGuideIsValid(t *testing.T) {
	guide, err := os.ReadFile("../../docs/bench.md")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(guide), "```yaml\n")
	raw, _, found := strings.Cut(text, "```")
	require.True(t, found)
	spec, err := bench.ParseSpec(raw)
	require.NoError(t, err)
	require.Len(t, spec.Stages, 3)
}

// The guide says what each key of the namespace is.
func TestTheGuideNamesTheKeys(t *testing.T) {
	guide, err := os.ReadFile("../../docs/bench.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(guide), "\n## Keys\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var patterns []*regexp.Regexp
	for _, span := range regexp.MustCompile("`([a-z]+/[A-Za-z/]+)`").FindAllStringSubmatch(section, -1) {
		patterns = append(patterns, regexp.MustCompile("^"+regexp.MustCompile("[A-Z]+").ReplaceAllString(span[1], "[^/]+")+"$"))
	}
	each(t, bench.Config{}, func(t *testing.T, r *rig) {
		seen, used := map[string]bool{}, map[*regexp.Regexp]bool{}
		note := func() {
			page, err := r.bed.List(kv.List{NS: kv.BenchNamespace})
			require.NoError(t, err)
			for _, e := range page.Entries {
				seen[e.Key] = true
			}
		}
		r.register("n1", bench.AnyRole)
		r.beat("n1", bench.NodeIdle)
		id := r.start(small)
		note()
		ask(r, r.LogTask, bench.LogAsk{ID: id, Stage: "a", Task: "0", Node: "n1", Text: "x", Token: "t"})
		r.submit(small)
		ask(r, r.TakeJob, bench.TakeAsk{})
		note()
		ask(r, r.AbortJob, bench.AbortAsk{ID: id})
		ask(r, r.RemoveNode, bench.NodeRemoveAsk{ID: "n1"})
		note()
		for key := range seen {
			i := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(key) })
			require.NotEqual(t, -1, i, key)
			used[patterns[i]] = true
		}
		for _, p := range patterns {
			require.True(t, used[p] || strings.Contains(p.String(), "gone/"), "%s is no key", p)
		}
	})
}

func FuzzParseSpec(f *testing.F) {
	f.Add(pingpong)
	f.Add(small)
	f.Add("stages: [{name: a, tasks: [&t {driver: shell, shell: {command: x}, ready: {tasks: [*t]}}]}]")
	f.Fuzz(func(t *testing.T, raw string) {
		spec, err := bench.ParseSpec(raw)
		if err != nil {
			require.Equal(t, codes.InvalidConfig, codes.Of(err))
			require.Nil(t, spec)
			return
		}
		text, err := json.Marshal(spec)
		require.NoError(t, err)
		var again bench.JobSpec
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, spec.Stages, again.Stages, "what was read is kept as JSON")
	})
}
