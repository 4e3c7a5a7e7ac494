package http

import (
	"bytes"
	"cmp"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
)

// Header values of many replies. They are shared and must not be modified.
var (
	contentJSON  = []string{"application/json"}
	contentPlain = []string{"text/plain; charset=utf-8"}
	noSniff      = []string{"nosniff"}
	noStore      = []string{"no-store"}
)

// Headers of CORS. Plum names the first two request headers; the others are ours.
const (
	corsMethods = "GET,POST,PUT,PATCH,DELETE,OPTIONS"
	corsHeaders = "Content-Type, Authorization, If-Match, If-None-Match, Last-Event-ID, " + headerAuthor + ", " + headerComment + ", " + headerToken
	corsExposed = "ETag"
)

// unrouted is the route of requests that are refused before routing.
var unrouted = route{name: "refused"}

// middleware is what every request passes through. It counts and logs the request,
// checks that it names a host of ours and, if it may change something, that it does
// not come from a page of another site.
func (g *Gateway) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := newReply(rw, g.cfg.Memory.Bodies, g.edge)
		began := g.clock.Now()
		if p := peerOf(r); p != nil {
			p.head.begin()
		}
		defer func() {
			if what := recover(); what != nil { // do not reuse the reply
				defer g.finish(w, r, began) // even if it panics again
				g.recovered(w, r, what)
				return
			}
			g.finish(w, r, began)
			w.free()
		}()
		w.Header()["X-Content-Type-Options"] = noSniff
		if len(g.cors) > 0 {
			g.addCORS(w.Header(), r)
		}
		if err := g.admit(r); err != nil {
			g.fail(w, r, &unrouted, err)
			return
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// finish counts and logs an answered request.
func (g *Gateway) finish(w *reply, r *http.Request, began time.Time) {
	w.room.give()
	duration := g.clock.Now().Sub(began) - w.rested
	w.status = cmp.Or(w.status, http.StatusOK) // net/http sends 200
	if g.cfg.AccessLog && !w.route.quiet {
		g.log.Info().Str("method", r.Method).Str("route", w.route.name).Int("status", w.status).Dur("duration", duration).Msg("http")
	}
	g.traffic.Served(r.Method, w.route.name, w.route.stream, w.status, duration)
}

// allow prepares what admit and addCORS check.
func (g *Gateway) allow() error {
	g.hosts = map[string]bool{"localhost": true}
	for _, name := range g.cfg.Hosts {
		g.hosts[strings.ToLower(hostname(name))] = true
	}
	if g.jar.external != nil {
		g.hosts[strings.ToLower(g.jar.external.Hostname())] = true
	}
	for _, address := range []string{g.cfg.Listen, g.cfg.TLSListen} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			g.hosts[strings.ToLower(host)] = true
		}
	}
	g.cors = map[string]bool{}
	g.guard = http.NewCrossOriginProtection()
	for _, origin := range g.cfg.CORSOrigins {
		if err := CheckOrigin(origin); err != nil {
			return err
		}
		if err := g.guard.AddTrustedOrigin(origin); err != nil {
			return codes.Errorf(codes.BadRequest, "origin %q: %w", origin, err)
		}
		g.cors[origin] = true
	}
	return nil
}

// CheckOrigin reports whether origin is valid for Config.CORSOrigins. It refuses a
// star, which would let every page that someone on this machine opens write to the
// server.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return codes.Errorf(codes.BadRequest, "origin %q must be as browsers send it: scheme://host or scheme://host:port, without a path", origin)
	}
	return nil
}

// admit refuses requests that another web site may have made a browser send.
func (g *Gateway) admit(r *http.Request) error {
	if !g.ourHost(r) {
		return codes.Errorf(codes.Forbidden, "this server does not know the host name %.64q: start it with --http-host NAME if it is reached by that name, or use its IP address", r.Host)
	}
	if g.guard.Check(r) != nil {
		return codes.Errorf(codes.Forbidden, "the request comes from a page of another site: its origin is %.64q, the requested host is %.64q. "+
			"If a proxy in front rewrites Host, have it pass Host on and start the server with --http-host and that name; "+
			"if the page is another one that may write here, name its origin with --http-cors-origin", r.Header.Get("Origin"), r.Host)
	}
	return nil
}

// ourHost reports whether the Host header may name this server. With DNS rebinding
// a foreign site's name points here and appears in Host, so a name must be known.
// An IP address cannot be rebound; on loopback it must still be one of ours,
// because no other address leads there.
func (g *Gateway) ourHost(r *http.Request) bool {
	host := strings.ToLower(hostname(r.Host))
	if host == "" || g.hosts[host] {
		return true // browsers always send a host
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local := localIP(r)
	return !local.IsLoopback() || ip.Unmap().IsLoopback() || ip.Unmap() == local
}

// localIP returns the address that the request came to.
func localIP(r *http.Request) netip.Addr {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return addr.AddrPort().Addr().Unmap()
	}
	return netip.IPv6Loopback() // unknown: be strict
}

// hostname returns host without port and brackets.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") && strings.IndexByte(host, ':') == i {
		host = host[:i]
	} else if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end > 0 {
			host = host[1:end]
		}
	}
	return strings.TrimSuffix(host, ".")
}

// addCORS lets pages of the configured origins read replies, and tells caches that
// replies vary by origin.
func (g *Gateway) addCORS(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !g.cors[origin] {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Expose-Headers", corsExposed)
}

// newServerLog takes the complaints of net/http, mostly about peers that
// disconnect.
func newServerLog(log zerolog.Logger) *stdlog.Logger { return stdlog.New(serverLog{log}, "", 0) }

type serverLog struct{ log zerolog.Logger }

// Write implements io.Writer.
func (l serverLog) Write(line []byte) (int, error) {
	l.log.Debug().Msg(fmt.Sprintf("http: %s", bytes.TrimSpace(line)))
	return len(line), nil
}
