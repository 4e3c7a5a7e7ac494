//go:build soak

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

func TestConsoleClients(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "clients", view{})

	tb.run("nobody_yet", func(t *testing.T) {
		tb.sees(".note", "No program is connected")
	})
	app := servertest.Dial(t, p.Addr)
	id := app.Identify(`{"svrid":0,"svrname":"app1","tag":"tag1"}`).ID
	book(t, app, `{"file_pattern":"app1-dev.json","incbase":1}`)
	revision := func(which string) float64 {
		return secondClient(t, p).ask(http.MethodGet, "config/file", url.Values{"name": {"app1-dev.json"}}, "")[which].(float64)
	}
	tb.run("who_is_connected", func(t *testing.T) {
		for _, text := range []string{"app1", fmt.Sprint(id), "tag1", app.LocalAddr().String(), "app1-dev.json"} {
			tb.sees("#clients .row", text)
		}
		tb.sees("#client-count", "1 client")
	})
	tb.run("what_it_was_told_of", func(t *testing.T) {
		tb.pick("clients", "app1")
		tb.sees(".client .table", "app1-dev.json")
		told := revision("resolved_revision")
		tb.sees(".client .table", fmt.Sprint(told))
		tb.sees(".client .table .badge.good", "told")
		other := servertest.Dial(t, p.Addr)
		other.Identify(`{"svrid":0,"svrname":"other"}`)
		other.Set("app1-dev.json", `{"key1":"newer"}`)
		require.Greater(t, revision("revision"), told)
		tb.sees(".client .table", fmt.Sprint(revision("revision")))
		tb.sees("#client-count", "2 clients")
	})
	tb.run("filter", func(t *testing.T) {
		tb.write("#client-filter", "tag1")
		tb.until(`document.querySelectorAll("#clients .row").length === 1`)
		tb.write("#client-filter", "")
	})
	tb.run("one_that_has_left", func(t *testing.T) {
		require.NoError(t, app.Close())
		tb.sees(".client", "This client has left")
	})
}

func TestConsoleStatus(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "status", view{})
	tb.sees("#cards", "Config files10all good")
	tb.sees("#cards", "Keys in the store0")
	tb.until(`document.querySelectorAll("#charts svg .line").length >= 4`)
	peer := servertest.Dial(t, p.Addr)
	peer.Identify(`{"svrid":0,"svrname":"app1"}`)
	for range 10 {
		peer.Call(protocol.KeepAlive, "")
	}
	secondClient(t, p).put("ns", "key", `{"value":"x"}`)
	tb.sees("#cards", "Keys in the store1")
	tb.sees("#latency", "Answered from memory")
	tb.sees("#latency", "p99")
	require.NoError(t, os.WriteFile(filepath.Join(p.Conf, "web.json"), []byte(`{oops`), 0o600))
	tb.sees("#cards", "1 broken")
	tb.sees("#problems", "web.json")
}

func TestConsoleLanguages(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	secondClient(t, p).put("kinds", "key", `{"value":"x"}`)
	tb := startBrowser(t).open(p, "configs", view{language: "zh-CN"})

	words := map[string][2]string{ // by page: Chinese, English
		"configs": {"显示已删除", "Show deleted"},
		"store":   {"请选择一个命名空间", "Choose a namespace"},
		"clients": {"没有程序连接", "No program is connected"},
		"storage": {"还没有玩家数据", "No player has fields yet"},
		"flow":    {"没有注册任何应用", "No application is registered"},
		"bench":   {"没有作业", "There is no job"},
		"status":  {"慢请求", "Slow requests"},
	}
	tb.run("of_the_browser", func(t *testing.T) {
		for page, word := range words {
			tb.click("#nav-" + page)
			tb.sees("main", word[0])
		}
		require.Equal(t, "zh-CN", eval[string](tb, `document.documentElement.lang`))
	})
	tb.run("switched_and_remembered", func(t *testing.T) {
		tb.click("#language")
		for range 2 {
			for page, word := range words {
				tb.click("#nav-" + page)
				tb.sees("main", word[1])
			}
			require.Equal(t, "en", eval[string](tb, `document.documentElement.lang`))
			tb.load("configs")
		}
	})
	tb.run("a_press_counts_although_the_page_changes_meanwhile", func(t *testing.T) {
		release := tb.hold(`document.querySelector("#language")`, middle)
		eval[bool](tb, `new Promise(done => {
			addEventListener("hashchange", () => done(true), {once: true});
			location.hash = "#/store";
		})`)
		release()
		tb.sees("main", words["store"][0])
	})
}

