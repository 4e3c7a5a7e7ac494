//go:build soak

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// post asks for an operation of the flow or the bench that must succeed.
func (s second) post(path, format string, args ...any) map[string]any {
	s.t.Helper()
	return s.ask(http.MethodPost, path, nil, fmt.Sprintf(format, args...))
}

func TestConsoleFlow(t *testing.T) {
	p := players(t)
	tb := startBrowser(t).open(p, "flow", view{})
	other := secondClient(t, p)
	tb.run("nothing_yet", func(t *testing.T) {
		tb.sees(".split.flow .note", "No application is registered in this scope.")
	})
	tb.run("an_application_appears_with_all_that_is_below_it", func(t *testing.T) {
		other.post("flow/register", `{"app":"A",%s}`, application)
		tb.sees("#flow-count", "5 members")
		require.Len(t, tb.rows("flow-tree"), 5)
		tb.sees("#flow-tree .row", "run")
		tb.sees("#flow-tree .tasks", "WAITING 2")
	})
	tb.run("statuses_change_as_they_change", func(t *testing.T) {
		other.post("flow/join", `{"key":"wokr.W","ttl":3600000}`)
		other.post("flow/claim", `{"worker":"wokr.W"}`)
		tb.sees("#flow-tree .row .badge.new", "PENDDING")
		tb.sees("#flow-tree .tasks", "PENDDING 1")
	})
	tb.run("a_member_with_its_fields_and_its_log", func(t *testing.T) {
		tb.pick("flow-tree", "node.N1")
		tb.sees("#member-name", "node.N1PENDDING")
		tb.sees("#member-fields", "cstat")
		tb.sees("#member-log", "WAITING -> PENDDING")
		require.Equal(t, "#/flow/cl/node.N1", eval[string](tb, "location.hash"))
		other.post("flow/status", `{"key":"node.N1","status":"STARTING","worker":"wokr.W"}`)
		tb.sees("#member-name", "node.N1STARTING")
		tb.sees("#member-log tr:nth-child(1)", "PENDDING -> STARTING")
		tb.click(`.member .meta a[href$="wokr.W"]`)
		tb.sees("#member-name", "wokr.W")
	})
	tb.run("found_and_folded", func(t *testing.T) {
		tb.write("#flow-filter", "starting")
		tb.until(`document.querySelectorAll("#flow-tree .row").length === 1`)
		tb.write("#flow-filter", "")
		tb.press(`document.querySelector("#flow-tree .row .twist")`, middle)
		tb.until(`document.querySelectorAll("#flow-tree .row").length === 1`)
		tb.do(chromedp.Focus(chromedp.CSS("#flow-tree")))
		tb.key(kb.Home + kb.ArrowRight)
		tb.until(`document.querySelectorAll("#flow-tree .row").length === 5`)
	})
	tb.run("another_scope_whose_names_are_text", func(t *testing.T) {
		other.post("flow/register", `{"scope":"two","app":"B","parts":[{"key":"srvs.S","fields":{"func":"<img src=x onerror=alert(1)>","desc":{"n":12345678901234567890}}}]}`)
		tb.until(`[...document.querySelectorAll("#scope option")].some(one => one.value === "two")`)
		tb.choose("#scope", "two")
		tb.sees("#flow-tree .row", "<img src=x onerror=alert(1)>")
		tb.pick("flow-tree", "srvs.S")
		tb.sees("#member-fields", "12345678901234567890")
	})
	tb.run("removed", func(t *testing.T) {
		other.post("flow/remove", `{"scope":"two","key":"cfapp.B"}`)
		tb.sees(".split.flow .note", "No application is registered in this scope.")
		tb.sees(".member .note", "There is nothing by that name.")
	})
	tb.run("in_chinese", func(t *testing.T) {
		tb.click("#language")
		tb.sees(".page-flow", "这个作用域里没有注册任何应用")
	})
}

// twoStages has a stage on two nodes, and another one after it.
const twoStages = `name: two
owner: {name: ann}
nodeAssignments: [{name: a, role: loader}, {name: b, role: database}]
stages:
  - {name: both, tasks: [{name: load, driver: shell, shell: {command: x}}]}
  - {name: last, selectors: [{name: a}], tasks: [{name: sum, driver: shell, shell: {command: y}}]}
`

