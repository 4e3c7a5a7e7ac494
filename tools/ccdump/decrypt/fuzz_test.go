package decrypt

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzConversation damages a real conversation: nothing breaks, what waits is bounded, and
// what is read was said.
func FuzzConversation(f *testing.F) {
	tape := readTape(f, openSSL)
	f.Add([]byte{})
	f.Add([]byte{3, 1, 0, 0, 0})
	f.Add([]byte{5, 2, 9, 0, 1, 7, 3, 200, 0, 4})
	f.Add([]byte{2, 4, 0, 22, 3, 6, 4, 1, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		h := &heard{}
		c := New(tape.keys(), h)
		for i, s := range tape.sent {
			b := bytes.Clone(s.b)
			for at := 0; at+5 <= len(script); at += 5 {
				op := script[at : at+5]
				if int(op[0])%len(tape.sent) != i || len(b) == 0 {
					continue
				}
				place := (int(op[2])<<8 | int(op[3])) % len(b)
				switch op[1] % 7 {
				case 0:
					b[place] ^= op[4] | 1
				case 1:
					c.Missing(s.from, int64(i), int64(len(b)), "lost")
					b = nil
				case 2:
					c.Take(s.from, int64(i), b[:place])
					c.Missing(s.from, int64(i), int64(len(b)-place), "lost")
					b = nil
				case 3:
					c.Take(s.from, int64(i), b[:place])
					b = b[place:]
				case 4:
					b = append(b[:place:place], append(bytes.Repeat([]byte{op[4]}, int(op[4])), b[place:]...)...)
				case 5:
					c.Take(s.from.other(), int64(i), b[place:])
				case 6:
					c.End(int64(i))
				}
			}
			c.Take(s.from, int64(i), b)
			require.LessOrEqual(t, c.Held(), maxHeld+4*maxRecord)
		}
		c.End(0)
		require.LessOrEqual(t, c.Held(), 0)
		for from := range h.said {
			for _, line := range strings.FieldsFunc(h.said[from].String(), func(r rune) bool { return r == '[' || r == ']' || ('0' <= r && r <= '9') }) {
				require.Contains(t, "one\ntwo\nthree\n", line)
			}
		}
	})
}

// FuzzLog reads any log, in two parts: it is the same as in one, and bounded by its lines.
func FuzzLog(f *testing.F) {
	f.Add([]byte("# by hand\nCLIENT_RANDOM "+strings.Repeat("ab", 32)+" "+strings.Repeat("cd", 48)+"\nOTHER x y\n"), uint16(20))
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		whole := newLog(bytes.NewReader(text))
		whole.more()
		file := &growing{text[:min(int(cut), len(text))]}
		parts := newLog(file)
		parts.more()
		file.text = text
		parts.more()
		require.Equal(t, whole.known, parts.known)
		require.LessOrEqual(t, len(whole.known), bytes.Count(text, []byte("\n")))
		require.LessOrEqual(t, cap(parts.part), 2*maxLine)
	})
}

func TestLogs(t *testing.T) {
	line := func(kind string, n int) string {
		return fmt.Sprintf("%s %064x %s\r\n", kind, n, hex.EncodeToString(bytes.Repeat([]byte{byte(n)}, 32)))
	}
	l := newLog(strings.NewReader("# a remark\n\n" + line("CLIENT_TRAFFIC_SECRET_0", 1) + line("EXPORTER_SECRET", 2) +
		"CLIENT_RANDOM 12 34\n" + strings.Repeat("x", 2*maxLine) + "\n" + line("SERVER_TRAFFIC_SECRET_0", 1) + "CLIENT_RANDOM cut"))
	one := random{31: 1}
	require.Equal(t, bytes.Repeat([]byte{1}, 32), l.find(one)[clientTraffic])
	require.NotNil(t, l.find(one)[serverTraffic])
	require.Len(t, l.known, 1)

	var long strings.Builder
	for n := range maxLogged + 10 {
		long.WriteString(line("CLIENT_RANDOM", n))
	}
	l = newLog(strings.NewReader(long.String()))
	l.more()
	require.Len(t, l.known, maxLogged)
	require.Nil(t, l.find(random{31: 1}))
	require.NotNil(t, l.find(random{31: 10}))
}

// A forged capture does not make it work for long: what is tried after a gap has a budget.
func TestTheSearchAfterAGapHasABudget(t *testing.T) {
	client, server := configs()
	tape := converse(t, client, server, Client, turns...)
	h := &heard{}
	c := New(tape.keys(), h)
	for _, s := range tape.sent[:6] {
		c.Take(s.from, 0, s.b)
	}
	c.Missing(Server, 0, 1<<40, "lost")
	forged := append([]byte{typeApplication, 3, 3, 0x40, 0}, make([]byte, 0x4000)...)
	for range 5 {
		c.Take(Server, 0, forged)
	}
	require.NotEmpty(t, c.halves[Server].blind)
	require.Greater(t, c.halves[Server].budget, -2*maxRecord)
	for _, s := range tape.sent[6:] {
		c.Take(s.from, 0, s.b)
	}
	c.End(0)
	require.Equal(t, of(turns, 0), h.said[Client].String())
	require.Equal(t, turns[1], strings.Split(h.said[Server].String(), "[")[0])
}

// Alerts are told: why a handshake fails is what people look for.
func TestAlertsAreTold(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		tape := &tape{}
		client, server := configs()
		client.KeyLogWriter, client.MaxVersion, client.ServerName = &tape.log, version, "elsewhere.example"
		a, b := tcpPair(t)
		done := make(chan error, 1)
		go func() { done <- tls.Server(&end{b, Server, tape}, server).Handshake() }()
		require.Error(t, tls.Client(&end{a, Client, tape}, client).Handshake())
		require.Error(t, <-done)
		require.Contains(t, tape.notes(t), "alert of tls: bad certificate")
	}
}
