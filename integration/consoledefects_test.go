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
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// shows waits until a list has a row with exactly this text, or has none.
func (tb *tab) shows(list, text string, there bool) {
	tb.t.Helper()
	tb.until(`[...document.querySelectorAll("#%s .row")].some(el => [el, ...el.querySelectorAll("*")].some(e => e.textContent.trim() === %s)) === %t`, list, quote(text), there)
}

func TestConsoleDotOfReconnectingIsNotGreen(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "configs", view{})
	const dot = `getComputedStyle(document.querySelector("#live i")).backgroundColor`
	const green = "rgb(26, 122, 69)"
	tb.sees("#live", "live")
	require.Equal(t, green, eval[string](tb, dot))
	tb.kill(p)
	tb.sees("#live", "reconnecting")
	require.NotEqual(t, green, eval[string](tb, dot))
	tb.click("#nav-clients") // a page without a stream of its own
	tb.sees("#live", "reconnecting")
	p.Start()
	tb.sees("#live", "live")
	require.Equal(t, green, eval[string](tb, dot))
}

func TestConsoleMissingBaseIsMarked(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"_meta.json": `{"conf_inherit":{"web.json":"absent common"}}`}))
	tb := startBrowser(t).open(p, "configs/web.json", view{})
	tb.sees("#file-name", "web.json")
	tb.sees(".missing", "absent.json")
	tb.sees(".missing .badge", "missing")
	tb.misses(`.meta a[href*="absent"]`)
	tb.until(`document.querySelector('.meta a[href*="common"]')`)
	tb.click(".missing .badge")
	tb.sees("#file-name", "absent.json")
	tb.write("#editor", `{"now": "there"}`)
	tb.save()
	tb.misses("#unsaved")
	tb.load("configs/web.json")
	tb.until(`document.querySelector('.meta a[href*="absent"]')`)
	tb.misses(".missing")
	tb.sees(`#resolved [data-pointer="/now"]`, "there")
}

func TestConsoleDeletingABaseNamesFewHeirs(t *testing.T) {
	files := map[string]string{"base.json": `{}`}
	inherit := map[string]string{}
	for i := range 289 {
		name := fmt.Sprintf("heir%03d.json", i)
		files[name] = `{}`
		inherit[name] = "base.json"
	}
	text, err := json.Marshal(map[string]any{"conf_inherit": inherit})
	require.NoError(t, err)
	files["_meta.json"] = string(text)
	p := StartProcess(t, confWith(t, files))
	tb := startBrowser(t).open(p, "configs/base.json", view{})
	tb.sees("#tree .row", "heir000.json")
	tb.click("#delete-file")
	tb.sees("#heirs", "289 files inherit from it")
	tb.sees("#heirs", "heir000.json, heir001.json")
	tb.sees("#heirs .link", "and 284 more")
	heirs := func() int {
		return eval[int](tb, `document.querySelector("#confirm").textContent.match(/heir\d+\.json/g).length`)
	}
	require.Equal(t, 5, heirs())
	tb.click("#heirs .link")
	tb.sees("#heirs .link", "show fewer")
	require.Equal(t, 289, heirs())
	tb.click("#confirm-no")
}

func TestConsoleCountsAgree(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"never.json": `{`}))
	other := secondClient(t, p)
	for _, key := range []string{"a1", "a2", "b1"} {
		other.put("kinds", key, `{"value":"x"}`)
	}
	servertest.Dial(t, p.Addr) // it says nothing
	app := servertest.Dial(t, p.Addr)
	app.Identify(`{"svrid":0,"svrname":"app1"}`)
	tb := startBrowser(t).open(p, "status", view{})
	tb.sees("#cards", "Config files111 broken")
	tb.sees("#cards", "Clients1of 2 connections")
	tb.sees("#cards", "Keys in the store31 namespace")
	tb.click("#nav-configs")
	tb.sees("#tree-count", "11 files · 1 broken")
	tb.click("#nav-clients")
	tb.sees("#client-count", "1 client")
	tb.click("#nav-store")
	tb.sees("#totals", "1 namespace · 3 keys")
	tb.pick("namespaces", "kinds")
	tb.sees("#key-count", "3 keys")
	other.put("kinds", "b2", `{"value":"x"}`)
	tb.sees("#key-count", "4 keys")
	tb.sees("#totals", "4 keys")
	tb.sees("#namespaces .row", "4 keys")
	tb.write("#prefix", "a")
	tb.sees("#key-count", "2 keys")
	tb.click("#drop-ns")
	tb.sees("#confirm", "All 4 keys will be deleted")
	tb.click("#confirm-no")
}

