//go:build soak

package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// write writes a file.
func (s second) write(name, text string) {
	s.t.Helper()
	s.ask(http.MethodPut, "config/file", url.Values{"name": {name}, "raw": {"1"}}, text)
}

// version finds the nth row of the list of versions, from 0.
func version(n int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#past .row")][%d]`, n)
}

// lines waits until the lines that are shown begin with these.
func (tb *tab) lines(list string, want ...string) {
	tb.t.Helper()
	tb.until(`[...document.querySelectorAll("#%s .row")].map(el => el.textContent).join("\n").startsWith(%s)`, list, quote(strings.Join(want, "\n")))
}

func TestConsolePast(t *testing.T) {
	conf := confWith(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"app.json":"base.json"}}`,
		"base.json":  `{"low":1,"who":"base"}`,
		"app.json":   "{\n  \"who\": \"first\"\n}\n",
	})
	p := StartProcess(t, conf)
	tb := startBrowser(t).open(p, "configs/app.json", view{})
	other := secondClient(t, p)
	tb.holds("#editor", `{"who":"first"}`)
	tb.run("versions_newest_first", func(t *testing.T) {
		tb.click("#side-history")
		tb.sees("#past .row .badge", "created")
		other.write("app.json", "{\n  \"who\": \"second\",\n  \"n\": 12345678901234567890\n}\n")
		tb.until(`document.querySelectorAll("#past .row").length === 2`)
		tb.sees("#past .row .badge", "changed")
		peer := servertest.Dial(t, p.Addr)
		peer.Identify(`{"svrid":0,"svrname":"setter"}`)
		peer.Set("app.json", `{"who":"third"}`)
		tb.until(`document.querySelectorAll("#past .row").length === 3`)
		rows := tb.rows("past")
		require.Contains(t, rows[0], "TCP")
		require.Contains(t, rows[1], "HTTP")
		require.Contains(t, rows[2], "edited file")
	})
	tb.run("what_a_change_was", func(t *testing.T) {
		tb.press(version(1), rowPlace)
		tb.sees("#version .fact-origin", "HTTP")
		tb.sees("#version .fact-kind", "changed")
		tb.sees("#past-lines .diff-left", `"who": "first"`)
		tb.sees("#past-lines .diff-right", `"n": 12345678901234567890`)
		tb.choose("#past-how", "paths")
		tb.sees(`#past-lines [data-path="/n"] .diff-right`, "12345678901234567890")
		tb.sees(`#past-lines [data-path="/who"]`, `"first"`)
	})
	tb.run("any_two_versions", func(t *testing.T) {
		tb.write("#past-from", "~2")
		tb.write("#past-to", "~0")
		tb.key(kb.Enter)
		tb.until(`document.querySelectorAll("#past-lines .row").length === 1`)
		tb.sees(`#past-lines [data-path="/who"] .diff-left`, "first")
		tb.sees(`#past-lines [data-path="/who"] .diff-right`, "third")
		tb.write("#past-to", "~9")
		tb.key(kb.Enter)
		tb.sees("#past-said", "has 3 versions")
	})
	tb.run("contents_as_written_and_as_resolved_then", func(t *testing.T) {
		tb.write("#past-to", "~1")
		tb.choose("#past-how", "contents")
		tb.lines("past-lines", "{", `  "who": "second",`)
		tb.click("#past-resolved")
		tb.sees("#past-lines .row", `"low": 1`)
		tb.sees("#past-said", "base.json")
		tb.click("#version-close")
		tb.misses("#version")
	})
	tb.run("restored_to_the_byte_with_a_comment", func(t *testing.T) {
		tb.press(version(2), rowPlace)
		tb.click("#version-restore")
		tb.write("#restore-comment", "naïve 100% <b>")
		tb.click("#restore-yes")
		tb.told("Restored app.json")
		tb.misses("dialog")
		text, err := os.ReadFile(filepath.Join(conf, "app.json"))
		require.NoError(t, err)
		require.Equal(t, "{\n  \"who\": \"first\"\n}\n", string(text))
		tb.until(`document.querySelectorAll("#past .row").length === 4`)
		tb.sees("#past .row .past-why", "naïve 100% <b>")
		tb.sees("#past .row .past-who", "rollback")
		tb.holds("#editor", `{"who":"first"}`)
	})
	tb.run("by_the_keyboard", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#past")))
		tb.key(kb.Home + kb.ArrowDown + kb.Enter)
		tb.sees("#version .fact-origin", "TCP")
		tb.key(kb.Escape)
		tb.misses("#version")
	})
	tb.run("in_chinese_and_on_a_phone", func(t *testing.T) {
		tb.click("#language")
		tb.sees("#side-history", "历史")
		tb.sees("#past .row", "直接编辑文件")
		tb.do(chromedp.EmulateViewport(390, 800))
		tb.sees("#tab-history", "历史")
		tb.click("#tab-history")
		tb.press(version(0), rowPlace)
		tb.sees("#version", "比较")
		tb.fits()
		tb.click("#version-close")
		tb.fits()
		tb.do(chromedp.EmulateViewport(1400, 900))
		tb.click("#language")
	})
}

