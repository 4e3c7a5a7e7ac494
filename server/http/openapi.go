package http

import (
	_ "embed"
	"net/http"

	"confcenter/access"
)

// openapi describes every route. A test compares it with the table of routes.
//
//go:embed openapi.json
var openapi []byte

func (g *Gateway) openapiRoutes() []route {
	return []route{{method: http.MethodGet, pattern: "/v1/openapi.json", name: "openapi", right: access.Anyone, handle: func(w *reply, _ *http.Request) error {
		w.Header()["Cache-Control"] = noStore
		return w.send(openapi)
	}}}
}