func TestConsoleBrokenCountLeadsToFiles(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"never.json": `{`, "team/bad.json": `[`}))
	tb := startBrowser(t).open(p, "status", view{})
	broken := func() {
		t.Helper()
		tb.shows("tree", "never.json", true)
		tb.shows("tree", "bad.json", true)
		tb.shows("tree", "common.json", false)
		tb.sees("#only", "Only broken files")
	}
	// The page is drawn anew every two seconds, but not under the user's hand.
	asked := `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/v1/status")).length`
	release := tb.hold(`document.querySelector("#card-broken")`, middle)
	tb.until(asked+` >= %d`, eval[int](tb, asked)+2)
	release()
	broken()
	tb.click("#show-all")
	tb.shows("tree", "common.json", true)
	tb.click("#broken-count")
	broken()
	tb.pick("tree", "bad.json")
	tb.sees("#broken", "not JSON")
	tb.shows("tree", "common.json", false)
	tb.write("#editor", `{}`)
	tb.save()
	tb.misses("#broken")
	tb.sees("#tree-count", "1 broken")
	tb.load("configs//broken")
	tb.shows("tree", "never.json", true)
	tb.shows("tree", "bad.json", false)
}

// TestConsoleShowsBidirectionalNames uses names with parts in both writing directions,
// and one that reverses what follows it.
func TestConsoleShowsBidirectionalNames(t *testing.T) {
	const name, trick = "abc/שלום/123/דג/xyz", "safe\u202egpj.exe"
	p := StartProcess(t, confWith(t, map[string]string{"שלום/123/דג.json": `{"מפתח": 12, "next": "ערך"}`, trick + ".json": `{}`}))
	other := secondClient(t, p)
	other.put("kinds", name, `{"value":"ערך"}`)
	other.put("kinds", trick, `{"value":"a\u202eb"}`)
	tb := startBrowser(t).open(p, "store/kinds", view{})
	// ordered waits until an element has pieces in this order from left to right.
	ordered := func(css string, pieces ...string) {
		t.Helper()
		list, err := json.Marshal(pieces)
		require.NoError(t, err)
		tb.until(`(pieces => [...document.querySelectorAll(%q)].some(el => {
			if (!pieces.every(piece => el.textContent.includes(piece))) return false;
			const lefts = pieces.map(piece => {
				const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT);
				for (let node; (node = walker.nextNode());) {
					const at = node.data.indexOf(piece);
					if (at < 0) continue;
					const range = document.createRange();
					range.setStart(node, at);
					range.setEnd(node, at + piece.length);
					return range.getBoundingClientRect().left;
				}
			});
			return lefts.every((left, i) => i === 0 || lefts[i - 1] < left);
		}))(%s)`, css, list)
	}
	ordered("#keys .key-name", "abc", "שלום", "123", "דג", "xyz")
	tb.pick("keys", name)
	ordered("#key-name", "abc", "שלום", "123", "דג", "xyz")
	tb.sees("#keys .key-name .spelled", `\u202e`)
	tb.sees("#keys .preview .spelled", `\u202e`)
	tb.click("#nav-configs")
	tb.sees("#tree .spelled", `\u202e`)
	tb.pick("tree", "דג.json")
	ordered("#file-name", "שלום", "123", "דג")
	ordered(`#resolved [data-pointer="/מפתח"] .rs-text`, "מפתח", "12")
	ordered(".ed-line", "מפתח", "12", "next", "ערך")
	tb.load("configs/" + url.PathEscape(trick+".json"))
	tb.sees("#file-name .spelled", `\u202e`)
	tb.click("#delete-file")
	tb.sees("#confirm h2", `safe\u202egpj.exe`)
	tb.click("#confirm-no")
}