func TestConsoleBench(t *testing.T) {
	p := players(t)
	tb := startBrowser(t).open(p, "bench", view{})
	other := secondClient(t, p)
	var id string
	tb.run("nothing_yet", func(t *testing.T) {
		tb.sees(".split.bench .note", "There is no job.")
		tb.click("#tab-nodes")
		tb.sees(".split.bench .note", "No node has registered.")
	})
	tb.run("nodes_appear", func(t *testing.T) {
		other.post("bench/nodes/register", `{"node":{"id":"n1","config":{"role":"loader","labels":[{"k":"disk","v":"<b>ssd</b>"}]},"capacity":{"cores":4}},"ttl":3600000}`)
		other.post("bench/nodes/register", `{"node":{"id":"n2","config":{"role":"database"}},"ttl":3600000}`)
		tb.sees("#bench-count", "2 nodes")
		tb.sees("#records .row", "LOADER disk=<b>ssd</b>")
		tb.sees("#records .row .badge", "IDLE")
	})
	tb.run("a_job_waits", func(t *testing.T) {
		id = other.post("bench/jobs/submit", `{"spec":%s}`, quote(twoStages))["id"].(string)
		tb.click("#tab-jobs")
		tb.pick("records", "two")
		tb.sees("#record-name", "twoQUEUED")
		tb.sees("#stage-0", "load")
		tb.sees("#record-history", "QUEUED")
		require.Equal(t, "#/bench/jobs/"+id, eval[string](tb, "location.hash"))
	})
	task := func(stage, task, node, status string) {
		t.Helper()
		other.post("bench/tasks/update", `{"id":%s,"stage":%q,"task":%q,"node":%q,"status":%q}`, quote(id), stage, task, node, status)
	}
	tb.run("it_runs_and_its_tasks_change", func(t *testing.T) {
		hold := fmt.Sprintf(`{"id":%s,"hold":%.0f}`, quote(id), other.post("bench/jobs/take", `{"ttl":3600000}`)["hold"])
		require.Equal(t, true, other.post("bench/jobs/assign", "%s", hold)["assigned"])
		other.post("bench/jobs/start", "%s", hold)
		tb.sees("#record-name", "twoRUNNING")
		tb.sees("#job-nodes", "n1")
		tb.sees("#records .row .badge.good", "RUNNING")
		for _, node := range []string{"n1", "n2"} {
			task("both", "load", node, "TASK_RUNNING")
			task("both", "load", node, "TASK_FINISHED")
		}
		tb.until(`document.querySelectorAll("#stage-0 tbody tr").length === 2 && [...document.querySelectorAll("#stage-0 .badge")].every(one => one.textContent === "FINISHED")`)
		task("last", "sum", "n1", "TASK_RUNNING")
		tb.sees("#stage-1 .badge.good", "RUNNING")
	})
	tb.run("a_node_says_which_job_has_it", func(t *testing.T) {
		tb.click("#job-nodes a")
		tb.sees("#record-name", "n1")
		tb.sees(".record .facts", "disk=<b>ssd</b>")
		tb.sees(".record .facts", id)
		tb.sees("#record-history", "registered")
		tb.sees("#records .row .job", id)
		tb.misses(".record .facts time")
		other.post("bench/nodes/heartbeat", `{"id":"n1","status":{}}`)
		tb.until(`document.querySelector(".record .facts time")`)
	})
	tb.run("aborted_after_a_question", func(t *testing.T) {
		tb.click(`.record .facts a[href*="jobs"]`)
		tb.click("#abort-job")
		tb.sees("#confirm", "Abort the job two?")
		tb.click("#confirm-no")
		tb.misses("#confirm")
		tb.click("#abort-job")
		tb.click("#confirm-yes")
		tb.told("Aborted the job two.")
		tb.sees("#record-name", "twoABORTED")
		tb.misses("#abort-job")
		tb.sees("#stage-1 .badge.broken", "ABORTED")
		tb.sees("#record-history tbody tr:nth-child(1)", "RUNNING → ABORTED")
	})
	tb.run("by_status", func(t *testing.T) {
		tb.choose("#job-status", "JOB_QUEUED")
		tb.sees("#bench-count", "0 jobs")
		tb.choose("#job-status", "JOB_ABORTED")
		tb.sees("#bench-count", "1 job")
	})
	tb.run("a_silent_node_is_lost", func(t *testing.T) {
		other.post("bench/nodes/register", `{"node":{"id":"silent"},"ttl":1000}`)
		tb.load("bench/nodes/silent")
		tb.sees("#record-name .badge.broken", "lost")
		tb.sees("#record-history", "IDLE → LOST")
	})
	tb.run("a_job_too_long_for_one_answer", func(t *testing.T) {
		labels := strings.Repeat(fmt.Sprintf(`,{"k":"k","v":%q}`, strings.Repeat("v", 100)), 60)[1:]
		for node, role := range map[string]string{"n1": "loader", "n2": "database"} {
			other.post("bench/nodes/register", `{"node":{"id":%q,"config":{"role":%q,"labels":[%s]}},"ttl":3600000}`, node, role, labels)
		}
		spec := "name: long\nnodeAssignments: [{name: a, role: loader}, {name: b, role: database}]\nstages:\n"
		for i := range 256 {
			spec += fmt.Sprintf("  - {name: s%d, tasks: [{driver: shell, shell: {command: x}}]}\n", i)
		}
		long := other.post("bench/jobs/submit", `{"spec":%s}`, quote(spec))["id"].(string)
		hold := fmt.Sprintf(`{"id":%s,"hold":%.0f}`, quote(long), other.post("bench/jobs/take", `{"ttl":3600000}`)["hold"])
		other.post("bench/jobs/assign", "%s", hold)
		other.post("bench/jobs/start", "%s", hold)
		tb.load("bench/jobs/" + long)
		tb.sees("#stage-255", "n2")
	})
	tb.run("in_chinese", func(t *testing.T) {
		tb.load("bench/nodes/silent")
		tb.click("#language")
		tb.sees("#record-name", "失联")
	})
}
