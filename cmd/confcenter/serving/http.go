package serving

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"confcenter/gateway"
	"confcenter/internal/settings"
)

// DefaultHTTP is the default address of the HTTP side.
const DefaultHTTP = "127.0.0.1:8080"

// httpOptions are the settings of the HTTP side.
type httpOptions struct {
	gateway.Config      // without addresses: none
	given          bool // Listen was set, even to the default
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
		if err := gateway.CheckOrigin(origin); err != nil {
			refuse("http-cors-origin: %w", err)
		}
	}
}
