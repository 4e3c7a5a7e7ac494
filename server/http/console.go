package http

import (
	"net/http"
	"strings"

	"confcenter/access"
	"confcenter/server/http/console"
)

// consolePath is the root of the console's pages. Their API calls are relative to
// it.
const consolePath = "/console/"

// consoleRoutes serve the console. The bare address redirects to it, and the
// address of Plum's web view to the page that replaces it.
func (g *Gateway) consoleRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/{$}", name: "root", right: access.Anyone, handle: goTo(consolePath)},
		{method: http.MethodGet, pattern: "/kv-store", name: "kv-store", right: access.Anyone, handle: goTo(consolePath + "#/store")},
		{method: http.MethodGet, pattern: consolePath + "{path...}", name: "console", right: access.Anyone, handle: func(w *reply, r *http.Request) error {
			if !console.Serve(w, r, r.PathValue("path")) {
				return errUnknownPath
			}
			return nil
		}},
	}
}

// goTo redirects from a path with a single segment.
func goTo(path string) handler {
	return func(w *reply, _ *http.Request) error {
		w.Header().Set("Cache-Control", "no-cache")
		// Relative, so that it works behind a proxy that serves everything below a
		// prefix.
		w.Header().Set("Location", strings.TrimPrefix(path, "/"))
		w.WriteHeader(http.StatusFound)
		return nil
	}
}
