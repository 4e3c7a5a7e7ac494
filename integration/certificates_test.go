package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/authority"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

const loadRole = `{"rules": [{"who": ["token:load-*", "cert:CN=load-*"], "allow": ["read", "watch"], "what": ["config:*", "kv:match"]}]}`

// soon is how long the end of what was taken away may take: a second, and what a machine that is
// busy with tests adds.
const soon = 5 * time.Second

// secure is a server with access control and TLS, and who issues its certificates.
type secure struct {
	*Process
	t    *testing.T
	from *authority.Authority
	dir  string
	root *servertest.Peer
}

func startSecure(t *testing.T) *secure {
	t.Parallel()
	s := &secure{t: t, dir: t.TempDir(), from: newAuthority(t)}
	s.replace("one")
	s.write("ca", s.from.PEM())
	s.revoke()
	conf := sampleConf(t)
	require.NoError(t, os.MkdirAll(filepath.Join(conf, "_access"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(conf, "_access", "load.json"), []byte(loadRole), 0o644))
	s.Process = process.Start(t, conf, "--access-control", "--tls-listen", "127.0.0.1:0", "--http-tls", "127.0.0.1:0",
		"--tls-cert", s.path("cert"), "--tls-key", s.path("key"), "--tls-client-ca", s.path("ca"), "--tls-client-crl", s.path("crl"))
	text, err := os.ReadFile(filepath.Join(s.Data, "administrator.token"))
	require.NoError(t, err)
	s.root = as(t, s.Process, strings.TrimSpace(string(text)))
	require.Contains(t, s.root.Call(protocol.KVPut, `{"ns":"match","key":"k","type":"int","value":1}`), `"code":0`)
	return s
}

func newAuthority(t *testing.T) *authority.Authority {
	a, err := authority.New()
	require.NoError(t, err)
	return a
}

func (s *secure) path(name string) string { return filepath.Join(s.dir, name) }

// write replaces a file at once, as those do who replace certificates.
func (s *secure) write(name string, text []byte) {
	require.NoError(s.t, os.WriteFile(s.path(name)+".new", text, 0o600))
	require.NoError(s.t, os.Rename(s.path(name)+".new", s.path(name)))
}

func (s *secure) replace(name string) {
	pair, err := s.from.Issue(name, time.Now().Add(time.Hour))
	require.NoError(s.t, err)
	s.write("cert", pair.Cert)
	s.write("key", pair.Key)
}

func (s *secure) revoke(pairs ...authority.Pair) {
	list, err := s.from.Revoke(time.Now().Add(time.Hour), pairs...)
	require.NoError(s.t, err)
	s.write("crl", list)
}

// client is a configuration with a certificate of by, unless that is nil.
func (s *secure) client(by *authority.Authority, name string, left time.Duration) (*tls.Config, authority.Pair) {
	cfg := &tls.Config{RootCAs: s.from.Pool(), ServerName: "localhost"}
	if by == nil {
		return cfg, authority.Pair{}
	}
	pair, err := by.Issue(name, time.Now().Add(left))
	require.NoError(s.t, err)
	cert, err := pair.Certificate()
	require.NoError(s.t, err)
	// Also one that the server says it would not take.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return cfg, pair
}

func (s *secure) token(name string, ttl time.Duration) (id, text string) {
	s.t.Helper()
	ask := fmt.Sprintf(`{"name":%q}`, name)
	if ttl > 0 {
		ask = fmt.Sprintf(`{"name":%q,"ttl":%d}`, name, ttl.Milliseconds())
	}
	m := object(s.t, s.root.Call(protocol.OfModel("auth", 0), ask))
	require.NotEmpty(s.t, m["text"], m)
	return m["id"].(string), m["text"].(string)
}

// enter connects and says who it is. cn is the name in the server's certificate.
func (s *secure) enter(cfg *tls.Config, token string) (c *tls.Conn, in *bufio.Reader, cn string, err error) {
	if c, err = tls.Dial("tcp", s.TLS, cfg); err != nil {
		return nil, nil, "", err
	}
	in = bufio.NewReader(c)
	_ = c.SetDeadline(time.Now().Add(2 * servertest.Patience))
	reply, err := ask(c, in, []protocol.Command{protocol.Whoami}, protocol.AppendIdentify(nil, protocol.Identify{Name: "load", Token: token}))
	if err == nil && !strings.Contains(reply, `"code":0`) {
		err = fmt.Errorf("WHOAMI is answered %s", reply)
	}
	if err != nil {
		c.Close()
		return nil, nil, "", err
	}
	return c, in, c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// ask sends requests in one write, and reads their replies; the last is returned.
func ask(c net.Conn, in *bufio.Reader, cmds []protocol.Command, bodies ...[]byte) (last string, err error) {
	var out []byte
	for i, cmd := range cmds {
		out = protocol.AppendFrame(out, cmd, uint16(i), bodies[i%len(bodies)])
	}
	if _, err := c.Write(out); err != nil {
		return "", err
	}
	for i, cmd := range cmds {
		f, err := servertest.ReadFrame(in)
		switch {
		case err != nil:
			return "", err
		case f.Command != cmd.Reply() || f.Seq != uint16(i):
			return "", fmt.Errorf("%v is answered %v", cmd, f)
		}
		last = f.Body
		if cmd != protocol.Whoami && !strings.HasPrefix(last, `{"code":0`) {
			return "", fmt.Errorf("%v is answered %s", cmd, last)
		}
	}
	return last, nil
}

// load is a session that reads, without a pause and in pipelines, until it is stopped or ended.
type load struct {
	c     *tls.Conn
	turns atomic.Int64
	done  chan struct{}
	ended time.Time // these two once done is closed
	err   error
}

var pipeline = []protocol.Command{protocol.GetConfig, protocol.KVGet, protocol.GetConfig, protocol.KVGet, protocol.GetConfig, protocol.KVGet}

func (s *secure) load(cfg *tls.Config, token string) *load {
	s.t.Helper()
	c, in, _, err := s.enter(cfg, token)
	require.NoError(s.t, err)
	l := &load{c: c, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for l.err == nil {
			_, l.err = ask(c, in, pipeline, []byte(`{"file_pattern":"app1-dev.json"}`), []byte(`{"ns":"match","key":"k"}`))
			l.turns.Add(1)
		}
		l.ended = time.Now()
	}()
	s.t.Cleanup(func() {
		c.Close()
		<-l.done
	})
	return l
}

// goesOn waits until they have had more answers.
func goesOn(t *testing.T, loads ...*load) {
	t.Helper()
	for _, l := range loads {
		before := l.turns.Load()
		eventually(t, "more answers", func() bool {
			select {
			case <-l.done:
				require.NoError(t, l.err)
			default:
			}
			return l.turns.Load() > before+2
		})
	}
}

// endsBy waits for the end of a session, which must come in time and not before.
func (l *load) endsBy(t *testing.T, earliest, latest time.Time, what string) {
	t.Helper()
	select {
	case <-l.done:
	case <-time.After(servertest.Patience):
		require.FailNow(t, "the session goes on", what)
	}
	require.False(t, l.ended.Before(earliest), "%s: ended %v before", what, earliest.Sub(l.ended))
	require.False(t, l.ended.After(latest), "%s: ended %v too late: %v", what, l.ended.Sub(latest), l.err)
	require.NotContains(t, l.err.Error(), "is answered", "it is not answered falsely before")
	t.Logf("%s: out after %v", what, l.ended.Sub(earliest).Round(time.Millisecond))
}

// newcomers come and go without a pause; seen counts them by the certificate that they saw.
type newcomers struct {
	mu   sync.Mutex
	seen map[string]int
	errs []error
}

func (s *secure) newcomers(cfg *tls.Config, token string) *newcomers {
	n := &newcomers{seen: map[string]int{}}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, in, cn, err := s.enter(cfg, token)
				if err == nil {
					_, err = ask(c, in, pipeline[:2], []byte(`{"file_pattern":"app1-dev.json"}`), []byte(`{"ns":"match","key":"k"}`))
					c.Close()
				}
				n.mu.Lock()
				n.seen[cn]++
				if err != nil {
					n.errs = append(n.errs, err)
				}
				n.mu.Unlock()
			}
		})
	}
	s.t.Cleanup(func() {
		close(stop)
		all.Wait()
	})
	return n
}

