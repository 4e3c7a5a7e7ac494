package gateway

import (
	"net/http"
	"slices"
	"strings"
)

// check is one thing that must be so. It must be cheap and wait for nothing: it is
// made for every probe.
type check struct {
	name string
	run  func() error
}

// liveChecks are those whose failure only a restart mends.
func (g *Gateway) liveChecks() []check {
	if g.fleet == nil {
		return nil
	}
	return []check{{"server", g.fleet.Live}}
}

// readyChecks say whether requests should be sent here. Broken files do not count:
// their last good version is served.
func (g *Gateway) readyChecks() []check {
	checks := g.liveChecks()
	if g.fleet != nil {
		checks = append(checks, check{"accepting", g.fleet.Ready})
	}
	checks = append(checks, check{"config", g.configWritable})
	if state, ok := g.stores.State.(interface{ Writable() error }); ok {
		checks = append(checks, check{"state", state.Writable})
	}
	return checks
}

// health answers a probe the way Kubernetes and etcd do: with ok, or with each
// check's result if one fails or verbose asks for it. exclude leaves a check out of
// the verdict.
func (g *Gateway) health(probe string, checks []check) handler {
	return func(w *reply, r *http.Request) error {
		query := r.URL.Query()
		excluded := query["exclude"]
		var lines strings.Builder
		failed := false
		for _, c := range checks {
			err := c.run()
			switch i := slices.Index(excluded, c.name); {
			case i >= 0:
				excluded = slices.DeleteFunc(excluded, func(name string) bool { return name == c.name })
				lines.WriteString("[+]" + c.name + " excluded: ok\n")
			case err != nil:
				failed = true
				lines.WriteString("[-]" + c.name + " failed: " + err.Error() + "\n")
			default:
				lines.WriteString("[+]" + c.name + " ok\n")
			}
		}
		for _, name := range excluded {
			lines.WriteString("warn: there is no check " + strings.ToValidUTF8(clipped(name), "?") + " to exclude\n")
		}
		h := w.Header()
		h["Content-Type"], h["Cache-Control"] = contentPlain, noStore
		text, status := "ok\n", http.StatusOK
		switch {
		case failed:
			text, status = lines.String()+probe+" check failed\n", http.StatusServiceUnavailable
		case query.Has("verbose"):
			text = lines.String() + probe + " check passed\n"
		}
		w.WriteHeader(status)
		_, err := w.Write([]byte(text))
		return gone(err)
	}
}

// clipped is what is repeated of a name that came with the request.
func clipped(name string) string { return name[:min(len(name), 64)] }
