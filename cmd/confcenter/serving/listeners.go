package serving

import (
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/internal/clock"
	"confcenter/internal/settings"
	"confcenter/internal/tlsfiles"
	"confcenter/server/http"
)

// DefaultHTTP is the default address of the HTTP side.
const DefaultHTTP = "127.0.0.1:8080"

// httpOptions are the settings of the HTTP side.
type httpOptions struct {
	http.Config      // without addresses: none
	given       bool // Listen was set, even to the default
}

func (o *httpOptions) define(f *pflag.FlagSet) {
	f.StringVar(&o.Listen, "http", DefaultHTTP, "HTTP address, for REST, streams, metrics and the console; empty = off; port 0 takes a free one")
	f.StringVar(&o.TLSListen, "http-tls", "", "HTTPS address, beside --http or, if that is empty, alone")
	f.Var((*settings.List)(&o.Hosts), "http-host", "host names by which HTTP is reached besides localhost, separated by commas, for example plum-controller; requests for other names are refused, IP addresses are always allowed")
	f.Var((*settings.List)(&o.CORSOrigins), "http-cors-origin", "origins of web pages that may use HTTP, separated by commas, for example https://ops.example.com; they may read and write everything")
	f.IntVar(&o.MaxConnections, "http-max-connections", 0, "HTTP connections at the same time, streams included; beyond that, only probes, metrics, status and clients are answered; 0 = a quarter of the limit on open files, at most 8192")
	f.BoolVar(&o.AccessLog, "http-access-log", true, "log every HTTP request except health checks")
	f.DurationVar(&o.SlowRequest, "slow-request", 500*time.Millisecond, "log requests that take longer than this")
}

func (o *httpOptions) off() bool { return o.Listen == "" && o.TLSListen == "" }

// check finds names that HTTP cannot be served under.
func (o *httpOptions) check(refuse func(format string, args ...any)) {
	for _, host := range o.Hosts {
		if strings.ContainsAny(host, "/ *") {
			refuse("http-host = %s: must be a host name, without scheme, path and wildcards", host)
		}
	}
	for _, origin := range o.CORSOrigins {
		if err := http.CheckOrigin(origin); err != nil {
			refuse("http-cors-origin: %w", err)
		}
	}
}

// tlsOptions are serve's settings of TLS.
type tlsOptions struct {
	listen string // empty: only HTTP may have TLS
	files  tlsfiles.Paths
}

func (o *tlsOptions) define(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "tls-listen", "", "address to serve on with TLS, beside --listen or, if that is empty, alone; HOST:PORT or unix:PATH")
	f.StringVar(&o.files.Cert, "tls-cert", "", "file of the certificate for --tls-listen and --http-tls with those between it and the authority, in PEM; read again when it changes")
	f.StringVar(&o.files.Key, "tls-key", "", "file of its key, in PEM")
	f.StringVar(&o.files.ClientCA, "tls-client-ca", "", "file of the authorities that clients' certificates must come from, in PEM; clients must show one, with --access-control they may; empty = clients need none")
	f.StringVar(&o.files.ClientCRL, "tls-client-crl", "", "file of the revocation lists of these authorities, in PEM; read again when it changes")
}

// servesTLS reports whether anything is served with TLS.
func (o *Options) servesTLS() bool { return o.tls.listen != "" || o.http.TLSListen != "" }

func (o *tlsOptions) check(wanted bool, refuse func(format string, args ...any)) {
	switch {
	case wanted && (o.files.Cert == "" || o.files.Key == ""):
		refuse("tls-listen and http-tls need a certificate and its key: --tls-cert and --tls-key")
	case o.files.ClientCRL != "" && o.files.ClientCA == "":
		refuse("tls-client-crl has what the authorities of --tls-client-ca have revoked, which is not set")
	case !wanted && o.files != tlsfiles.Paths{}:
		refuse("tls-cert, tls-key, tls-client-ca and tls-client-crl are for --tls-listen and --http-tls, of which neither is set")
	}
}

// openCertificates opens those that TLS is served with; nil: there is no TLS.
func (o *Options) openCertificates(log zerolog.Logger) (*tlsfiles.Files, error) {
	if !o.servesTLS() {
		return nil, nil
	}
	paths := o.tls.files
	paths.Optional = o.access.On // there are other ways to say who one is
	return tlsfiles.Open(paths, clock.Real(), log)
}