func (n *newcomers) saw(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

func (n *newcomers) refused() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.errs
}

// While many ask, the server's certificate and then the clients' authority are replaced: no one
// who may come is refused, and no one is cut off.
func TestCertificatesAreReplacedUnderLoad(t *testing.T) {
	s := startSecure(t)
	_, token := s.token("load-1", 0)
	plain, _ := s.client(nil, "", 0)
	old, _ := s.client(s.from, "load-old", time.Hour)
	loads := []*load{s.load(plain, token), s.load(plain, token), s.load(old, ""), s.load(old, "")}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: old}}
	defer web.CloseIdleConnections()
	reads := func() {
		t.Helper()
		got, err := web.Get("https://" + s.HTTPS + "/v1/config/file?name=app1-dev.json")
		require.NoError(t, err)
		defer got.Body.Close()
		_, err = io.Copy(io.Discard, got.Body)
		require.NoError(t, err)
		require.Equal(t, 200, got.StatusCode)
	}
	reads()
	comers := s.newcomers(plain, token)
	eventually(t, "newcomers", func() bool { return comers.saw("one") > 5 })
	s.replace("two")
	eventually(t, "newcomers see the new certificate", func() bool { return comers.saw("two") > 5 })
	goesOn(t, loads...)
	reads()

	// A new authority first beside the old one, then alone.
	other := newAuthority(t)
	fresh, _ := s.client(other, "load-new", time.Hour)
	_, _, _, err := s.enter(fresh, "")
	require.Error(t, err, "not yet")
	s.write("ca", append(s.from.PEM(), other.PEM()...))
	eventually(t, "the new authority counts", func() bool {
		c, _, _, err := s.enter(fresh, "")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	loads = append(loads, s.load(fresh, ""), s.load(old, ""))
	list, err := other.Revoke(time.Now().Add(time.Hour))
	require.NoError(t, err)
	s.write("crl", list)
	s.write("ca", other.PEM())
	eventually(t, "the old authority counts no more", func() bool {
		c, _, _, err := s.enter(old, "")
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	goesOn(t, loads...)
	reads()
	goesOn(t, s.load(fresh, ""), s.load(plain, token))
	require.Empty(t, comers.refused(), "nobody who may come is refused at any time")
}

// A client whose proof ends while it asks, and thousands of answers are on their way, is out at once,
// with the streams that depend on the proof; everyone else goes on.
func TestWhoseProofEndsUnderLoadIsOut(t *testing.T) {
	s := startSecure(t)
	_, token := s.token("load-1", 0)
	plain, _ := s.client(nil, "", 0)
	lasting, _ := s.client(s.from, "load-lasting", time.Hour)
	others := []*load{s.load(plain, token), s.load(lasting, "")}
	comers := s.newcomers(plain, token)

	// a token is revoked
	id, text := s.token("load-2", 0)
	out, stream := s.load(plain, text), s.stream(plain, text)
	goesOn(t, out)
	begun := time.Now()
	require.Contains(t, s.root.Call(protocol.OfModel("auth", 2), fmt.Sprintf(`{"id":%q}`, id)), `"code":0`)
	out.endsBy(t, begun, time.Now().Add(soon), "a token that is revoked")
	stream.awaitEnd()
	goesOn(t, others...)

	// a token expires
	begun = time.Now()
	_, text = s.token("load-3", 2*time.Second)
	out, stream = s.load(plain, text), s.stream(plain, text)
	out.endsBy(t, begun.Add(2*time.Second), time.Now().Add(2*time.Second+soon), "a token that expires")
	stream.awaitEnd()
	goesOn(t, others...)

	// a certificate expires
	short, pair := s.client(s.from, "load-short", 3*time.Second)
	until := leafOf(t, pair).NotAfter
	out, stream = s.load(short, ""), s.stream(short, "")
	out.endsBy(t, until, until.Add(soon), "a certificate that expires")
	stream.awaitEnd()
	goesOn(t, others...)

	// a certificate is revoked
	revoked, pair := s.client(s.from, "load-revoked", time.Hour)
	out, stream = s.load(revoked, ""), s.stream(revoked, "")
	goesOn(t, out)
	begun = time.Now()
	s.revoke(pair)
	out.endsBy(t, begun, time.Now().Add(2*time.Second+soon), "a certificate that is revoked") // the file is read twice
	stream.awaitEnd()
	_, _, _, err := s.enter(revoked, "")
	require.Error(t, err)
	goesOn(t, others...)
	require.Empty(t, comers.refused())
}

func leafOf(t *testing.T, p authority.Pair) *x509.Certificate {
	cert, err := p.Certificate()
	require.NoError(t, err)
	return cert.Leaf
}

// stream is one of events over HTTPS.
func (s *secure) stream(cfg *tls.Config, token string) openedStream {
	s.t.Helper()
	r, err := http.NewRequest("GET", "https://"+s.HTTPS+"/v1/store/stream?ns=match&key=k", nil)
	require.NoError(s.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: cfg}
	s.t.Cleanup(transport.CloseIdleConnections)
	got, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { got.Body.Close() })
	require.Equal(s.t, 200, got.StatusCode)
	return openedStream{s.t, got.Body}
}
