package serving

import (
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/internal/clock"
	"confcenter/internal/tlsfiles"
)

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
	paths.Optional = o.access.on // there are other ways to say who one is
	return tlsfiles.Open(paths, clock.Real(), log)
}
