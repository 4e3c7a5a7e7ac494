package tlsfiles

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/authority"
	"confcenter/internal/clock/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit has files and who issues what is in them.
type kit struct {
	t     *testing.T
	from  *authority.Authority
	paths Paths
	clock *clocktest.Fake
	log   bytes.Buffer
	*Files
}

func start(t *testing.T, clientCA bool) *kit {
	dir := t.TempDir()
	k := &kit{t: t, clock: clocktest.NewFake(time.Now()), paths: Paths{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}}
	var err error
	k.from, err = authority.New()
	require.NoError(t, err)
	k.replace(k.issue("one"))
	if clientCA {
		k.paths.ClientCA = filepath.Join(dir, "ca")
		k.write(k.paths.ClientCA, k.from.PEM())
	}
	k.Files, err = Open(k.paths, k.clock, zerolog.New(zerolog.SyncWriter(&k.log)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func (k *kit) issue(name string) authority.Pair {
	pair, err := k.from.Issue(name, k.clock.Now().Add(time.Hour))
	require.NoError(k.t, err)
	return pair
}

func (k *kit) write(path string, text []byte) { require.NoError(k.t, os.WriteFile(path, text, 0o600)) }

func (k *kit) replace(p authority.Pair) {
	k.write(k.paths.Cert, p.Cert)
	k.write(k.paths.Key, p.Key)
}

// look has the files looked at as often as it takes.
func (k *kit) look() {
	k.Files.look()
	k.Files.look()
}

// shown is the name in the certificate that a client sees.
func (k *kit) shown(with ...tls.Certificate) (string, error) {
	state, err := k.handshake(&tls.Config{Certificates: with})
	if err != nil {
		return "", err
	}
	return state.PeerCertificates[0].Subject.CommonName, nil
}

// handshake is that of a client of which the config says the rest; both sides have to be content.
func (k *kit) handshake(client *tls.Config) (state tls.ConnectionState, err error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", k.Config())
	require.NoError(k.t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
			c.Close()
		}
		done <- err
	}()
	client.RootCAs, client.ServerName = k.from.Pool(), "localhost"
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if failed := <-done; failed != nil || err != nil {
		return state, cmp.Or(failed, err)
	}
	defer c.Close()
	return c.ConnectionState(), nil
}

func (k *kit) shows(name string) {
	k.t.Helper()
	got, err := k.shown()
	require.NoError(k.t, err)
	require.Equal(k.t, name, got)
}

func TestNewCertificatesAreTaken(t *testing.T) {
	k := start(t, false)
	k.shows("one")
	k.look()
	require.Empty(t, k.log.String())
	k.replace(k.issue("two"))
	k.Files.look()
	k.shows("one") // they may not be there whole
	k.Files.look()
	k.shows("two")
	require.Contains(t, k.log.String(), "reloaded")
}

// Of TLS 1.2 nothing is spoken whose padding tells readers on the way something.
func TestNothingIsSaidWithPadding(t *testing.T) {
	k := start(t, false)
	for _, suite := range tls.CipherSuites() {
		if suite.SupportedVersions[0] > tls.VersionTLS12 || strings.Contains(suite.Name, "_RSA_") {
			continue // the certificate's key is of the other kind
		}
		_, err := k.handshake(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		if strings.Contains(suite.Name, "_CBC_") {
			require.Error(t, err, suite.Name)
		} else {
			require.NoError(t, err, suite.Name)
		}
	}
}

func TestTheClockHasTheFilesLookedAt(t *testing.T) {
	k := start(t, false)
	k.replace(k.issue("two"))
	require.Eventually(t, func() bool {
		k.clock.Advance(period)
		name, err := k.shown()
		return err == nil && name == "two"
	}, 10*time.Second, time.Millisecond)
}

func TestBrokenCertificatesAreReportedAndNotTaken(t *testing.T) {
	k := start(t, false)
	good := k.issue("two")
	for _, broken := range []func(){
		func() { k.write(k.paths.Key, good.Key) }, // not the certificate's
		func() { k.write(k.paths.Cert, []byte("nonsense")) },
		func() { require.NoError(t, os.Remove(k.paths.Cert)) },
	} {
		k.log.Reset()
		broken()
		k.look()
		k.look()
		require.ErrorContains(t, k.Trouble(), k.paths.Cert)
		require.Equal(t, 1, bytes.Count(k.log.Bytes(), []byte("\n")), "said once")
		k.shows("one")
	}
	k.replace(good)
	k.look()
	require.NoError(t, k.Trouble())
	k.shows("two")
}

func TestWhatIsNotGoodFromTheBeginningIsRefused(t *testing.T) {
	k := start(t, true)
	_, err := Open(Paths{Cert: k.paths.Cert, Key: "nowhere"}, k.clock, zerolog.Nop())
	require.ErrorContains(t, err, "tls-key: open nowhere")
	k.write(k.paths.ClientCA, []byte("nonsense"))
	_, err = Open(k.paths, k.clock, zerolog.Nop())
	require.ErrorContains(t, err, "tls-client-ca = "+k.paths.ClientCA)
}

func TestACertificateThatNeedNotBeShownMustBeGoodIfItIs(t *testing.T) {
	k := start(t, true)
	require.NoError(t, k.Close())
	k.paths.Optional = true
	var err error
	k.Files, err = Open(k.paths, k.clock, zerolog.Nop())
	require.NoError(t, err)
	foreign, err := authority.New()
	require.NoError(t, err)
	for _, c := range []struct {
		of   *authority.Authority
		good bool
	}{{nil, true}, {k.from, true}, {foreign, false}} {
		var with []tls.Certificate
		if c.of != nil {
			pair, err := c.of.Issue("client", k.clock.Now().Add(time.Hour))
			require.NoError(t, err)
			shown, err := pair.Certificate()
			require.NoError(t, err)
			with = append(with, shown)
		}
		_, err := k.shown(with...)
		require.Equal(t, c.good, err == nil, "%v", err)
	}
}

func TestAnExpiredCertificateIsTrouble(t *testing.T) {
	k := start(t, false)
	require.NoError(t, k.Trouble())
	k.clock.Advance(2 * time.Hour)
	require.ErrorContains(t, k.Trouble(), "has expired")
}

// A client that was trusted before must not come back by what it remembers.
func TestAnAuthorityThatIsTakenAwayIsNotTrusted(t *testing.T) {
	k := start(t, true)
	_, err := k.shown()
	require.ErrorContains(t, err, "didn't provide a certificate")
	mine, err := k.issue("client").Certificate()
	require.NoError(t, err)
	_, err = k.shown(mine)
	require.NoError(t, err)
	other, err := authority.New()
	require.NoError(t, err)
	k.write(k.paths.ClientCA, other.PEM())
	k.look()
	_, err = k.shown(mine)
	require.ErrorContains(t, err, "certificate signed by unknown authority")
}

func TestRevokedCertificatesAreRefused(t *testing.T) {
	k := start(t, true)
	_ = k.Close()
	one, two := k.issue("client one"), k.issue("client two")
	revoke := func(by *authority.Authority, due time.Time, pairs ...authority.Pair) {
		list, err := by.Revoke(due, pairs...)
		require.NoError(t, err)
		k.write(k.paths.ClientCRL, list)
	}
	due := k.clock.Now().Add(time.Hour)
	k.paths.ClientCRL = k.paths.Cert + ".crl"
	revoke(k.from, due)
	var err error
	k.Files, err = Open(k.paths, k.clock, zerolog.New(zerolog.SyncWriter(&k.log)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	told := 0
	k.Follow(func() { told++ })
	certs := map[string]tls.Certificate{}
	for name, pair := range map[string]authority.Pair{"one": one, "two": two} {
		certs[name], err = pair.Certificate()
		require.NoError(t, err)
	}
	enters := func(name string) error {
		_, err := k.shown(certs[name])
		return err
	}
	require.NoError(t, enters("one"))
	require.False(t, k.Revoked(certs["one"].Leaf))

	revoke(k.from, due, one)
	k.look()
	require.Equal(t, 1, told)
	require.True(t, k.Revoked(certs["one"].Leaf))
	require.ErrorContains(t, enters("one"), "client one is revoked")
	require.NoError(t, enters("two"))
	require.NoError(t, k.Trouble())

	// what cannot be believed changes nothing
	stranger, err := authority.New()
	require.NoError(t, err)
	for _, bad := range []func(){
		func() { revoke(stranger, due, two) },
		func() { k.write(k.paths.ClientCRL, []byte("nonsense")) },
		func() { require.NoError(t, os.Remove(k.paths.ClientCRL)) },
	} {
		bad()
		k.look()
		require.ErrorContains(t, enters("one"), "is revoked")
		require.NoError(t, enters("two"))
		require.Error(t, k.Trouble())
	}
	require.Equal(t, 1, told)

	revoke(k.from, due)
	k.look()
	require.NoError(t, enters("one"))
	revoke(k.from, k.clock.Now().Add(-time.Minute), two)
	k.look()
	require.ErrorContains(t, k.Trouble(), "should have been replaced")
	require.ErrorContains(t, enters("two"), "is revoked", "it still counts")
}
