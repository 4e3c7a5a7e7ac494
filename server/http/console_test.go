package http

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/server/http/console"
)

func TestConsolePages(t *testing.T) {
	k := start(t, nil)
	t.Run("bare_address_leads_to_the_console", func(t *testing.T) {
		got := k.get("/")
		require.Equal(t, http.StatusFound, got.status)
		require.Equal(t, "console/", got.header.Get("Location"), "relative, for proxies that serve it below a prefix")
		require.Equal(t, "/console/", k.get("/console").header.Get("Location"))
	})
	t.Run("address_of_plums_web_view_leads_to_the_store", func(t *testing.T) {
		got := k.get("/kv-store")
		require.Equal(t, http.StatusFound, got.status)
		require.Equal(t, "console/#/store", got.header.Get("Location"))
	})
	t.Run("page_with_the_policy", func(t *testing.T) {
		for _, path := range []string{"/console/", "/console/app.js", "/console/base.css"} {
			got := k.get(path)
			require.Equal(t, http.StatusOK, got.status)
			require.Equal(t, console.Policy, got.header.Get("Content-Security-Policy"))
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			require.Equal(t, http.StatusNotModified, k.get(path, "If-None-Match: "+got.header.Get("ETag")).status)
		}
	})
	t.Run("nothing_else_is_served", func(t *testing.T) {
		for _, path := range []string{"/console/none.js", "/console/../go.mod", "/console/assets/app.js", "/console/%2e%2e/go.mod"} {
			require.NotEqual(t, http.StatusOK, k.get(path).status, path)
		}
		require.Equal(t, http.StatusMethodNotAllowed, k.do(http.MethodPost, "/console/", "").status)
	})
}
