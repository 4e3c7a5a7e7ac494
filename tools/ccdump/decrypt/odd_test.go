package decrypt

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var turns = []string{"who", "you", "first", "second", "third", "fourth", "fifth", "sixth"}

// playWithout is play of a tape that lacks one of its writes.
func (t *tape) playWithout(log *Log, lost int) *heard {
	h := &heard{}
	c := New(log, h)
	for i, s := range t.sent {
		if i == lost {
			c.Missing(s.from, int64(i), int64(len(s.b)), "lost")
		} else {
			c.Take(s.from, int64(i), s.b)
		}
	}
	c.End(int64(len(t.sent)))
	return h
}

// Whatever write is missing, the others are read, and how much is missing is known.
func TestOnlyWhatIsMissingIsNotRead(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client, server := configs()
		client.MaxVersion, server.SessionTicketsDisabled = version, true
		tape := converse(t, client, server, Client, turns...)
		lines := tape.play(tape.keys(), 1<<20).lines
		require.Len(t, lines, len(turns))
		last := len(tape.sent) - 2 // then both say that they say no more
		for i, s := range tape.sent[:last-1] {
			h := tape.playWithout(tape.keys(), i)
			if i < 2 {
				require.Contains(t, strings.Join(h.why, "; "), "beginning of the TLS connection was not captured whole")
				require.Empty(t, h.lines)
				continue
			}
			want := [2]string{of(turns, 0), of(turns, 1)}
			if line := lines[int64(i)]; line != "" {
				want[s.from] = strings.Replace(want[s.from], line, fmt.Sprintf("[%d]", len(line)), 1)
			}
			require.Equal(t, want, [2]string{h.said[0].String(), h.said[1].String()}, "%s without write %d", tls.VersionName(version), i)
		}
	}
}

// A side that changes its keys where bytes are missing is found again.
func TestKeysThatChangeInAGap(t *testing.T) {
	tape := readTape(t, openSSL)
	for i, s := range tape.sent[3:] {
		h := tape.playWithout(tape.keys(), 3+i)
		for from := range h.said {
			require.True(t, i+4 == len(tape.sent) || strings.HasSuffix(h.said[from].String(), "three\n") || s.from == Side(from), h.said[from].String())
		}
	}
}

// The keys of a program that is still running come when they come.
func TestKeysThatComeLate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client, server := configs()
		client.MaxVersion = version
		tape := converse(t, client, server, Client, turns...)
		for late := range tape.sent {
			h := &heard{}
			file := &growing{}
			c := New(newLog(file), h)
			for i, s := range tape.sent {
				if i == late {
					file.text = tape.log.Bytes()
				}
				c.Take(s.from, int64(i), s.b)
			}
			c.End(0)
			require.Equal(t, of(turns, 0), h.said[Client].String(), "late by %d", late)
			require.Equal(t, of(turns, 1), h.said[Server].String(), "late by %d", late)
			require.Empty(t, h.why)
			require.Zero(t, c.Held())
		}
	}
}

// growing is a file that is written.
type growing struct{ text []byte }

func (g *growing) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(g.text).ReadAt(b, at)
}

func TestWithoutKeysItSaysWhatToDo(t *testing.T) {
	client, server := configs()
	tape := converse(t, client, server, Client, turns...)
	h := tape.play(nil, 1000)
	require.Len(t, h.notes, 2)
	require.Contains(t, h.notes[0], "--key-log")
	require.Contains(t, h.notes[1], "TLS 1.3 with")
	require.Empty(t, h.lines)
	require.Positive(t, h.lost[Client])
	require.Positive(t, h.lost[Server])

	h = tape.play(newLog(bytes.NewReader(nil)), 1000) // of another program
	require.Contains(t, h.notes, noteNoKeys)
	require.Empty(t, h.lines)

	other := converse(t, client, server, Client, turns...)
	forged := newLog(bytes.NewReader(other.log.Bytes()))
	forged.more()
	for _, s := range forged.known {
		forged.known[firstRandom(tape)] = s
	}
	h = tape.play(forged, 1000)
	require.Empty(t, h.lines)
	require.Contains(t, h.why, "the keys in the key log do not fit")
}

func firstRandom(t *tape) (r random) {
	copy(r[:], t.sent[0].b[headerSize+4+2:])
	return r
}
