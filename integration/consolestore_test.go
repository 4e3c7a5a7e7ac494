//go:build soak

package integration

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// hasKey waits until the other client reads this value of a key.
func (s second) hasKey(ns, key, typ string, value any) {
	s.t.Helper()
	entry := s.get(ns, key)
	require.Equal(s.t, typ, entry["type"])
	require.Equal(s.t, value, entry["value"])
}

// saved waits until the server has what the editor of a key shows.
func (tb *tab) saved() {
	tb.t.Helper()
	tb.until(`document.querySelector("#save-key")?.disabled && !document.querySelector(".entry .unsaved")`)
}

func TestConsoleStore(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "store", view{})
	other := secondClient(t, p)

	tb.run("nothing_yet", func(t *testing.T) {
		tb.sees("#totals", "No namespaces")
	})
	values := []struct {
		typ, key, typed string
		want            any
	}{
		{"string", "a string", "line one\nline 二 <b>not HTML</b>", "line one\nline 二 <b>not HTML</b>"},
		{"int", "an/int", "-9223372036854775808", "-9223372036854775808"},
		{"double", "a.double", "0.1", "0.1"},
		{"bytes", "some?bytes&", "de ad be ef 00", base64.StdEncoding.EncodeToString([]byte{0xde, 0xad, 0xbe, 0xef, 0})},
		{"json", "js#on%", `{"n": [1, 2.5, null], "k": "v"}`, map[string]any{"n": []any{1.0, 2.5, nil}, "k": "v"}},
		{"bool", "a bool", "true", "true"},
	}
	tb.run("create_each_type", func(t *testing.T) {
		for i, v := range values {
			tb.click("#new-key")
			tb.write("#new-ns", "kinds")
			tb.write("#new-key-name", v.key)
			tb.choose("#new-type", v.typ)
			if v.typ == "bool" {
				tb.click("#value-true")
			} else {
				tb.write("dialog #value", v.typed)
			}
			tb.click("#new-entry-go")
			tb.misses("#new-entry")
			tb.until(`document.querySelector("#key-name")?.textContent === %s`, quote(v.key))
			other.hasKey("kinds", v.key, v.typ, v.want)
			tb.sees("#totals", fmt.Sprintf("%d key", i+1))
			tb.sees("#keys .row", v.key)
		}
		tb.sees("#namespaces .row", "6 keys")
	})
	tb.run("a_key_that_exists_is_not_overwritten_by_a_new_one", func(t *testing.T) {
		tb.click("#new-key")
		tb.write("#new-ns", "kinds")
		tb.write("#new-key-name", "an/int")
		tb.click("#new-entry-go")
		tb.sees("dialog .fault", "an/int is there already")
		tb.key(kb.Escape)
		tb.misses("#new-entry")
		other.hasKey("kinds", "an/int", "int", "-9223372036854775808")
	})
	edits := []struct {
		key, typ, typed string
		want            any
	}{
		{"a string", "string", "other text", "other text"},
		{"an/int", "int", "9007199254740993", "9007199254740993"},
		{"a.double", "double", "1e300", "1e300"},
		{"some?bytes&", "bytes", "ff", "/w=="},
		{"js#on%", "json", `{"big": 12345678901234567890}`, nil},
	}
	tb.run("edit_each_type", func(t *testing.T) {
		for _, e := range edits {
			tb.pick("keys", e.key)
			tb.until(`document.querySelector("#key-name")?.textContent === %s && document.querySelector("#type")?.value === %q`, quote(e.key), e.typ)
			tb.write("#value", e.typed)
			tb.click("#save-key")
			tb.saved()
			if e.want != nil {
				other.hasKey("kinds", e.key, e.typ, e.want)
			}
		}
		require.Equal(t, "{\n    \"big\": 12345678901234567890\n}", tb.value("#value"), "no number is rounded")
		tb.pick("keys", "a bool")
		tb.click("#value-false")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "a bool", "bool", "false")
	})
	tb.run("what_does_not_fit_its_type_is_refused", func(t *testing.T) {
		tb.pick("keys", "an/int")
		tb.holds("#value", "9007199254740993")
		for _, wrong := range []string{"12x", "1.5", "9223372036854775808", "01", ""} {
			tb.write("#value", wrong)
			tb.until(`document.querySelector("#value").getAttribute("aria-invalid") === "true"`)
		}
		tb.click("#save-key")
		tb.told("integer")
		tb.click("#revert-key")
		tb.holds("#value", "9007199254740993")
		tb.click("#plus")
		tb.holds("#value", "9007199254740994")
		tb.click("#minus")
		tb.holds("#value", "9007199254740993")
	})
	tb.run("bytes_in_other_forms", func(t *testing.T) {
		tb.pick("keys", "some?bytes&")
		tb.holds("#value", "ff")
		tb.until(`document.querySelector("#bytes-text").disabled`)
		tb.click("#bytes-base64")
		tb.holds("#value", "/w==")
		tb.write("#value", "aGVsbG8=")
		tb.click("#bytes-text")
		tb.holds("#value", "hello")
		tb.write("#value", "hällo")
		tb.click("#bytes-hex")
		tb.holds("#value", "68c3a46c6c6f")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "some?bytes&", "bytes", base64.StdEncoding.EncodeToString([]byte("hällo")))
		file := filepath.Join(t.TempDir(), "blob")
		require.NoError(t, os.WriteFile(file, make([]byte, 70_000), 0o600))
		tb.do(chromedp.SetUploadFiles(chromedp.CSS("#value-file"), []string{file}))
		tb.sees(".value-place", "too much to be shown")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "some?bytes&", "bytes", base64.StdEncoding.EncodeToString(make([]byte, 70_000)))
	})
	tb.run("type_can_be_changed", func(t *testing.T) {
		tb.pick("keys", "a.double")
		tb.holds("#value", "1e300")
		tb.choose("#type", "string")
		tb.holds("#value", "1e300")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "a.double", "string", "1e300")
	})
	tb.run("time_to_live", func(t *testing.T) {
		tb.pick("keys", "a string")
		tb.holds("#value", "other text")
		tb.choose("#ttl-mode", "after")
		tb.write("#ttl", "soon")
		tb.sees(".ttl .fault", "duration")
		tb.write("#ttl", "1h 30m")
		tb.click("#save-key")
		tb.sees("#keys .row .left", "1 h")
		expires := other.get("kinds", "a string")["expires_ms"]
		require.InDelta(t, time.Now().Add(90*time.Minute).UnixMilli(), expires, 60_000)
		tb.write("#value", "kept its end")
		tb.click("#save-key")
		tb.saved()
		other.hasKey("kinds", "a string", "string", "kept its end")
		require.Equal(t, expires, other.get("kinds", "a string")["expires_ms"])
		tb.choose("#ttl-mode", "never")
		tb.click("#save-key")
		tb.saved()
		tb.misses("#keys .row .left")
		require.NotContains(t, other.get("kinds", "a string"), "expires_ms")
		other.put("kinds", "passing", `{"type":"string","value":"x"}`)
		tb.sees("#keys .row", "passing")
		other.put("kinds", "passing", `{"type":"string","value":"x","ttl_ms":600}`)
		tb.until(`![...document.querySelectorAll("#keys .row")].some(el => el.textContent.includes("passing"))`)
	})
	tb.run("history_compares_and_restores", func(t *testing.T) {
		tb.click("#history")
		tb.sees("#versions .version", "line one")
		first := `[...document.querySelectorAll("#versions .version")].at(-1)`
		require.True(t, eval[bool](tb, first+`.textContent.includes("line one")`))
		eval[chromedp.Void](tb, first+`.querySelector(".btn").click()`)
		tb.sees("dialog .diff-left", "line one")
		tb.sees("dialog .diff-right", "kept its end")
		tb.key(kb.Escape)
		tb.misses("dialog")
		eval[chromedp.Void](tb, first+`.querySelector(".restore").click()`)
		tb.holds("#value", "line one\nline 二 <b>not HTML</b>")
		other.hasKey("kinds", "a string", "string", "line one\nline 二 <b>not HTML</b>")
		tb.misses("#versions b")
	})
	tb.run("change_by_somebody_else_is_shown_at_once", func(t *testing.T) {
		other.put("kinds", "a string", `{"type":"string","value":"from elsewhere"}`)
		tb.holds("#value", "from elsewhere")
		tb.sees("#keys .row", "from elsewhere")
		other.put("elsewhere", "k", `{"type":"json","value":[1]}`)
		tb.sees("#namespaces .row", "elsewhere")
	})
	tb.run("a_click_counts_although_what_it_is_on_changes_meanwhile", func(t *testing.T) {
		eval[bool](tb, `new Promise(done => {
			window.stream = new EventSource("../v1/store/stream?ns=kinds");
			stream.onopen = () => done(true);
			stream.addEventListener("put", event => window.put = JSON.parse(event.data).value);
		})`)
		release := tb.hold(rowOf("keys", "an/int"), rowPlace)
		other.put("kinds", "a string", `{"type":"string","value":"meanwhile"}`)
		tb.until(`window.put === "meanwhile"`)
		release()
		tb.until(`document.querySelector("#key-name")?.textContent === "an/int"`)
		tb.sees("#keys .row", "meanwhile")

		tb.holds("#value", "9007199254740993")
		release = tb.hold(`document.querySelector("#plus")`, middle)
		other.put("kinds", "an/int", `{"type":"int","value":"41"}`)
		tb.until(`window.put === "41"`)
		tb.holds("#value", "9007199254740993")
		release()
		tb.holds("#value", "42")
		other.hasKey("kinds", "an/int", "int", "42")
		other.put("kinds", "an/int", `{"type":"int","value":"9007199254740993"}`)
		tb.holds("#value", "9007199254740993")
		eval[chromedp.Void](tb, `window.stream.close()`)
		tb.pick("keys", "a string")
		tb.holds("#value", "meanwhile")
	})
	tb.run("conflict_loses_nothing", func(t *testing.T) {
		tb.write("#value", "mine")
		other.put("kinds", "a string", `{"type":"string","value":"theirs"}`)
		tb.sees("#key-changed", "Someone else")
		tb.holds("#value", "mine")
		tb.click("#save-key")
		tb.sees("#conflict .diff-left", "theirs")
		tb.click("#conflict-edit")
		other.hasKey("kinds", "a string", "string", "theirs")
		tb.click("#save-key")
		tb.click("#conflict-overwrite")
		tb.saved()
		other.hasKey("kinds", "a string", "string", "mine")
	})
	tb.run("what_is_unsaved_survives_a_look_at_other_keys", func(t *testing.T) {
		tb.write("#value", "a draft")
		tb.pick("keys", "an/int")
		tb.holds("#value", "9007199254740993")
		tb.pick("keys", "a string")
		tb.holds("#value", "a draft")
		tb.click("#revert-key")
		tb.holds("#value", "mine")
	})
	tb.run("by_prefix", func(t *testing.T) {
		tb.write("#prefix", "a")
		tb.sees("#key-count", "4 keys")
		other.put("kinds", "another", `{"type":"bool","value":true}`)
		tb.sees("#key-count", "5 keys")
		other.put("kinds", "zebra", `{"type":"bool","value":true}`)
		tb.write("#prefix", "z")
		tb.sees("#key-count", "1 key")
		tb.write("#prefix", "nothing")
		tb.sees(".keys .note", "No key begins with that")
		tb.write("#prefix", "")
		tb.sees("#key-count", "8 keys")
	})
	tb.run("delete_a_key_after_asking", func(t *testing.T) {
		tb.pick("keys", "zebra")
		tb.until(`document.querySelector("#key-name")?.textContent === "zebra"`)
		tb.click("#delete-key")
		tb.click("#confirm-no")
		other.get("kinds", "zebra")
		tb.click("#delete-key")
		tb.click("#confirm-yes")
		tb.sees("#key-count", "7 keys")
	})
	tb.run("delete_a_namespace_after_its_name_was_typed", func(t *testing.T) {
		tb.click("#drop-ns")
		tb.click("#confirm-yes")
		tb.write("#confirm-word", "kinds")
		tb.click("#confirm-yes")
		tb.misses("#confirm")
		tb.sees("#totals", "1 namespace")
		require.Empty(t, other.ask(http.MethodGet, "store/keys", url.Values{"ns": {"kinds"}}, "")["entries"])
	})
}

