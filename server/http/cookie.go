package http

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// jar knows the cookies of the console. Browsers send a cookie to every port of a host, so its
// name has the port, or two servers on one machine would take each other's away.
type jar struct {
	external *url.URL // the server's address for browsers; nil: none is known
}

// The names of the cookies, without what jar.name adds.
const (
	sessionCookie = "confcenter"
	attemptCookie = "confcenter-signin"
)

// secure reports whether the browser that sends r speaks TLS, with us or with a proxy before us.
func (j jar) secure(r *http.Request) bool {
	return r.TLS != nil || j.external != nil && j.external.Scheme == "https" && strings.EqualFold(j.external.Host, r.Host)
}

// name is what a cookie is called in a request's answer. Over TLS it has the prefix by which
// browsers take it from this host alone.
func (j jar) name(r *http.Request, name string) string {
	if u, err := url.Parse("//" + r.Host); err == nil && u.Port() != "" {
		name += "-" + u.Port()
	}
	if j.secure(r) {
		return "__Host-" + name
	}
	return name
}

// find is a cookie's value; empty: there is none. One that is there twice is none either: without
// TLS a neighbouring host can add its own.
func (j jar) find(r *http.Request, name string) string {
	if all := r.CookiesNamed(j.name(r, name)); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// set has the browser keep a cookie until it ends, or for a time. An empty value removes it.
func (j jar) set(w http.ResponseWriter, r *http.Request, name, value, path string, mode http.SameSite, life time.Duration) {
	c := http.Cookie{Name: j.name(r, name), Value: value, Path: path, MaxAge: int(life / time.Second), HttpOnly: true, SameSite: mode, Secure: j.secure(r)}
	if value == "" {
		c.MaxAge = -1
	}
	if c.Secure {
		c.Path = "/" // the prefix demands it
	}
	http.SetCookie(w, &c)
}

// session is the text of the session that a request comes with. Only the console's own pages have
// one: whatever other page has caused a request, on another port of this host or of an origin that
// CORS lets in, it has what it can prove by itself.
func (j jar) session(r *http.Request) string {
	if !ownPage(r) {
		return ""
	}
	return j.find(r, sessionCookie)
}

// ownPage reports whether a page of this server, or the person at the browser, has caused a
// request. Browsers say so, over plain connections to other machines only of what changes
// something: what else they ask for there has no effects, and no other page can read the answer.
func ownPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}
