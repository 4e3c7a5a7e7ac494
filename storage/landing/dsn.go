package landing

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"confcenter/codes"
)

// address is a DSN that has been read, without what only its driver needs.
type address struct {
	kind     string // mysql, postgres or sqlite
	url      *url.URL
	path     string // of sqlite's file
	name     string // for people: without password and parameters
	password string
}

// parseDSN reads mysql://USER:PASSWORD@HOST:PORT/DATABASE?…, postgres://… or sqlite:PATH. Its
// errors do not repeat the text, because there may be a password in it.
func parseDSN(dsn string) (*address, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if path == "" || strings.IndexByte(path, 0) >= 0 {
			return nil, badDSN("sqlite: must be followed by the path of a file")
		}
		return &address{kind: "sqlite", path: path, name: dsn}, nil
	}
	kind, _, ok := strings.Cut(dsn, "://")
	if kind == "postgresql" {
		kind = "postgres"
	}
	if !ok || kind != "mysql" && kind != "postgres" {
		return nil, badDSN("it must begin with mysql://, postgres:// or sqlite:")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, badDSN("it is not a URL; write special characters of user and password as %XX")
	}
	if database := strings.TrimPrefix(u.Path, "/"); database == "" || strings.Contains(database, "/") {
		return nil, badDSN("the name of the database is missing: " + kind + "://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	a := &address{kind: kind, url: u}
	a.password, _ = u.User.Password()
	shown := url.URL{Scheme: kind, Host: u.Host, Path: u.Path}
	if user := u.User.Username(); user != "" {
		shown.User = url.User(user)
	}
	a.name = shown.String()
	return a, nil
}

func badDSN(why string) error {
	return codes.Errorf(codes.BadRequest, "the DSN of the landing database is not right: %s", why)
}

// parameters are those behind the question mark. Others than the allowed ones are refused.
func (a *address) parameters(allowed ...string) (map[string]string, error) {
	list, err := url.ParseQuery(a.url.RawQuery)
	if err != nil {
		return nil, badDSN("its parameters are not well formed")
	}
	values := map[string]string{}
	for name := range list {
		if !slices.Contains(allowed, name) {
			return nil, badDSN("there is no parameter " + name + "; these are known: " + strings.Join(allowed, ", "))
		}
		values[name] = list.Get(name)
	}
	return values, nil
}

func (a *address) database() string { return strings.TrimPrefix(a.url.Path, "/") }

// hostPort is where the server listens.
func (a *address) hostPort(port string) string {
	host := a.url.Hostname()
	if host == "" {
		host = "127.0.0.1"
	}
	if given := a.url.Port(); given != "" {
		port = given
	}
	return net.JoinHostPort(host, port)
}

// hide removes the password from a text of the driver's.
func (a *address) hide(text string) string {
	if a.password == "" {
		return text
	}
	for _, form := range []string{a.password, url.QueryEscape(a.password), url.PathEscape(a.password)} {
		text = strings.ReplaceAll(text, form, "******")
	}
	return text
}
