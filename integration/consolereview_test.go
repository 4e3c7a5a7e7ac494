//go:build soak

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// heirs is a directory in which app.json inherits from base.json.
func heirs(t *testing.T) string {
	return confWith(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"app.json":"base.json"}}`,
		"base.json":  "{\n    \"low\": 1,\n    \"who\": \"base\"\n}\n",
		"app.json":   "{\n    \"who\": \"app\"\n}\n",
	})
}

func TestConsoleReviewsBeforeSaving(t *testing.T) {
	conf := heirs(t)
	p := StartProcess(t, conf)
	program := servertest.Dial(t, p.Addr)
	program.Identify(`{"svrid":0,"svrname":"<i>reader"}`)
	book(t, program, `{"file_pattern":"app.json","incbase":1}`)
	tb := startBrowser(t).open(p, "configs/base.json", view{})
	tb.holds("#editor", `{"low":1,"who":"base"}`)
	tb.run("who_uses_it_and_what_changes", func(t *testing.T) {
		tb.write("#editor", "{\n    \"low\": 12345678901234567890,\n    \"who\": \"base\"\n}\n")
		tb.click("#save")
		tb.sees("#review-uses", "Used by 1 other file. app.json")
		tb.sees("#review-uses", "1 program will be told. <i>reader")
		tb.sees("#review-lines .diff-left", `"low": 1`)
		tb.sees("#review-lines .diff-right", `"low": 12345678901234567890`)
		tb.choose("#review-how", "paths")
		tb.sees(`#review-lines [data-path="/low"] .diff-right`, "12345678901234567890")
		tb.choose("#review-how", "resolved")
		tb.lines("review-lines", "{", `    "low": 12345678901234567890,`)
	})
	tb.run("nothing_is_written_until_it_is_said", func(t *testing.T) {
		tb.key(kb.Escape)
		tb.misses("#review")
		tb.sees("#unsaved", "unsaved")
		fileHas(t, p, "base.json", `{"low":1,"who":"base"}`)
	})
	tb.run("saved_with_the_reason_by_the_keyboard", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#editor")))
		tb.key("s", chromedp.ModifierCtrl)
		tb.until(`document.activeElement.id === "review-comment"`)
		tb.key("100% raised for <b>the sale</b>")
		tb.key(kb.Enter)
		tb.misses("#unsaved")
		fileHas(t, p, "base.json", `{"low":12345678901234567890,"who":"base"}`)
		tb.click("#side-history")
		tb.sees("#past .row .past-why", "100% raised for <b>the sale</b>")
		tb.sees("#past .row .past-who", "console")
		tb.click("#side-resolved")
	})
	tb.run("what_an_heir_gets_with_a_text_that_is_not_saved", func(t *testing.T) {
		tb.load("configs/app.json")
		tb.holds("#editor", `{"who":"app"}`)
		tb.write("#editor", `{}`)
		tb.click("#save")
		tb.sees("#review-uses", "Used by 0 other files")
		tb.choose("#review-how", "paths")
		tb.sees(`#review-lines [data-path="/who"] .diff-right`, `"base"`)
		tb.choose("#review-how", "resolved")
		tb.sees("#review-lines .row", `"low": 12345678901234567890`)
		tb.click("#review-no")
	})
	tb.run("in_chinese_and_on_a_phone", func(t *testing.T) {
		tb.click("#language")
		tb.do(chromedp.EmulateViewport(390, 800))
		tb.click("#save")
		tb.sees("#review-uses", "将通知 1 个程序")
		tb.fits()
		tb.click("#review-no")
	})
}

