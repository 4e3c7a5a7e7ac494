//go:build soak

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func TestConsoleShowsTheAudit(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	_, text := tokenFor(t, root, "game-1")
	game := as(t, srv, text)
	put := func(key string) {
		require.Contains(t, game.Call(protocol.KVPut, fmt.Sprintf(`{"ns":"match","key":%q,"value":"hunter2"}`, key)), `"code":0`)
	}
	put("k1")
	for range 3 {
		require.Contains(t, game.Call(protocol.KVGet, `{"ns":"other","key":"k"}`), `"code":1025`)
	}
	eventually(t, "the refusal has its line", func() bool {
		_, lines := bearer(t, srv, admin, "GET", "/v1/audit/lines?kind=denied", "")
		return len(lines) > len(`{"lines":[]}`)+1
	})
	tb := startBrowser(t).guest(srv, "audit")
	tb.signInByToken(admin)
	const rows = `document.querySelectorAll("#audit tbody tr")`
	tb.run("the_newest_lines_come_first", func(t *testing.T) {
		for _, text := range []string{"kv:match/k1", "token:game-1", "kv:other/k", "forbidden", "127.0.0.1"} {
			tb.sees("#audit tbody", text)
		}
		require.NotContains(t, eval[string](tb, "document.body.textContent"), "hunter2")
		require.True(t, eval[bool](tb, fmt.Sprintf(`[...%s].every((row, i, all) => !i || Number(all[i-1].cells[0].textContent) > Number(row.cells[0].textContent))`, rows)))
	})
	tb.run("what_happens_meanwhile_is_told", func(t *testing.T) {
		put("<i>k2</i>")
		tb.sees("#audit tbody tr:first-child", "kv:match/<i>k2</i>")
	})
	tb.run("chosen_by_kind", func(t *testing.T) {
		tb.choose("#audit-kind", "denied")
		tb.until(rows + `.length === 1`)
		tb.sees("#audit tbody", "kv:other/k")
		put("k3")
		require.Contains(t, game.Call(protocol.KVGet, `{"ns":"other","key":"k4"}`), `"code":1025`)
		tb.until(rows + `.length === 2`)
		tb.choose("#audit-kind", "")
		tb.sees("#audit tbody", "kv:match/k3")
	})
	tb.run("chosen_by_who_and_what", func(t *testing.T) {
		tb.write("#audit-who", "token:game-1")
		tb.write("#audit-what", "kv:match/")
		tb.until(rows + `.length === 3`)
		tb.write("#audit-who", "token:nobody")
		tb.sees("#audit-note", "There is no such line")
		tb.write("#audit-who", "")
		tb.write("#audit-what", "")
		tb.sees("#audit tbody", "login")
	})
	tb.run("older_ones_by_the_page", func(t *testing.T) {
		for i := range 1200 {
			game.Send(protocol.KVPut, fmt.Sprintf(`{"ns":"match","key":"n%d","value":"v"}`, i))
		}
		for range 1200 {
			require.Contains(t, string(game.Next().Body), `"code":0`)
		}
		tb.load("audit")
		tb.until(rows + `.length === 1000`)
		tb.misses("#line-1")
		tb.click("#audit-older")
		tb.sees("#line-1", "permission")
		tb.until(`document.querySelector("#audit-older").hidden`)
	})
	tb.run("in_chinese", func(t *testing.T) {
		tb.click("#language")
		tb.sees("#audit h2", "审计")
		tb.click("#language")
	})
	tb.fits()
	tb.run("not_to_who_may_not_read_it", func(t *testing.T) {
		tb.click("#sign-out")
		tb.asks("Sign in")
		tb.signInByToken(text)
		tb.sees("#missing", "audit")
		tb.until(rows + `.length === 0`)
	})
}
