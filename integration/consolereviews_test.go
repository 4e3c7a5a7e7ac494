//go:build soak

package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func TestConsoleApprovesAChange(t *testing.T) {
	srv, admin, tokens := twoPersons(t)
	number := heldIn(t, as(t, srv, tokens["zoe"]).Call(protocol.SetConfig, `{"filename":"live/a.json","contents":{"a":2},"comment":"for the sale"}`))
	tb := startBrowser(t).guest(srv, "approvals")
	tb.signInByToken(tokens["max"])
	tb.run("it_is_listed_and_compared", func(t *testing.T) {
		tb.sees("#reviews", "token:zoe")
		tb.sees("#reviews", "for the sale")
		tb.click(fmt.Sprintf("#show-%d", number))
		tb.sees("#compared", `+{"a":2}`)
		tb.sees("#compared", `-{"a":1}`)
	})
	tb.run("and_approved", func(t *testing.T) {
		tb.click(fmt.Sprintf("#approve-%d", number))
		tb.write("#decision-comment", "as agreed on <b>Monday</b>")
		tb.click("#confirm-yes")
		tb.sees("#reviews", "No change waits.")
		_, text := bearer(t, srv, tokens["zoe"], "GET", "/v1/config/file?name=live/a.json", "")
		require.Contains(t, text, `\"a\":2`)
	})
	tb.run("what_was_decided_stays_to_be_seen", func(t *testing.T) {
		for _, text := range []string{"approved", "token:max", "as agreed on <b>Monday</b>", "config:live/a.json"} {
			tb.sees(fmt.Sprintf("#decided-%d", number), text)
		}
		_, text := bearer(t, srv, tokens["max"], "GET", "/v1/review/list?all=1", "")
		require.Contains(t, text, `"reason":"as agreed on <b>Monday</b>"`)
	})
	tb.run("of_very_many_there_is_a_page_at_a_time", func(t *testing.T) {
		zoe, root := as(t, srv, tokens["zoe"]), as(t, srv, admin)
		last := int64(0)
		for i := range 130 {
			asks := zoe
			if i >= 90 {
				asks = root
			}
			last = heldIn(t, asks.Call(protocol.SetConfig, fmt.Sprintf(`{"filename":"live/%d.json","contents":{}}`, i)))
		}
		tb.click("#reviews-again")
		tb.until(`document.querySelectorAll("#reviews tbody tr").length === 100`)
		tb.misses(fmt.Sprintf("#change-%d", last))
		tb.click("#reviews-more")
		tb.until(`document.querySelectorAll("#reviews tbody tr").length === 130`)
		tb.misses("#reviews-more")
		tb.click(fmt.Sprintf("#show-%d", last))
		tb.click(fmt.Sprintf("#reject-%d", last))
		tb.write("#decision-comment", "not now")
		tb.click("#confirm-yes")
		tb.sees(fmt.Sprintf("#decided-%d", last), "rejected")
		tb.sees(fmt.Sprintf("#decided-%d", last), "not now")
		tb.until(`document.querySelectorAll("#reviews tbody tr").length === 129`)
	})
	tb.fits()
}