func TestConsoleExplainsValues(t *testing.T) {
	p := StartProcess(t, heirs(t))
	other := secondClient(t, p)
	other.write("app.json", "{\n    \"who\": \"<img src=x onerror=alert(1)>\",\n    \"own\": 1\n}\n")
	tb := startBrowser(t).open(p, "configs/app.json", view{})
	tb.run("which_file_wins_and_why", func(t *testing.T) {
		tb.press(`document.querySelector('#resolved [data-pointer="/who"] .tk-key')`, middle)
		tb.sees("#explain h2", "/who of app.json")
		tb.sees("#explained", `"<img src=x onerror=alert(1)>" comes from app.json`)
		tb.sees(`#says tr[data-file="app.json"]`, "wins")
		tb.sees(`#says tr[data-file="base.json"]`, "overridden")
		tb.sees(`#says tr[data-file="base.json"]`, "app.json is stronger")
		require.Zero(t, eval[int](tb, `document.querySelectorAll("#explain img").length`))
	})
	tb.run("who_changed_it_last", func(t *testing.T) {
		tb.sees(`#blamed [data-path="/who"]`, "HTTP")
		tb.press(`document.querySelector('#blamed [data-path="/who"]')`, rowPlace)
		tb.sees("#version .fact-kind", "changed")
		tb.sees("#past-lines .diff-left", `"who": "app"`)
		tb.click("#version-close")
		tb.click("#explain-close")
	})
	tb.run("by_the_keyboard_and_all_values", func(t *testing.T) {
		tb.do(chromedp.Focus(chromedp.CSS("#resolved")))
		tb.key(kb.Home + kb.Enter)
		tb.sees("#explain h2", "/ of app.json")
		tb.sees(`#blamed [data-path="/low"]`, "base.json")
		tb.sees(`#blamed [data-path="/own"]`, "app.json")
		tb.key(kb.Escape)
		tb.misses("#explain")
	})
	tb.run("in_chinese_and_from_there_to_the_file", func(t *testing.T) {
		tb.click("#language")
		tb.press(`document.querySelector('#resolved [data-pointer="/low"] .tk-key')`, middle)
		tb.sees(`#says tr[data-file="base.json"]`, "生效")
		tb.sees(`#says tr[data-file="base.json"]`, "是有这个值的文件中优先级最高的")
		tb.sees(`#says tr[data-file="app.json"]`, "没有 /low")
		tb.click(`#says tr[data-file="base.json"] .link`)
		tb.sees("#file-name", "base.json")
		tb.misses("#explain")
	})
}

// Two people who edit the same file both keep what they wrote.
func TestConsoleMergesConflicts(t *testing.T) {
	base := "{\n    \"a\": 1,\n    \"b\": 2,\n    \"c\": 3\n}\n"
	conf := confWith(t, map[string]string{"both.json": base})
	p := StartProcess(t, conf)
	b := startBrowser(t)
	mine, theirs := b.open(p, "configs/both.json", view{}), b.open(p, "configs/both.json", view{})
	edit := func(tb *tab, pairs ...string) {
		tb.write("#editor", strings.NewReplacer(pairs...).Replace(tb.value("#editor")))
	}
	text := func() string {
		text, err := os.ReadFile(filepath.Join(conf, "both.json"))
		require.NoError(t, err)
		return string(text)
	}
	mine.holds("#editor", base)
	theirs.holds("#editor", base)
	mine.run("different_lines_by_themselves", func(t *testing.T) {
		edit(mine, `"a": 1`, `"a": "mine"`)
		edit(theirs, `"c": 3`, `"c": "theirs"`)
		theirs.save()
		theirs.misses("#unsaved")
		mine.save()
		mine.sees("#conflict-parts", "No place was changed on both sides")
		mine.click("#conflict-merge")
		mine.holds("#editor", `{"a":"mine","b":2,"c":"theirs"}`)
		mine.misses("#changed-elsewhere")
		mine.save()
		mine.misses("#unsaved")
		require.Equal(t, "{\n    \"a\": \"mine\",\n    \"b\": 2,\n    \"c\": \"theirs\"\n}\n", text())
	})
	mine.run("the_same_line_as_is_said", func(t *testing.T) {
		theirs.holds("#editor", text())
		for _, row := range []struct{ keep, want string }{{"theirs", `"t0": 0`}, {"mine", `"m1": 0`}, {"both", "\"t2\": 0,\n    \"m2\": 0"}} {
			n := map[string]int{"theirs": 0, "mine": 1, "both": 2}[row.keep]
			write := func(tb *tab, side string) {
				tb.holds("#editor", text())
				tb.write("#editor", fmt.Sprintf("{\n    \"a\": 1,\n    \"%s%d\": 0,\n    \"c\": 3\n}\n", side, n))
			}
			write(mine, "m")
			write(theirs, "t")
			theirs.save()
			theirs.misses("#unsaved")
			mine.save()
			mine.sees("#conflict-0 .diff-left", fmt.Sprintf(`"t%d"`, n))
			mine.sees("#conflict-0 .diff-right", fmt.Sprintf(`"m%d"`, n))
			mine.press(fmt.Sprintf(`document.querySelector('#conflict-0 input[value=%q]')`, row.keep), middle)
			mine.click("#conflict-merge")
			mine.until(`document.querySelector("#editor").value.includes(%s)`, quote(row.want))
			if row.keep == "theirs" {
				mine.misses("#unsaved") // it is what is there
				continue
			}
			mine.save()
			mine.misses("#unsaved")
		}
	})
}