func TestConsoleManyKeys(t *testing.T) {
	const n = 50_000
	p := StartProcess(t, sampleConf(t))
	other := secondClient(t, p)
	other.fill("many", "key/%05d", n)
	b := startBrowser(t)
	idle := b.open(p, "configs", view{}).frames() // how long the machine lets anyone wait
	tb := b.open(p, "store", view{})
	longest := tb.frames()

	tb.run("opens_at_once_with_few_rows", func(t *testing.T) {
		tb.pick("namespaces", "many")
		tb.sees("#keys .row", "key/00000")
		tb.sees("#key-count", "of 50,000 keys")
		require.Less(t, len(tb.rows("keys")), 100)
	})
	tb.run("scrolls_to_the_last", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#keys")))
		eval[chromedp.Void](tb, `(async () => {
			const list = document.querySelector("#keys");
			while (!list.textContent.includes("key/49999")) {
				list.scrollTop = list.scrollHeight;
				await new Promise(requestAnimationFrame);
			}
		})()`)
		tb.sees("#key-count", "50,000 keys")
		require.Less(t, len(tb.rows("keys")), 100)
		tb.key(kb.Home)
		tb.sees("#keys .row", "key/00000")
		tb.key(kb.End)
		tb.sees("#keys .row.active", "key/49999")
		tb.key(kb.Enter)
		tb.holds("#value", "49999")
	})
	tb.run("follows_thousands_of_changes", func(t *testing.T) {
		other.fill("many", "key/%05d/new", 4096)
		tb.sees("#key-count", "54,096 keys")
		other.put("many", "key/49999", `{"type":"string","value":"the last"}`)
		tb.holds("#value", "the last")
	})
	tb.run("prefix_narrows_it_down", func(t *testing.T) {
		tb.write("#prefix", "key/4999")
		tb.sees("#key-count", "10 keys")
	})
	t.Logf("the page was unable to paint for at most %s, an idle one for %s", longest(), idle())
	require.Less(t, longest(), time.Second+idle(), "the page froze")
}