func TestConsoleLooks(t *testing.T) {
	conf := sampleConf(t)
	require.NoError(t, os.Mkdir(filepath.Join(conf, "team"), 0o750))
	long := strings.Repeat("long-", 30) + "name.json"
	require.NoError(t, os.WriteFile(filepath.Join(conf, "team", long), []byte(`{"`+strings.Repeat("key", 100)+`":"`+strings.Repeat("value ", 200)+`"}`), 0o600))
	p := StartProcess(t, conf)
	other := secondClient(t, p)
	other.put("a-namespace", strings.Repeat("long/", 50), `{"value":"`+strings.Repeat("x", 500)+`"}`)
	other.put("a-namespace", "bytes", `{"type":"bytes","value":"AAECAwQFBgcICQoLDA0ODxAREhM="}`)
	app := servertest.Dial(t, p.Addr)
	app.Identify(`{"svrid":0,"svrname":"` + strings.Repeat("long", 20) + `","tag":"` + strings.Repeat("tag", 20) + `"}`)
	longID, longText := strings.Repeat("w", 64), strings.Repeat("text-", 200)
	other.post("flow/register", `{"app":%[1]q,"parts":[{"key":"srvs.%[1]s","fields":{"func":%[2]q}}]}`, longID, longText)
	other.post("flow/join", `{"key":"wokr.%s","ttl":3600000}`, longID)
	other.post("flow/claim", `{"worker":"wokr.%s"}`, longID)
	other.post("bench/nodes/register", `{"node":{"id":%q,"config":{"role":"database","labels":[{"k":"label","v":%q}]}},"ttl":3600000}`, longID, longText)
	job := other.post("bench/jobs/submit", `{"spec":%s}`, quote(twoStages))["id"].(string)
	pages := []string{"flow", "flow/cl/srvs." + longID, "bench", "bench/jobs/" + job, "bench/nodes", "bench/nodes/" + longID, "configs", "configs/app1-dev.json", "configs/team%2F" + long, "configs/none.json", "store", "store/a-namespace", "store/a-namespace/" + strings.Repeat("long%2F", 50), "store/a-namespace/bytes", "clients", "storage", "storage/1/1/player/7", "status"}
	b := startBrowser(t)

	for _, v := range []view{{width: 380, height: 800, dark: true}, {width: 768, height: 1024}, {}} {
		tb := b.open(p, "configs", v)
		tb.run(fmt.Sprintf("nothing_is_cut_off_at_%d", tb.size[0]), func(t *testing.T) {
			for _, language := range []string{"English", "中文"} {
				if v.width != 380 && language == "中文" {
					continue
				}
				tb.click("#language")
				tb.sees("#language", language) // the other one
				for _, page := range pages {
					tb.load(page)
					tb.until(`document.querySelector("main").innerText.length > 20`)
					tb.fits()
					tb.sound(page)
				}
			}
		})
		tb.run(fmt.Sprintf("theme_of_the_system_and_switched_at_%d", tb.size[0]), func(t *testing.T) {
			bright := func(want bool) {
				t.Helper()
				tb.until(`(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] > 128) === %t`, want)
			}
			bright(!v.dark)
			tb.click("#theme") // light
			bright(true)
			tb.click("#theme") // dark
			bright(false)
			tb.load("store")
			bright(false)      // it is remembered
			tb.click("#theme") // as the system
			bright(!v.dark)
		})
	}
}

