//go:build soak

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// Nothing stays or goes in a conflict that no one has decided, and who is about to save into one
// knows it.
func TestConsoleConflictsAreDecided(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"both.json": "{\n    \"a\": 1,\n    \"b\": 2\n}\n"}))
	tb := startBrowser(t).open(p, "configs/both.json", view{})
	other := secondClient(t, p)
	tb.holds("#editor", `{"a":1,"b":2}`)
	tb.run("the_save_dialog_says_so", func(t *testing.T) {
		tb.write("#editor", "{\n    \"a\": \"mine\",\n    \"b\": 2\n}\n")
		tb.click("#save")
		tb.sees("#review-uses", "Used by 0 other files")
		tb.until(`document.querySelector("#review-conflict").hidden`)
		other.write("both.json", "{\n    \"a\": \"theirs\",\n    \"b\": 2\n}\n")
		tb.until(`!document.querySelector("#review-conflict").hidden`)
		tb.sees("#review-conflict", "changed by someone else")
		tb.click("#review-no")
		tb.click("#save")
		tb.until(`!document.querySelector("#review-conflict").hidden`)
		tb.click("#review-save")
	})
	tb.run("the_merge_dialog_preselects_nothing", func(t *testing.T) {
		tb.sees("#conflict-0 .diff-left", `"theirs"`)
		require.Zero(t, eval[int](tb, `document.querySelectorAll("#conflict input:checked").length`))
		tb.click("#conflict-merge")
		tb.sees("#conflict .fault", "Place 1: say what stays")
		tb.press(`document.querySelector('#conflict-0 input[value="mine"]')`, middle)
		tb.click("#conflict-merge")
		tb.holds("#editor", `{"a":"mine","b":2}`)
	})
}

func TestConsoleDialogsCloseWithBack(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs/app1.json", view{})
	tb.sees("#file-name", "app1.json")
	tb.do(chromedp.Navigate(tb.base + "#/configs/web.json"))
	tb.sees("#file-name", "web.json")
	for _, open := range []string{"#delete-file", "#new-file", "#copy-file", "#rename-file"} {
		tb.click(open)
		tb.until(`document.querySelector("dialog[open]")`)
		eval[bool](tb, `history.back() ?? true`)
		tb.misses("dialog")
		tb.sees("#file-name", "web.json")
		tb.click(open)
		tb.until(`document.querySelector("dialog[open]")`)
		tb.key(kb.Escape)
		tb.misses("dialog")
		tb.sees("#file-name", "web.json")
	}
	tb.run("one_above_another", func(t *testing.T) {
		tb.write("#editor", `{"title": "other"}`)
		tb.save()
		tb.misses("#unsaved")
		tb.click("#side-history")
		tb.pick("past", "created")
		tb.click("#version-restore")
		tb.until(`document.querySelector("#restore")`)
		eval[bool](tb, `history.back() ?? true`)
		tb.misses("#restore")
		tb.until(`document.querySelector("#version")`)
		eval[bool](tb, `history.back() ?? true`)
		tb.misses("dialog")
	})
	eval[bool](tb, `history.back() ?? true`)
	tb.sees("#file-name", "app1.json")
}

// The console asks once for a name, where no one proves one, and for reasons of deletions, too.
func TestConsoleSaysWhoAndWhy(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs/app2-dev.json", view{})
	last := func(name string) string { return newCLI(t, p).as("log").ok(name, "--limit", "1") }
	tb.sees("#file-name", "app2-dev.json")
	tb.run("a_deletion", func(t *testing.T) {
		tb.click("#delete-file")
		tb.write("#author", "Zoë Müller")
		tb.write("#delete-comment", "100% unused")
		tb.click("#confirm-yes")
		tb.sees("#was-deleted", "100% unused")
		tb.sees("#was-deleted", "Zoë Müller")
		require.Regexp(t, `Zoë Müller +deleted +100% unused`, last("app2-dev"))
	})
	tb.run("it_is_not_asked_again", func(t *testing.T) {
		tb.click("#bring-back")
		tb.sees("#author-known", "Zoë Müller")
		tb.until(`!document.querySelector("#author").getBoundingClientRect().width`)
		tb.click("#restore-yes")
		tb.misses("#was-deleted")
		require.Regexp(t, `Zoë Müller +created|Zoë Müller +changed`, last("app2-dev"))
		tb.load("configs/web.json")
		tb.holds("#editor", `{"title":"Web-Ctrl","refresh_seconds":30}`)
		tb.write("#editor", `{"title": "other"}`)
		tb.click("#save")
		tb.click("#author-change")
		tb.write("#author", "Ann")
		tb.click("#review-save")
		tb.misses("#unsaved")
		require.Regexp(t, `Ann +changed`, last("web"))
	})
}

