package servertest

import (
	"cmp"
	"crypto/tls"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/authority"
	"confcenter/server/tcp"
)

// transportVariable says on which transport Start and Dial have the tests of a process run:
// gnet, where nothing else is said; std; or tls.
const transportVariable = "TEST_TRANSPORT"

var on = transport{std: os.Getenv(transportVariable) == "std", tls: os.Getenv(transportVariable) == "tls"}

// OnOtherTransports runs the tests of the calling package that pattern selects on the
// transports that they do not run on already, each in a process of its own.
func OnOtherTransports(t *testing.T, pattern string) {
	if os.Getenv(transportVariable) != "" {
		return // this is one of these processes
	}
	for _, name := range []string{"std", "tls"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+pattern, "-test.skip=^"+t.Name()[:len(t.Name())-len(name)-1]+"$", "-test.shuffle=on")
			cmd.Env = append(os.Environ(), transportVariable+"="+name)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}

type transport struct{ std, tls bool }

// OnTransport has a server use the transport that the tests run on.
func OnTransport(cfg tcp.Config) tcp.Config {
	cfg.Std = on.std
	if on.tls {
		cfg.Listen, cfg.TLSListen, cfg.TLS = "", cmp.Or(cfg.Listen, "127.0.0.1:0"), on.server()
	}
	return cfg
}

var keys = sync.OnceValues(func() (*authority.Authority, tls.Certificate) {
	a, err := authority.New()
	if err != nil {
		panic(err)
	}
	pair, err := a.Issue("server", time.Now().Add(time.Hour))
	if err != nil {
		panic(err)
	}
	cert, err := pair.Certificate()
	if err != nil {
		panic(err)
	}
	return a, cert
})

func (transport) server() *tls.Config {
	_, cert := keys()
	return &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}

func (transport) client() *tls.Config {
	a, _ := keys()
	return &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
}
