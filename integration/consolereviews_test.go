package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

func TestConsoleApprovesAChange(t *testing.T) {
	srv, _, tokens := twoPersons(t)
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
		tb.click("#confirm-yes")
		tb.sees("#reviews", "No change waits.")
		_, text := bearer(t, srv, tokens["zoe"], "GET", "/v1/config/file?name=live/a.json", "")
		require.Contains(t, text, `\"a\":2`)
	})
}
