package main

import (
	"crypto/tls"
	"errors"

	"github.com/spf13/pflag"

	"confcenter/client"
)

// clientTLS are the settings of TLS that all client verbs share.
type clientTLS struct {
	on            bool
	ca, cert, key string
}

func (o *clientTLS) define(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "tls", false, "connect with TLS, to the port of serve --tls-listen; also CONFCENTER_TLS")
	f.StringVar(&o.ca, "tls-ca", "", "file of the authorities that the server's certificate must come from, in PEM; implies --tls; empty = those that the machine trusts; also CONFCENTER_TLS_CA")
	f.StringVar(&o.cert, "client-cert", "", "file of a certificate for servers that ask for one, in PEM; implies --tls; also CONFCENTER_CLIENT_CERT")
	f.StringVar(&o.key, "client-key", "", "file of its key, in PEM; also CONFCENTER_CLIENT_KEY")
}

// config is nil without TLS.
func (o *clientTLS) config() (*tls.Config, error) {
	switch {
	case (o.cert == "") != (o.key == ""):
		return nil, errors.New("client-cert and client-key belong together: give both")
	case !o.on && o.ca == "" && o.cert == "":
		return nil, nil
	}
	return client.TLSFiles(o.ca, o.cert, o.key)
}
