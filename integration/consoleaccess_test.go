//go:build soak

package integration

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// busyTeam is a server that people with long names work on: files, tokens, changes that wait and were
// decided, and lines of the audit.
func busyTeam(t *testing.T) (srv *Process, admin string, held int64) {
	srv, admin = guarded(t)
	root := as(t, srv, admin)
	long := "deploy-pipeline@" + strings.Repeat("game-servers.", 6) + "example.org"
	_, wordy := tokenFor(t, root, long, "games", "operations/europe-west/"+strings.Repeat("x", 40), "策划组")
	_, zoe := tokenFor(t, root, "zoe")
	_, max := tokenFor(t, root, "max")
	tokenFor(t, root, "运维值班 张伟", "策划组")
	for i := range 50 {
		name := fmt.Sprintf("live/region-%02d/%s活动配置-%d.json", i%7, strings.Repeat("very-long-name-", 4), i)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(srv.Conf, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(srv.Conf, name), []byte(fmt.Sprintf(`{"标题":"%s","n":%d}`, strings.Repeat("双倍经验", 30), i)), 0o644))
	}
	for name, text := range map[string]string{"live/a.json": `{"a":1}`, "_access/two.json": twoRole} { // from now on tokens wait, too
		require.NoError(t, os.WriteFile(filepath.Join(srv.Conf, name), []byte(text), 0o644))
	}
	eventually(t, "the marks", func() bool {
		status, _ := bearer(t, srv, zoe, "GET", "/v1/config/file?name=live/a.json", "")
		return status == 200
	})
	as(t, srv, wordy).Call(protocol.KVGet, `{"ns":"other","key":"`+strings.Repeat("key/", 60)+`"}`)
	writer := as(t, srv, zoe)
	why := strings.Repeat("because the event begins on Friday ", 8) + "国庆活动提前上线"
	first := heldIn(t, writer.Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"a":2},"comment":"`+why+`"}`))
	status, _ := bearer(t, srv, max, "POST", "/v1/review/reject", fmt.Sprintf(`{"number":%d,"comment":%s}`, first, quote(why)))
	require.Equal(t, 200, status)
	held = heldIn(t, writer.Call(protocol.SetConfig, `{"filename":"live/b-`+strings.Repeat("long-", 20)+`.json","contents":{"a":"`+strings.Repeat("value ", 200)+`","标题":"`+strings.Repeat("双倍经验", 60)+`"},"comment":"`+why+`"}`))
	return srv, admin, held
}

// Pages of a server with access control have room for long names, at 1280 and on a phone.
func TestConsoleOfAccessHasRoom(t *testing.T) {
	srv, admin, held := busyTeam(t)
	b := startBrowser(t)
	for _, width := range []int64{1280, 390} {
		tb := b.guest(srv, "audit")
		tb.size = [2]int64{width, 800}
		tb.do(chromedp.EmulateViewport(width, 800))
		tb.signInByToken(admin)
		for _, language := range []string{"en", "zh"} {
			tb.run(fmt.Sprintf("%d_%s", width, language), func(t *testing.T) {
				pages := map[string]string{"audit": "#audit tbody tr", "approvals": fmt.Sprintf("#show-%d", held), "access": "#sessions tbody tr"}
				if language == "en" { // the others are in TestConsoleLooks
					pages["configs/"+url.PathEscape("live/a.json")], pages["clients"] = "#file-name", "#clients .row"
				}
				for page, there := range pages {
					tb.load(page)
					tb.until(`document.querySelector(%q)`, there)
					tb.fits()
					tb.sound(page)
				}
				tb.load("approvals")
				tb.click(fmt.Sprintf("#show-%d", held))
				tb.until(`(r => r && r.top < innerHeight && r.bottom > 0)(document.querySelector("#compared h2")?.getBoundingClientRect())`)
				tb.fits()
				tb.sound("compared")
				tb.load("access")
				tb.click("#make-token")
				tb.fits()
				tb.sound("a dialog")
				tb.key(kb.Escape)
				tb.misses("dialog")
				tb.click("#language")
			})
		}
	}
}

// One sees the pages that one may see something on. Who comes to another one is told what is missing.
func TestConsoleShowsWhatOneMaySee(t *testing.T) {
	srv, admin := guarded(t)
	root := as(t, srv, admin)
	role := `{"rules":[{"who":["token:reader"],"allow":["read","watch"],"what":["config:game/*"]},{"who":["token:ops"],"allow":["read"],"what":["status","clients:*","bench"]}]}`
	status, text := bearer(t, srv, admin, "PUT", "/v1/config/file?name=_access/few.json", role)
	require.Equal(t, 200, status, text)
	tabs := func(tb *tab) []string {
		return eval[[]string](tb, `[...document.querySelectorAll("header nav a")].map(el => el.id)`)
	}
	b := startBrowser(t)
	for _, row := range []struct {
		who      string
		sees     []string
		first    string
		missing  string
		sentence string
	}{
		{"reader", []string{"nav-configs", "nav-approvals"}, "nav-configs", "status", "needs the right to read “status”"},
		{"ops", []string{"nav-bench", "nav-clients", "nav-status", "nav-approvals"}, "nav-bench", "configs/game%2Fa.json", "needs the right to read “config”"},
		{"stranger", []string{"nav-approvals"}, "nav-approvals", "audit", "needs the right to read “audit”"},
	} {
		_, token := tokenFor(t, root, row.who)
		tb := b.guest(srv, "")
		tb.signInByToken(token)
		tb.run(row.who, func(t *testing.T) {
			tb.load("")
			require.Equal(t, row.sees, tabs(tb))
			tb.until(`document.querySelector("nav [aria-current]")?.id === %q`, row.first)
			tb.load(row.missing)
			tb.sees("#missing", row.sentence)
			tb.sound(row.missing)
			tb.load("access")
			tb.sees("#own", "token:"+row.who)
			tb.sees("#tokens .note", `you may not read "roles"`)
		})
	}
	tb := b.guest(srv, "access")
	tb.signInByToken(admin)
	require.Len(t, tabs(tb), 10)
	tb.run("without_access_control", func(t *testing.T) {
		plain := b.open(StartProcess(t, sampleConf(t)), "audit", view{})
		plain.t = t
		plain.sees("#missing", "started without --access-control")
		require.Len(t, tabs(plain), 7)
	})
}