func TestConsoleSearchesContentsAndKeys(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	other := secondClient(t, p)
	for i := range 30 {
		other.put("kinds", fmt.Sprintf("player/%02d/name", i), fmt.Sprintf(`{"value":"somebody %d"}`, i))
	}
	tb := startBrowser(t).open(p, "configs", view{})
	tb.run("in_contents_of_files", func(t *testing.T) {
		tb.sees("#tree .row", "app1.json")
		tb.click("#in-contents")
		tb.write("#tree-filter", "HEJIN")
		tb.sees("#hits .row", "app1.json")
		tb.sees("#hits .row", "/hojl")
		tb.sees("#hits-note", "1 file")
		tb.pick("hits", "/hojl")
		tb.sees("#file-name", "app1.json")
		tb.until(`(el => el.value.slice(el.selectionStart, el.selectionEnd).toLowerCase() === "hejin")(document.querySelector("#editor"))`)
		peer := servertest.Dial(t, p.Addr)
		peer.Identify(`{"svrid":0,"svrname":"second"}`)
		peer.Set("web.json", `{"by":"hejinlong"}`)
		tb.sees("#hits .row", "web.json")
		tb.write("#tree-filter", "nowhere at all")
		tb.sees("#hits-note", "No file contains that")
		tb.write("#tree-filter", "")
		tb.sees("#tree .row", "app1.json")
	})
	tb.run("in_keys_and_values", func(t *testing.T) {
		tb.load("store/kinds")
		tb.sees("#key-count", "30 keys")
		tb.choose("#how", "contains")
		tb.write("#prefix", "/17/")
		tb.sees("#key-count", "1 key")
		tb.shows("keys", "player/17/name", true)
		other.put("kinds", "later/17/new", `{"value":"x"}`)
		other.put("kinds", "later/18/new", `{"value":"x"}`)
		tb.sees("#key-count", "2 keys")
		tb.shows("keys", "later/17/new", true)
		tb.shows("keys", "later/18/new", false)
		tb.choose("#how", "values")
		tb.write("#prefix", "Somebody 2")
		tb.sees("#key-count", "11 keys")
		other.put("kinds", "player/02/name", `{"value":"nobody"}`)
		tb.sees("#key-count", "10 keys")
		tb.write("#prefix", "nothing has it")
		tb.sees(".keys .note", "Nothing contains that")
	})
}

func TestConsoleFoldersFold(t *testing.T) {
	p := StartProcess(t, confWith(t, map[string]string{"team/a.json": `{}`, "team/inner/b.json": `{}`, "zone/c.json": `{}`}))
	tb := startBrowser(t).open(p, "configs", view{})
	tb.shows("tree", "b.json", true)
	tb.pick("tree", "team")
	tb.shows("tree", "a.json", false)
	tb.shows("tree", "b.json", false)
	tb.load("configs")
	tb.shows("tree", "c.json", true)
	tb.shows("tree", "a.json", false)
	tb.do(chromedp.Focus(chromedp.CSS("#tree")))
	tb.key(kb.Home + kb.ArrowRight)
	tb.shows("tree", "a.json", true)
	tb.key(kb.ArrowLeft)
	tb.shows("tree", "a.json", false)
	// A match is scrolled into view, and can still be folded.
	tb.write("#tree-filter", "b.json")
	tb.shows("tree", "b.json", true)
	tb.pick("tree", "inner")
	tb.shows("tree", "b.json", false)
	tb.write("#tree-filter", "")
	tb.shows("tree", "c.json", true)
	tb.click("#fold-all")
	tb.shows("tree", "c.json", false)
	tb.click("#fold-all")
	tb.shows("tree", "c.json", true)
	tb.shows("tree", "b.json", true)
}

