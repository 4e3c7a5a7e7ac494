package audit_test

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
)

func block() audit.Block {
	l := audit.LineOf(&access.Event{Kind: access.EventLogin, By: game}, 1_700_000_000_123, 0)
	text, head := audit.Head{}.Next(nil, &l)
	text, head = head.Next(text, &l)
	return audit.Block{First: 1, Last: head.Seq, Lines: text}
}

func send(t *testing.T, address string) {
	s, err := audit.ParseSyslog(address)
	require.NoError(t, err)
	require.NoError(t, s.Write(block()))
	require.NoError(t, s.Settle())
	require.NoError(t, s.Close())
}

func isMessage(t *testing.T, text string) {
	head, line, ok := strings.Cut(text, " audit - ")
	require.True(t, ok, text)
	require.Regexp(t, `^<85>1 2023-11-14T22:13:20\.123Z \S+ confcenter \d+$`, head)
	_, err := audit.ParseLine([]byte(line))
	require.NoError(t, err, line)
}

func TestLinesAreSentToSyslog(t *testing.T) {
	t.Run("udp", func(t *testing.T) {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		defer c.Close()
		send(t, "udp:"+c.LocalAddr().String())
		for range 2 {
			isMessage(t, packet(t, c))
		}
	})
	t.Run("socket", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		c, err := net.ListenPacket("unixgram", path)
		require.NoError(t, err)
		defer c.Close()
		send(t, path)
		for range 2 {
			isMessage(t, packet(t, c))
		}
	})
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address, to := "127.0.0.1:0", ""
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "log")
			}
			l, err := net.Listen(network, address)
			require.NoError(t, err)
			defer l.Close()
			if to = l.Addr().String(); network == "tcp" {
				to = "tcp:" + to
			}
			got := make(chan string, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				all, _ := io.ReadAll(c)
				got <- string(all)
			}()
			send(t, to)
			r := bufio.NewReader(strings.NewReader(<-got))
			for range 2 {
				isMessage(t, message(t, r, network == "tcp"))
			}
			_, err = r.ReadByte()
			require.Equal(t, io.EOF, err)
		})
	}
}

func packet(t *testing.T, c net.PacketConn) string {
	b := make([]byte, 64<<10)
	n, _, err := c.ReadFrom(b)
	require.NoError(t, err)
	return string(b[:n])
}

// message reads one from a stream: with its length before it, or a line.
func message(t *testing.T, r *bufio.Reader, counted bool) string {
	if !counted {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSuffix(line, "\n")
	}
	length, err := r.ReadString(' ')
	require.NoError(t, err)
	n := 0
	for _, c := range strings.TrimSuffix(length, " ") {
		n = n*10 + int(c-'0')
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	require.NoError(t, err)
	return string(b)
}

func TestOnlySyslogAddressesAreTaken(t *testing.T) {
	for _, text := range []string{"", "log", "udp:", "udp:host", "tcp:host:", "http://x"} {
		_, err := audit.ParseSyslog(text)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
	s, err := audit.ParseSyslog("/nowhere/at/all")
	require.NoError(t, err)
	require.Error(t, s.Write(block()))
}