func TestConsoleByKeyboard(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs", view{})
	tb.sees("#tree .row", "app1-dev.json")
	focused := func(id string) { tb.t.Helper(); tb.until(`document.activeElement?.id === %q`, id) }

	tb.run("all_that_can_be_done_is_reached_by_tab", func(t *testing.T) {
		for _, id := range []string{"", "", "nav-configs", "nav-store", "nav-storage", "nav-flow", "nav-bench", "nav-clients", "nav-status", "language", "theme", "tree-filter", "in-contents", "new-file", "tree", "tree-deleted"} {
			tb.key(kb.Tab)
			focused(id)
		}
	})
	tb.run("tree_opens_a_file", func(t *testing.T) {
		tb.key(kb.Tab, chromedp.ModifierShift)
		focused("tree")
		tb.key(kb.Home + kb.ArrowDown + kb.ArrowDown)
		tb.sees("#tree .row.active", "app1-dev.json")
		tb.key(kb.Enter)
		tb.sees("#file-name", "app1-dev.json")
		focused("tree")
	})
	tb.run("tab_indents_and_after_escape_leaves", func(t *testing.T) {
		tb.holds("#editor", tb.value("#editor"))
		tb.write("#editor", `{}`)
		tb.key(kb.Home + kb.Tab)
		tb.until(`document.querySelector("#editor").value === "    {}"`)
		tb.key(kb.Escape + kb.Tab)
		tb.until(`document.activeElement?.id !== "editor"`)
	})
	tb.run("arrows_turn_tabs", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#side-resolved")))
		for _, step := range []struct{ key, tab string }{{kb.ArrowRight, "history"}, {kb.End, "uses"}, {kb.ArrowRight, "resolved"}, {kb.ArrowLeft, "uses"}, {kb.Home, "resolved"}} {
			tb.key(step.key)
			focused("side-" + step.tab)
			tb.until(`document.querySelector("#side-%s").getAttribute("aria-selected") === "true" && document.querySelector("#panel-%[1]s").checkVisibility()`, step.tab)
		}
	})
	tb.run("a_dialog_keeps_the_focus_and_has_a_name", func(t *testing.T) {
		tb.click("#new-file")
		tb.until(`(el => document.getElementById(el?.getAttribute("aria-labelledby"))?.textContent === "New configuration file")(document.querySelector("dialog[open]"))`)
		for range 8 {
			tb.key(kb.Tab)
			tb.until(`document.activeElement === document.body || document.querySelector("dialog[open]").contains(document.activeElement)`)
		}
		tb.key(kb.Escape)
		tb.misses("dialog")
	})
	tb.run("escape_closes_a_question_and_the_focus_returns", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#delete-file")))
		tb.key(kb.Enter)
		tb.until(`document.querySelector("dialog[open]")?.contains(document.activeElement)`)
		tb.key(kb.Escape)
		tb.misses("dialog")
		focused("delete-file")
	})
}

// The time of the first view is logged and not judged: the test shares the machine.
func TestConsoleStartsSmall(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs", view{})
	tb.sees("#tree .row", "app1-dev.json")
	t.Logf("usable after %.0f ms", eval[float64](tb, `performance.now()`))
	bytes := eval[int](tb, `performance.getEntries().filter(e => e.encodedBodySize && e.name.includes("/console/")).reduce((sum, e) => sum + e.transferSize, 0)`)
	require.NotZero(t, bytes)
	require.Less(t, bytes, 200_000)
}

// TestConsoleReadsJSONAsTheServer compares the editor's parser with the server's: what
// one marks as a fault the other refuses, at the same place.
func TestConsoleReadsJSONAsTheServer(t *testing.T) {
	texts := []string{
		`{}`, `[]`, `null`, `"x"`, `1`, ` {"a" : [1, -0, 0.5, 1e9, 1E+9, -1.5e-3]} `, `{"a":1,"a":2}`, `"\u00e9\n\"\\\/"`, `"é二😀"`, `"\ud83d\ude00"`, `1e308`,
		``, ` `, `{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{a:1}`, `{'a':1}`, `{"a" 1}`, `[1 2]`, `{"a":1 "b":2}`, `{}}`, `[]x`, `1 2`,
		`01`, `-`, `1.`, `.5`, `+1`, `1e`, `1e+`, `0x1`, `1e309`, `-1e400`, `NaN`, `tru`, `truex`, `nulll`, `True`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\ud800"`, `"\ud800\u0041"`, `"\udc00"`,
		"\"a\nb\"", "\"a\tb\"", "\"\x01\"", "\uFEFF{}", `// comment`, "{\n  \"a\": 1,\n  // no\n}", "[1,\n2,\n3\n4]",
		strings.Repeat("[", 512) + strings.Repeat("]", 512), strings.Repeat("[", 513) + strings.Repeat("]", 513),
	}
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs", view{})
	list, err := json.Marshal(texts)
	require.NoError(t, err)
	faults := eval[[]string](tb, fmt.Sprintf(`import(new URL("json.js", document.baseURI)).then(({read}) => %s.map(text => {
		const {fault} = read(text);
		if (!fault) return "";
		const before = text.slice(0, fault.offset).split("\n");
		return before.length + ":" + ([...before.at(-1)].length + 1);
	}))`, list))
	require.Len(t, faults, len(texts))
	for i, text := range texts {
		want := ""
		_, err := jsontext.Check([]byte(text))
		var fault *jsontext.SyntaxError
		if err != nil {
			require.ErrorAs(t, err, &fault)
			line, col := fault.Position([]byte(text))
			want = fmt.Sprintf("%d:%d", line, col)
		}
		assert.Equal(t, want, faults[i], "%.80q: %v", text, err)
	}
}