// TestConsoleMerges asks the function itself, with texts of few different lines, so that they
// have everything in common that texts can have.
func TestConsoleMerges(t *testing.T) {
	tb := startBrowser(t).open(StartProcess(t, sampleConf(t)), "status", view{})
	for _, row := range []struct{ name, base, theirs, mine, want string }{
		{"nobody", "a\nb", "a\nb", "a\nb", `[["a","b"]]`},
		{"they", "a\nb", "a\nB", "a\nb", `[["a"],["B"]]`},
		{"I", "a\nb", "a\nb", "A\nb", `[["A"],["b"]]`},
		{"both_apart", "a\nb\nc", "A\nb\nc", "a\nb\nC", `[["A"],["b"],["C"]]`},
		{"both_the_same", "a", "b", "b", `[["b"]]`},
		{"both_otherwise", "a\nb\nc", "a\nt\nc", "a\nm\nc", `[["a"],{"base":["b"],"theirs":["t"],"mine":["m"]},["c"]]`},
		{"added_at_the_same_place", "a\nc", "a\nt\nc", "a\nm\nc", `[["a"],{"base":[],"theirs":["t"],"mine":["m"]},["c"]]`},
		{"removed_and_changed", "a\nb\nc", "a\nc", "a\nB\nc", `[["a"],{"base":["b"],"theirs":[],"mine":["B"]},["c"]]`},
		{"what_both_begin_with", "a", "x\nt", "x\nm", `[["x"],{"base":["a"],"theirs":["t"],"mine":["m"]}]`},
		{"from_nothing", "", "t", "m", `[{"base":[""],"theirs":["t"],"mine":["m"]}]`},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.JSONEq(t, row.want, eval[string](tb, fmt.Sprintf(`import("./merge.js").then(({merge3}) =>
				JSON.stringify(merge3(%s, %s, %s).map(part => part.lines ?? part)))`, quote(row.base), quote(row.theirs), quote(row.mine))))
		})
	}
	t.Run("nothing_of_either_side_is_lost", func(t *testing.T) {
		require.Empty(t, eval[string](tb, `import("./merge.js").then(({merge3, conflicts, joined, diffLines}) => {
			let seed = 7;
			const draw = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) % n;
			const text = () => Array.from({length: draw(7)}, () => "abcd"[draw(4)]).join("\n");
			for (let round = 0; round < 20000; round++) {
				const [base, theirs, mine] = [text(), text(), text()];
				const parts = merge3(base, theirs, mine), lines = joined(parts).split("\n");
				const wrong = (what) => what + " " + JSON.stringify([base, theirs, mine, parts]);
				if (joined(merge3(base, base, mine)) !== mine) return wrong("only mine");
				if (joined(merge3(base, theirs, base)) !== theirs) return wrong("only theirs");
				if (joined(merge3(base, mine, mine)) !== mine || conflicts(merge3(base, mine, mine)).length) return wrong("the same");
				if (conflicts(merge3(base, mine, theirs)).length !== conflicts(parts).length) return wrong("turned around");
				for (const side of [theirs, mine]) { // what it added is there, in its order
					let at = 0;
					for (const {kind, text} of diffLines(base.split("\n"), side.split("\n"))) {
						if (kind !== "right") continue;
						at = lines.indexOf(text, at) + 1;
						if (!at) return wrong("lost " + text);
					}
				}
			}
			return "";
		})`))
	})
}
