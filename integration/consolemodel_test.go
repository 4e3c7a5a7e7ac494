package integration

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// post asks for an operation of the flow that must succeed.
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
