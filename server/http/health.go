package http

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
)

// check is one condition of health. It must be cheap and must not wait, because it
// runs for every probe.
type check struct {
	name string
	run  func() error
	mild bool // it fails no probe and is only told
}

// liveChecks are the checks whose failure only a restart repairs.
func (g *Gateway) liveChecks() []check {
	var checks []check
	if g.tcp != nil {
		checks = append(checks, check{name: "server", run: g.tcp.Live})
	}
	if g.cfg.Restart != nil {
		checks = append(checks, check{name: "restart", run: g.cfg.Restart})
	}
	return checks
}

// readyChecks decide whether this server should get requests, writes among them: who
// needs reads only leaves the checks of the stores out. Broken files do not count,
// because their last valid version is served.
func (g *Gateway) readyChecks() []check {
	checks := g.liveChecks()
	if g.tcp != nil {
		checks = append(checks, check{name: "accepting", run: g.tcp.Ready})
	}
	for _, s := range g.troubledStores() {
		checks = append(checks, check{name: s.name, run: func() error { return g.writable(s) }})
	}
	if _, ok := g.stores.State.(damaged); ok {
		checks = append(checks, check{name: "damage", mild: true, run: func() error {
			if t := g.damage(); t != nil {
				return t.Err
			}
			return nil
		}})
	}
	if docs := g.stores.Config; docs != nil && docs.NeverGood([]byte(confstore.MetaName)) != nil { // since the start
		checks = append(checks, check{name: "meta", run: func() error {
			if broken := docs.NeverGood([]byte(confstore.MetaName)); broken != nil {
				return fmt.Errorf("%w; programs would get no main configuration, and nothing that they inherit", broken)
			}
			return nil
		}})
	}
	if g.cfg.Certificates != nil {
		checks = append(checks, check{"tls", g.cfg.Certificates, true})
	}
	if g.cfg.Secrets != nil {
		checks = append(checks, check{"secrets", g.cfg.Secrets, true})
	}
	if c := g.edge.Control; c != nil {
		checks = append(checks, check{"access", c.Trouble, true})
	}
	if len(g.cfg.Open) > 0 {
		checks = append(checks, check{"access", g.openToAll, true})
	}
	return checks
}

// openToAll says that there is no access control where there should be.
func (g *Gateway) openToAll() error {
	return codes.Errorf(codes.Forbidden, "OPEN ACCESS: anyone who reaches %s may read and write everything (--allow-open)", strings.Join(g.cfg.Open, ", "))
}

// health answers a probe like Kubernetes and etcd: with ok, or with the result of
// every check if one fails or the query has verbose. exclude leaves a check out of
// the verdict. What the checks say is of directories, disks and keys: only who may see
// the server's figures is told, and others no more than the verdict.
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
			case err != nil && c.mild:
				lines.WriteString("[!]" + c.name + " trouble: " + err.Error() + "\n")
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
		details := w.Rights.Right(access.StatusRead, false) == nil
		text, status := "ok\n", http.StatusOK
		switch {
		case failed && details:
			text, status = lines.String()+probe+" check failed\n", http.StatusServiceUnavailable
		case failed:
			text, status = probe+" check failed\n", http.StatusServiceUnavailable
		case details && query.Has("verbose"):
			text = lines.String() + probe + " check passed\n"
		}
		w.WriteHeader(status)
		_, err := w.Write([]byte(text))
		return gone(err)
	}
}

// clipped bounds a name from the request before it is repeated.
func clipped(name string) string { return name[:min(len(name), 64)] }
