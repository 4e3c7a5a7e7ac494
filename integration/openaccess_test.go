package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An operator who opens a server to everyone by mistake is told wherever they look.
func TestOpenAccessIsToldEverywhere(t *testing.T) {
	p := StartProcess(t, sampleConf(t), "--listen", "0.0.0.0:0", "--allow-open")
	_, ready := bearer(t, p, "", "GET", "/readyz?verbose", "")
	require.Contains(t, ready, "[!]access trouble: OPEN ACCESS: anyone who reaches 0.0.0.0:0 may read and write everything")
	_, status := bearer(t, p, "", "GET", "/v1/status", "")
	require.Contains(t, status, `"open":["0.0.0.0:0"]`)
	tb := startBrowser(t).open(p, "configs", view{})
	tb.sees("#troubles .banner.bad", "Everyone who reaches 0.0.0.0:0 may read and change everything: there is no access control.")
	tb.click("#language")
	tb.sees("#troubles .banner.bad", "没有启用访问控制")

	quiet := StartProcess(t, sampleConf(t))
	_, ready = bearer(t, quiet, "", "GET", "/readyz?verbose", "")
	require.NotContains(t, ready, "OPEN ACCESS")
	_, status = bearer(t, quiet, "", "GET", "/v1/status", "")
	require.Contains(t, status, `"open":[]`)
}