func TestConsoleDeletedKeyOffersRestore(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	other := secondClient(t, p)
	other.put("kinds", "key", `{"value":"first"}`)
	other.put("kinds", "key", `{"type":"json","value":{"n":12345678901234567890}}`)
	tb := startBrowser(t).open(p, "store/kinds/key", view{})
	tb.run("one_has_deleted_it", func(t *testing.T) {
		tb.sees("#key-name", "key")
		tb.until(`document.querySelector("#value")?.value.includes("12345678901234567890")`)
		tb.click("#delete-key")
		tb.click("#confirm-yes")
		tb.sees("#key-gone", "This key was deleted")
		tb.sees("#key-gone", `{"n":12345678901234567890}`)
		tb.sees("#versions .version", "first")
		tb.click("#restore-last")
		tb.until(`document.querySelector("#value")?.value.includes("12345678901234567890")`)
		tb.misses("#key-gone")
		require.Equal(t, "json", other.get("kinds", "key")["type"])
	})
	tb.run("somebody_else_has", func(t *testing.T) {
		other.ask(http.MethodDelete, "store/key", url.Values{"ns": {"kinds"}, "key": {"key"}}, "")
		tb.sees("#key-gone", "This key was deleted")
		tb.load("store/kinds/key")
		tb.click("#restore-last")
		tb.misses("#key-gone")
		require.Equal(t, "json", other.get("kinds", "key")["type"])
	})
	tb.run("it_never_was", func(t *testing.T) {
		tb.load("store/kinds/never")
		tb.sees("#no-key", "There is no such key")
	})
	tb.run("a_file_deleted_here_comes_back_as_it_was", func(t *testing.T) {
		before, err := os.ReadFile(filepath.Join(p.Conf, "common.json"))
		require.NoError(t, err)
		tb.load("configs/common.json")
		tb.holds("#editor", string(before))
		tb.click("#delete-file")
		tb.click("#confirm-yes")
		tb.click("#bring-back")
		tb.click("#restore-yes")
		tb.misses("#was-deleted")
		after, err := os.ReadFile(filepath.Join(p.Conf, "common.json"))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
}

func TestConsoleClientsShowWhatTheyHold(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	b := startBrowser(t)
	b.open(p, "store/kinds", view{}).sees("#live", "live")
	one, two := servertest.Dial(t, p.Addr), servertest.Dial(t, p.Addr)
	id := one.Identify(`{"svrid":0,"svrname":"one"}`).ID
	other := two.Identify(`{"svrid":0,"svrname":"two"}`).ID
	one.Call(protocol.KVWatch, `{"ns":"kinds","prefix":"cart/"}`)
	leases := [2]int64{}
	for i, peer := range []*servertest.Peer{one, two} {
		var got struct{ Lease int64 }
		require.NoError(t, json.Unmarshal([]byte(peer.Call(protocol.KVLease, `{"ttl":600000}`)), &got))
		leases[i] = got.Lease
		require.Contains(t, peer.Call(protocol.KVLock, fmt.Sprintf(`{"ns":"locks","key":"leader","lease":%d,"wait":1}`, got.Lease)), `"code":0`)
	}
	tb := b.open(p, fmt.Sprintf("clients/%d", id), view{})
	tb.sees("#watches", "kinds / cart/…")
	tb.sees("#locks", "locks / leader")
	tb.sees("#locks .badge", "held")
	tb.sees("#leases", fmt.Sprint(leases[0]))
	tb.sees("#leases", "of 10 min")
	tb.sees("#clients .row.stream", "State store")
	tb.sees("#clients .row.stream", "kinds / all keys")
	tb.sees("#client-count", "2 clients · 1 HTTP stream")
	tb.load(fmt.Sprintf("clients/%d", other))
	tb.sees("#locks .badge", "waiting")
	tb.fits()
}

func TestConsoleChartsBeginFull(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	other := secondClient(t, p)
	require.Eventually(t, func() bool {
		return len(other.ask(http.MethodGet, "status/samples", nil, "")["samples"].([]any)) >= 6
	}, servertest.Patience, 200*time.Millisecond)
	tb := startBrowser(t).open(p, "status", view{})
	// What the page itself has asked for since does not count.
	tb.until(`document.querySelector("#charts .line")?.getAttribute("d").split("L").length -
		performance.getEntriesByType("resource").filter(e => e.name.endsWith("/v1/status")).length >= 5`)
}

// Answers that come at the same moment, as late ones do, say nothing of a rate: there once was a chart
// without numbers, of which the browser complained.
func TestConsoleChartsOfOneMoment(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "status", view{})
	tb.until(`document.querySelectorAll("#charts svg .line").length >= 4`)
	eval[chromedp.Void](tb, `(() => { const now = Date.now(); Date.now = () => now; })()`)
	const asked = `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/v1/status")).length`
	before := eval[int](tb, asked)
	tb.until(fmt.Sprintf(`%s >= %d`, asked, before+3))
	require.NotContains(t, eval[string](tb, `document.querySelector("#charts").innerHTML`), "NaN")
}

// TestConsoleSaveKeepsFormatting changes one number in files of various formatting.
func TestConsoleSaveKeepsFormatting(t *testing.T) {
	texts := map[string]string{
		"tabs":  "{\r\n\t\"b\": 17,\r\n\t\"a\" : [1,2],\r\n\r\n\t\"c\": { }\r\n}",
		"mixed": "{\n  \"b\": 17,\r\n  \"a\": 1\n}\r\n\n",
		"flat":  `{"z":1,"b": 17,"a":1.0}`,
		"two":   "{\n  \"b\": 17\n}\n",
	}
	files := map[string]string{}
	for name, text := range texts {
		files[name+".json"] = text
	}
	p := StartProcess(t, confWith(t, files))
	tb := startBrowser(t).open(p, "configs", view{})
	for name, text := range texts {
		tb.load("configs/" + name + ".json")
		tb.holds("#editor", text)
		eval[chromedp.Void](tb, `(() => { const el = document.querySelector("#editor"); el.focus(); const at = el.value.indexOf("17"); el.setSelectionRange(at, at + 2); })()`)
		tb.key("42")
		tb.sees("#unsaved", "unsaved")
		tb.save()
		tb.misses("#unsaved")
		got, err := os.ReadFile(filepath.Join(p.Conf, name+".json"))
		require.NoError(t, err)
		require.Equal(t, strings.Replace(text, "17", "42", 1), string(got), name)
	}
}
