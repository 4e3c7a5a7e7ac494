package landing

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"

	"confcenter/codes"
)

// Address is a DSN that has been read.
type Address struct {
	Kind string // mysql, postgres or sqlite
	URL  *url.URL
	Path string // of sqlite's file, which has no URL

	// Password is what Hide hides. An Opener sets it if the DSN has none, and it finds one
	// elsewhere.
	Password string

	name string // for people: without password and parameters
}

// products are the kinds of databases that there are, as people call them.
var products = map[string]string{"mysql": "MySQL", "postgres": "PostgreSQL", "sqlite": "SQLite"}

// parseDSN reads mysql://USER:PASSWORD@HOST:PORT/DATABASE?…, postgres://… or sqlite:PATH. Its
// errors do not repeat the text, because there may be a password in it.
func parseDSN(dsn string) (*Address, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if path == "" || strings.IndexByte(path, 0) >= 0 {
			return nil, BadDSN("sqlite: must be followed by the path of a file")
		}
		return &Address{Kind: "sqlite", Path: path, name: dsn}, nil
	}
	kind, _, ok := strings.Cut(dsn, "://")
	if kind == "postgresql" {
		kind = "postgres"
	}
	if !ok || kind != "mysql" && kind != "postgres" {
		return nil, BadDSN("it must begin with mysql://, postgres:// or sqlite:")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, BadDSN("it is not a URL; write special characters of user and password as %XX")
	}
	if database := strings.TrimPrefix(u.Path, "/"); database == "" || strings.Contains(database, "/") {
		return nil, BadDSN("the name of the database is missing: " + kind + "://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	a := &Address{Kind: kind, URL: u}
	a.Password, _ = u.User.Password()
	shown := url.URL{Scheme: kind, Host: u.Host, Path: u.Path}
	if user := u.User.Username(); user != "" {
		shown.User = url.User(user)
	}
	a.name = shown.String()
	return a, nil
}

// BadDSN is the error for a DSN that is not right. Why must not tell the password.
func BadDSN(why string) error {
	return codes.Errorf(codes.BadRequest, "the DSN of the landing database is not right: %s", why)
}

// Parameters are those behind the question mark. Others than the allowed ones are refused.
func (a *Address) Parameters(allowed ...string) (map[string]string, error) {
	list, err := url.ParseQuery(a.URL.RawQuery)
	if err != nil {
		return nil, BadDSN("its parameters are not well formed")
	}
	values := map[string]string{}
	for name := range list {
		if !slices.Contains(allowed, name) {
			return nil, BadDSN("there is no parameter " + name + "; these are known: " + strings.Join(allowed, ", "))
		}
		values[name] = list.Get(name)
	}
	return values, nil
}

// Database is the name of the database on its server.
func (a *Address) Database() string { return strings.TrimPrefix(a.URL.Path, "/") }

// HostPort is where the server listens: on the given port and on this machine, if the DSN does
// not say.
func (a *Address) HostPort(port string) string {
	host := cmp.Or(a.URL.Hostname(), "127.0.0.1")
	if given := a.URL.Port(); given != "" {
		port = given
	}
	return net.JoinHostPort(host, port)
}

// Hide removes the password from a text of the driver's.
func (a *Address) Hide(text string) string {
	if a.Password == "" {
		return text
	}
	for _, form := range []string{a.Password, url.QueryEscape(a.Password), url.PathEscape(a.Password)} {
		text = strings.ReplaceAll(text, form, "******")
	}
	return text
}