func TestConsoleBringsBackWhatWasDeleted(t *testing.T) {
	text := "{ \"kept\" :1}\r\n"
	conf := confWith(t, map[string]string{"kept.json": text, "other.json": `{}`})
	p := StartProcess(t, conf)
	tb := startBrowser(t).open(p, "configs/other.json", view{})
	other := secondClient(t, p)
	tb.sees("#tree .row", "kept.json")
	other.ask(http.MethodDelete, "config/file", url.Values{"name": {"kept.json"}}, "")
	tb.run("listed", func(t *testing.T) {
		tb.click("#deleted-count")
		tb.sees("#only", "Only deleted files")
		tb.until(`document.querySelectorAll("#tree .row").length === 1`)
		tb.pick("tree", "kept.json")
		tb.sees("#deletion", "HTTP")
	})
	tb.run("and_back_to_the_byte", func(t *testing.T) {
		tb.click("#bring-back")
		tb.click("#restore-yes")
		tb.misses("#was-deleted")
		again, err := os.ReadFile(filepath.Join(conf, "kept.json"))
		require.NoError(t, err)
		require.Equal(t, text, string(again))
		tb.misses("#deleted-count")
		tb.click("#show-all")
		tb.sees("#tree .row", "other.json")
	})
}

// What someone made up is shown and does nothing, wherever it stands.
func TestConsolePastIsText(t *testing.T) {
	const nasty = `<img src=x onerror=alert(1)>\u202e`
	p := StartProcess(t, confWith(t, map[string]string{"<b>x.json": `{}`}))
	other := secondClient(t, p)
	other.write("<b>x.json", `{"`+nasty+`":"</textarea><script>alert(2)</script>"}`)
	tb := startBrowser(t).open(p, "configs/"+url.PathEscape("<b>x.json"), view{})
	tb.sees("#file-name", "<b>x.json")
	tb.click("#side-history")
	tb.press(version(0), rowPlace)
	tb.sees("#version h2", "<b>x.json")
	for _, how := range []string{"text", "paths", "contents"} {
		tb.choose("#past-how", how)
		tb.sees("#past-lines .row", "<img src=x onerror=alert(1)>")
	}
	require.Zero(t, eval[int](tb, `document.querySelectorAll("#version img, #version script, #version b:not(.past-who)").length`))
}

func TestConsolePastOfThousandVersions(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"many.json": `{"n":0}`}))
	peer := servertest.Dial(t, p.Addr)
	peer.Identify(`{"svrid":0,"svrname":"setter"}`)
	for n := 1; n < 1000; n++ {
		peer.Set("many.json", fmt.Sprintf(`{"n":%d}`, n))
	}
	tb := startBrowser(t).open(p, "configs/many.json", view{})
	tb.click("#side-history")
	tb.until(`document.querySelectorAll("#past .row").length > 5`)
	tb.until(`(el => { el.scrollTop = el.scrollHeight; return [...el.querySelectorAll(".row")].some(row => row.textContent.includes("created")); })(document.querySelector("#past"))`)
	require.Equal(t, "1000", eval[string](tb, `document.querySelector("#past .row").getAttribute("aria-setsize")`))
	require.Less(t, eval[int](tb, `document.querySelectorAll("#past .row").length`), 60, "only what is seen exists")
	tb.do(chromedp.Focus(chromedp.CSS("#past")))
	tb.key(kb.End + kb.Enter)
	tb.sees("#version .fact-kind", "created")
	tb.sees("#past-lines .diff-right", `{"n":0}`)
}

// A file as large as can be does not keep the page from painting.
func TestConsolePastOfLargeFile(t *testing.T) {
	line := `"` + strings.Repeat("x", 60) + `"`
	text := "[\n" + strings.Repeat(line+",\n", (15<<20)/(len(line)+2)) + line + "\n]\n"
	p := StartProcess(t, confWith(t, map[string]string{"large.json": text, "line.json": `"` + strings.Repeat("y", 3<<20) + `"`}))
	require.NoError(t, os.WriteFile(filepath.Join(p.Conf, "large.json"), []byte(strings.Replace(text, "xxx", "changed", 1)), 0o600))
	tb := startBrowser(t).open(p, "configs/large.json", view{})
	tb.sees(".written .note", "too much to be edited")
	longest := tb.frames()
	tb.click("#side-history")
	tb.press(version(0), rowPlace)
	tb.sees("#past-lines .diff-right", "changed")
	tb.choose("#past-how", "contents")
	tb.lines("past-lines", "[", `"changed`)
	tb.until(`(el => { el.scrollTop = el.scrollHeight; return Number(el.querySelector(".row").getAttribute("aria-setsize")) > 40000; })(document.querySelector("#past-lines"))`)
	tb.click("#version-close")
	tb.pick("tree", "line.json")
	tb.sees("#file-name", "line.json")
	tb.press(version(0), rowPlace)
	tb.sees("#past-lines .diff-right", `"yyy`)
	t.Logf("no frame took longer than %s", longest())
	tb.until(`document.querySelectorAll("*").length < 3000`) // what is not in view is not there
}
