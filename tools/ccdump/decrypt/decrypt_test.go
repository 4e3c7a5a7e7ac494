package decrypt

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "record testdata/openssl.txt anew, which needs openssl")

var talk = []string{"who", "you", strings.Repeat("long ", 5000), strings.Repeat("longer ", 3000), "a", "b", "c", "d"}

// oldRSA is a server of TLS 1.2 with an RSA key.
func oldRSA(t *testing.T) tls.Certificate {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestEverySuiteIsRead(t *testing.T) {
	withRSA := oldRSA(t)
	for id, s := range suites {
		if s.tls13 {
			continue // both sides choose; see below and TestOpenSSL
		}
		t.Run(tls.CipherSuiteName(id), func(t *testing.T) {
			client, server := configs()
			client.MaxVersion, client.CipherSuites = tls.VersionTLS12, []uint16{id}
			if strings.Contains(tls.CipherSuiteName(id), "_RSA_") {
				server.Certificates, client.InsecureSkipVerify = []tls.Certificate{withRSA}, true
			}
			for _, logging := range []Side{Client, Server} {
				readWhole(t, converse(t, client, server, logging, talk...), "TLS 1.2 with "+tls.CipherSuiteName(id))
			}
		})
	}
	t.Run("TLS 1.3", func(t *testing.T) {
		client, server := configs()
		readWhole(t, converse(t, client, server, Client, talk...), "TLS 1.3 with TLS_")
		readWhole(t, converse(t, client, server, Server, talk...), "TLS 1.3 with TLS_")
	})
}

func readWhole(t *testing.T, tape *tape, note string) {
	t.Helper()
	for _, piece := range []int{7, 1000, 1 << 20} {
		h := tape.play(tape.keys(), piece)
		require.Equal(t, of(talk, 0), h.said[Client].String())
		require.Equal(t, of(talk, 1), h.said[Server].String())
		require.Empty(t, h.why)
		require.Len(t, h.notes, 1)
		require.Contains(t, h.notes[0], note)
	}
}

// What machines without AES in hardware choose.
func TestChaCha20OfTLS13(t *testing.T) {
	if os.Getenv("GODEBUG") != "cpu.aes=off" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "GODEBUG=cpu.aes=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	client, server := configs()
	readWhole(t, converse(t, client, server, Client, talk...), "TLS 1.3 with TLS_CHACHA20_POLY1305_SHA256")
}

func TestResumptionAndASecondHello(t *testing.T) {
	client, server := configs()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	require.NotContains(t, converse(t, client, server, Client, talk...).notes(t), "resumed")
	again := converse(t, client, server, Client, talk...)
	require.Contains(t, again.notes(t), "resumed")
	readWhole(t, again, "resumed")

	client, server = configs()
	client.CurvePreferences, server.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP521}, []tls.CurveID{tls.CurveP521}
	retried := converse(t, client, server, Client, talk...)
	require.True(t, bytes.Contains(retried.sent[1].b, retry))
	readWhole(t, retried, "TLS 1.3")
}

func (t *tape) notes(tt *testing.T) string {
	tt.Helper()
	return strings.Join(t.play(t.keys(), 1<<20).notes, "; ")
}

// A recording of openssl, with the suite that crypto/tls does not choose by itself, after
// both sides have changed their keys twice.
func TestOpenSSL(t *testing.T) {
	if *update {
		require.NoError(t, os.WriteFile(openSSL, recordOpenSSL(t), 0o644))
	}
	tape := readTape(t, openSSL)
	for _, piece := range []int{1, 1000} {
		h := tape.play(tape.keys(), piece)
		require.Equal(t, "one\ntwo\nthree\n", h.said[Client].String())
		require.Equal(t, "one\ntwo\nthree\n", h.said[Server].String())
		require.Equal(t, []string{"TLS 1.3 with TLS_AES_256_GCM_SHA384"}, h.notes)
	}
}

var openSSL = filepath.Join("testdata", "openssl.txt")

// readTape reads what recordOpenSSL has written.
func readTape(t testing.TB, file string) *tape {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	tape := &tape{}
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "log" {
			fmt.Fprintln(&tape.log, rest)
			continue
		}
		b, err := hex.DecodeString(rest)
		require.NoError(t, err)
		from := Client
		if kind == "<" {
			from = Server
		}
		tape.sent = append(tape.sent, sent{from, b})
	}
	return tape
}

// recordOpenSSL has openssl speak with an echo.
func recordOpenSSL(t *testing.T) []byte {
	_, server := configs()
	tape := &tape{}
	server.KeyLogWriter = &tape.log
	server.SessionTicketsDisabled = true
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	cmd := exec.CommandContext(t.Context(), "openssl", "s_client", "-connect", l.Addr().String(), "-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	raw, err := l.Accept()
	require.NoError(t, err)
	both := &recording{Conn: raw, in: bufio.NewReader(raw), tape: tape}
	c := tls.Server(both, server)
	buf := make([]byte, 64)
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		if line != "one\n" {
			_, err = io.WriteString(in, "K\n") // both sides take new keys
			require.NoError(t, err)
			_, err = both.in.Peek(1) // openssl would take both lines for one
			require.NoError(t, err)
		}
		_, err = io.WriteString(in, line)
		require.NoError(t, err)
		n, err := c.Read(buf)
		require.NoError(t, err)
		require.Equal(t, line, string(buf[:n]))
		_, err = c.Write(buf[:n])
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	require.NoError(t, in.Close())
	_ = cmd.Wait()
	var out bytes.Buffer
	for line := range strings.Lines(tape.log.String()) {
		fmt.Fprintf(&out, "log %s", line)
	}
	for _, s := range tape.sent {
		fmt.Fprintf(&out, "%c %x\n", "><"[s.from], s.b)
	}
	return out.Bytes()
}

// recording writes down both directions at one end.
type recording struct {
	net.Conn
	in   *bufio.Reader
	tape *tape
}

func (r *recording) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if n > 0 {
		r.tape.sent = append(r.tape.sent, sent{Client, bytes.Clone(b[:n])})
	}
	return n, err
}

func (r *recording) Write(b []byte) (int, error) {
	r.tape.sent = append(r.tape.sent, sent{Server, bytes.Clone(b)})
	return r.Conn.Write(b)
}