func TestConsoleCopiesAndRenames(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	program := servertest.Dial(t, p.Addr)
	program.Identify(`{"svrid":0}`)
	tb := startBrowser(t).open(p, "configs/web.json", view{})
	tb.holds("#editor", `{"title":"Web-Ctrl","refresh_seconds":30}`)
	tb.run("a_copy_is_saved_as_any_new_file", func(t *testing.T) {
		tb.click("#copy-file")
		tb.write("#new-name", "web.json")
		tb.click("#new-go")
		tb.sees("dialog .fault", "exists already")
		tb.write("#new-name", "team/web")
		tb.click("#new-go")
		tb.sees("#file-name", "team/web.json")
		tb.holds("#editor", `{"title":"Web-Ctrl","refresh_seconds":30}`)
		tb.save()
		tb.misses("#unsaved")
		fileHas(t, p, "team/web.json", `{"title":"Web-Ctrl","refresh_seconds":30}`)
		fileHas(t, p, "web.json", `{"title":"Web-Ctrl","refresh_seconds":30}`)
	})
	tb.run("a_renaming_is_one_change", func(t *testing.T) {
		tb.load("configs/app1.json")
		tb.sees("#file-name", "app1.json")
		tb.click("#rename-file")
		tb.sees("#heirs", "app1-dev.json")
		tb.write("#new-name", "base/app1")
		tb.write("#rename-comment", "bases have a directory")
		tb.click("#new-go")
		tb.sees("#file-name", "base/app1.json")
		fileHas(t, p, "base/app1.json", `{"key1":"key1 in app1","hojl":"hejinlong"}`)
		log := newCLI(t, p).as("log").ok("--limit", "1")
		require.Regexp(t, `app1\.json deleted, base/app1\.json created +bases have a directory`, log)
		require.Contains(t, program.Call(protocol.GetConfig, `{"file_pattern":"app1"}`), `"deleted":1`, "it is gone for programs")
	})
	tb.run("on_a_phone_and_in_chinese", func(t *testing.T) {
		tb.do(chromedp.EmulateViewport(390, 800))
		tb.fits()
		tb.click("#language")
		tb.sees("#rename-file", "重命名")
		tb.fits()
	})
}

func TestConsoleSaysWhoUsesAFile(t *testing.T) {
	p := StartProcess(t, heirs(t))
	program := servertest.Dial(t, p.Addr)
	program.Identify(`{"svrid":0,"svrname":"<i>reader","tag":"blue"}`)
	book(t, program, `{"file_pattern":"app.json","incbase":1,"mtime":1}`)
	tb := startBrowser(t).open(p, "configs/base.json", view{})
	tb.click("#side-uses")
	tb.sees("#uses-note", "1 connected program uses this file")
	tb.sees("#uses tbody tr", "<i>reader")
	tb.sees("#uses tbody tr", "app.json")
	tb.sees("#uses tbody tr .badge", "blue")
	other := servertest.Dial(t, p.Addr)
	other.Identify(`{"svrid":0,"svrname":"direct"}`)
	book(t, other, `{"file_pattern":"base.json"}`)
	tb.sees("#uses-note", "2 connected programs use this file")
	tb.sees("#uses tbody", "direct")
	out := newCLI(t, p).as("clients").ok("base")
	require.Regexp(t, `(?m)^\d+ +<i>reader +blue +127\.0\.0\.1:\d+ +app\.json +\d+$`, out)
	revision := strings.Fields(newCLI(t, p).as("log").ok("base", "--limit", "1"))[5] // below the heads
	require.Contains(t, out, fmt.Sprintf("base.json@%s: 2 programs use it", revision))
	tb.sees("#file-name + .meta", "revision "+revision)
	tb.do(chromedp.EmulateViewport(390, 800))
	tb.fits()
	tb.click("#tab-uses")
	tb.sees("#uses-note", "2 connected programs")
	tb.fits()
}
