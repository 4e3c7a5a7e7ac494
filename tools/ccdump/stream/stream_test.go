package stream

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/protocol"
	"confcenter/tools/ccdump/capture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder writes down each call of a sink as a line.
type recorder struct {
	lines  []string
	bytes  [2]int64 // of frames and skips, by direction
	quiet  bool
	frames int
	open   int
}

func (r *recorder) say(format string, args ...any) {
	if !r.quiet {
		r.lines = append(r.lines, fmt.Sprintf(format, args...))
	}
}

func (r *recorder) Opened(c *Conn, _ int64, joined bool) {
	r.open++
	how := "opened"
	if joined {
		how = "joined"
	}
	r.say("#%d %s", c.ID, how)
}

func (r *recorder) Frame(c *Conn, f *Frame) {
	r.frames++
	r.bytes[f.From] += protocol.HeaderSize + int64(f.BodyLen)
	if r.quiet {
		return
	}
	line := protocol.Printer{Style: protocol.BodyWhole}.AppendLine(nil, f.Header, f.Body)
	r.say("#%d %v %s", c.ID, f.From, line)
}

func (r *recorder) Skipped(c *Conn, s *Skip) {
	r.bytes[s.From] += s.Bytes
	r.say("#%d %v skipped %d at %d: %s", c.ID, s.From, s.Bytes, s.Offset, s.Reason)
}

func (r *recorder) Closed(c *Conn, _ int64, how How) {
	r.open--
	if c.HasEnd {
		r.say("#%d %v by %v", c.ID, how, c.EndedBy)
		return
	}
	r.say("#%d %v", c.ID, how)
}

func (r *recorder) text() string { return strings.Join(r.lines, "\n") }

var (
	client = netip.MustParseAddrPort("10.0.0.1:50000")
	server = netip.MustParseAddrPort("10.0.0.2:4800")
)

// wire makes segments of one connection by hand.
type wire struct {
	a    *Assembler
	at   int64
	next [2]uint32
}

func newWire(a *Assembler, clientISN, serverISN uint32) *wire {
	return &wire{a: a, next: [2]uint32{clientISN, serverISN}}
}

// segment makes a segment that begins ahead bytes after what comes next.
func (w *wire) segment(from Dir, ahead int, flags capture.Flags, payload string) *capture.Segment {
	w.at += 1000
	s := &capture.Segment{At: w.at, Src: client, Dst: server, Seq: w.next[from] + uint32(ahead), Ack: w.next[1-from], Flags: flags | capture.ACK, Payload: []byte(payload)}
	if from == FromServer {
		s.Src, s.Dst = server, client
	}
	return s
}

func (w *wire) open() {
	syn := w.segment(FromClient, 0, capture.SYN, "")
	syn.Flags = capture.SYN
	w.a.Segment(syn)
	w.next[FromClient]++
	w.a.Segment(w.segment(FromServer, 0, capture.SYN, ""))
	w.next[FromServer]++
}

// says sends in order.
func (w *wire) says(from Dir, payload string) {
	w.a.Segment(w.segment(from, 0, 0, payload))
	w.next[from] += uint32(len(payload))
}

// loses advances without a segment.
func (w *wire) loses(from Dir, payload string) { w.next[from] += uint32(len(payload)) }

func (w *wire) ends(from Dir) {
	w.a.Segment(w.segment(from, 0, capture.FIN, ""))
	w.next[from]++
}

func frame(cmd protocol.Command, seq uint16, body string) string {
	return string(protocol.AppendFrame(nil, cmd, seq, []byte(body)))
}

func get(seq uint16) string { return frame(protocol.GetConfig, seq, `{"file_pattern":"a.json"}`) }

func got(seq uint16) string { return frame(protocol.GetConfig.Reply(), seq, `{"code":0}`) }

func newTest(cfg Config) (*Assembler, *recorder) {
	r := &recorder{}
	return New(cfg, r), r
}

func TestConversationInOrder(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 1<<32-20, 1<<31-5) // the numbers wrap
	w.open()
	w.says(FromClient, get(1)+get(2)+get(3)[:4])
	w.says(FromClient, get(3)[4:15])
	w.says(FromClient, get(3)[15:])
	w.says(FromServer, got(1)+got(2)+got(3))
	w.says(FromClient, frame(protocol.KeepAlive, 4, ""))
	w.ends(FromClient)
	w.ends(FromServer)
	require.Equal(t, `#1 opened
#1 > GETCONFIG seq=1 25B {"file_pattern":"a.json"}
#1 > GETCONFIG seq=2 25B {"file_pattern":"a.json"}
#1 > GETCONFIG seq=3 25B {"file_pattern":"a.json"}
#1 < GETCONFIG_RSP seq=1 10B {"code":0}
#1 < GETCONFIG_RSP seq=2 10B {"code":0}
#1 < GETCONFIG_RSP seq=3 10B {"code":0}
#1 > KEEPALIVE seq=4 0B
#1 closed by >`, r.text())
	a.Finish()
	require.Zero(t, r.open)
	require.Zero(t, a.held)
}

func TestOutOfOrderRetransmittedOverlapping(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	all := get(1) + get(2) + get(3)
	at := func(from, to int) { a.Segment(w.segment(FromClient, from, 0, all[from:to])) }
	at(40, 80)         // too early
	at(40, 80)         // again
	at(35, 50)         // overlaps what waits
	at(0, 10)          // in order
	at(0, 10)          // again
	at(5, 36)          // overlaps both
	at(80, len(all))   // the end
	at(60, len(all)-1) // late
	w.next[FromClient] += uint32(len(all))
	a.Segment(w.segment(FromClient, -1, 0, "x")) // TCP's keep-alive
	require.Equal(t, 3, r.frames)
	require.NotContains(t, r.text(), "skipped")
	require.Equal(t, int64(2), a.Stats().OutOfOrder)
	require.Zero(t, a.held)
}

func TestLostSegments(t *testing.T) {
	for name, one := range map[string]struct {
		lost string
		want string
	}{
		"a whole frame":       {get(2), "skipped 35 at 35: lost"},
		"the end of a frame":  {get(2)[20:], "skipped 15 at 55: lost"},
		"a header":            {get(2)[:10], "skipped 35 at 35: lost"},
		"the middle of a one": {get(2)[12:30], "skipped 18 at 47: lost"},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := newTest(Config{})
			w := newWire(a, 100, 200)
			w.open()
			all := get(1) + get(2) + get(3) + get(4) + get(5)
			before, after, _ := strings.Cut(all, one.lost)
			if name == "the middle of a one" || name == "a header" || name == "the end of a frame" {
				i := 35 + strings.Index(get(2), one.lost)
				before, after = all[:i], all[i+len(one.lost):]
			} else {
				before, after = all[:35], all[70:]
			}
			w.says(FromClient, before)
			w.loses(FromClient, one.lost)
			for len(after) > 0 {
				n := min(35, len(after))
				w.says(FromClient, after[:n])
				after = after[n:]
			}
			require.NotContains(t, r.text(), "seq=5", "it may still come")
			w.says(FromServer, got(1)) // acknowledges all
			require.Contains(t, r.text(), one.want)
			for _, seq := range []int{1, 3, 4, 5} {
				require.Contains(t, r.text(), fmt.Sprintf("GETCONFIG seq=%d 25B", seq))
			}
			a.Finish()
			require.Zero(t, a.held)
		})
	}
}

func TestGapIsGivenUpInTime(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	w.loses(FromClient, get(1))
	w.says(FromClient, get(2))
	require.Zero(t, r.frames)
	w.at += gapPatience
	w.says(FromServer, got(1))
	require.Equal(t, 2, r.frames)
	require.Contains(t, r.text(), "skipped 35 at 0: lost")
}

func TestJoinedInTheMiddle(t *testing.T) {
	for cut := range len(get(1)) {
		a, r := newTest(Config{})
		w := newWire(a, 100, 200)
		w.says(FromServer, (got(1) + got(2))[min(cut, 19):])
		w.says(FromClient, (get(1) + get(2))[cut:])
		w.says(FromClient, get(3))
		want := 3
		if cut > 0 {
			want = 2
			require.Contains(t, r.text(), fmt.Sprintf("#1 > skipped %d at 0: the capture begins", len(get(1))-cut))
		}
		require.Equal(t, want, strings.Count(r.text(), "> GETCONFIG"), "%d: %s", cut, r.text())
		require.Contains(t, r.text(), "< GETCONFIG_RSP seq=2")
		a.Finish()
		require.Zero(t, a.held)
	}
}

// The server is recognised by what it says, whatever the ports.
func TestWhoIsTheServer(t *testing.T) {
	a, r := newTest(Config{})
	s := &capture.Segment{Src: server, Dst: client, Seq: 1, Flags: capture.ACK, Payload: []byte(get(1))}
	a.Segment(s)
	require.Equal(t, "#1 joined\n#1 > GETCONFIG seq=1 25B {\"file_pattern\":\"a.json\"}", r.text())

	a, r = newTest(Config{Ports: []uint16{50000}})
	s.Payload = []byte(frame(protocol.KeepAlive, 1, ""))
	a.Segment(s)
	require.Contains(t, r.text(), "> KEEPALIVE", "by the port that was named")
	other := *s
	other.Src, other.Dst = netip.AddrPortFrom(client.Addr(), 80), netip.AddrPortFrom(server.Addr(), 90)
	a.Segment(&other)
	require.EqualValues(t, 1, a.Stats().Ignored)
}

func TestGarbageBetweenFrames(t *testing.T) {
	for garbage, reason := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":                   "the other side speaks HTTP",
		"\x01\x0a\xff\xff\xff\xff\x00\x0e\x00\x01": "body length is 4294967295, more than any frame has",
		"\x07\x0a\x00\x00\x00\x01\x33\x33\x00\x01": "version is 7 and there is no command 0x3333",
		"\x01": "header length is 1, must be 10",
	} {
		for _, split := range []int{1, 3, 7, 1000} {
			a, r := newTest(Config{})
			w := newWire(a, 1, 2)
			w.open()
			all := get(1) + garbage + get(2) + get(3)
			for i := 0; i < len(all); i += split {
				w.says(FromClient, all[i:min(i+split, len(all))])
			}
			require.Contains(t, r.text(), fmt.Sprintf("skipped %d at 35: %s", len(garbage), reason), "%q by %d", garbage, split)
			require.Equal(t, 3, r.frames)
			a.Finish()
			require.Zero(t, a.held)
		}
	}
}

// TLS is named once, as soon as it is there, and passed over from then on.
func TestTLSIsNamedAndPassedOver(t *testing.T) {
	const hello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	a, r := newTest(Config{})
	w := newWire(a, 1, 2)
	w.open()
	w.says(FromClient, hello[:4])
	w.says(FromClient, hello[4:])
	require.Equal(t, "#1 opened\n#1 > skipped 11 at 0: "+reasonTLS, r.text())
	w.loses(FromClient, "lost")
	w.says(FromServer, "\x16\x03\x03"+got(1))
	w.says(FromClient, "\x17\x03\x03"+get(1))
	w.ends(FromServer)
	w.ends(FromClient)
	require.Equal(t, "#1 opened\n#1 > skipped 11 at 0: "+reasonTLS+"\n#1 closed by <", r.text())
	require.EqualValues(t, 1, a.Stats().TLS)
	require.Zero(t, a.held)

	a, r = newTest(Config{})
	w = newWire(a, 1, 2)
	w.says(FromServer, "\x17\x03\x03\x00\x20"+strings.Repeat("?", 32))
	w.says(FromClient, get(1))
	a.Finish()
	require.Equal(t, "#1 joined\n#1 < skipped 37 at 0: "+reasonTLS+"\n#1 open at the end of the capture", r.text())
}

func TestEndsInTheMiddle(t *testing.T) {
	for cut, want := range map[int]string{
		4:  "skipped 4 at 35: 4 bytes of a header",
		30: "skipped 30 at 35: GETCONFIG seq=2 25B ends here: 5 of the body's bytes are missing",
	} {
		a, r := newTest(Config{})
		w := newWire(a, 1, 2)
		w.open()
		w.says(FromClient, get(1)+get(2)[:cut])
		a.Segment(w.segment(FromServer, 0, capture.RST, ""))
		require.Contains(t, r.text(), want)
		require.True(t, strings.HasSuffix(r.text(), "#1 reset by <"))
		w.says(FromClient, get(3)) // a straggler
		require.Equal(t, 1, r.frames)
	}
}

func TestSnapLengthCutsBodies(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 1, 2)
	w.open()
	s := w.segment(FromClient, 0, 0, get(1)[:20])
	s.Missing = 15
	a.Segment(s)
	w.next[FromClient] += 35
	w.says(FromClient, get(2))
	require.Equal(t, `#1 opened
#1 > skipped 15 at 20: the capture has only the beginning of the packet (snap length)
#1 > GETCONFIG seq=1 25B {"file_pat
#1 > GETCONFIG seq=2 25B {"file_pattern":"a.json"}`, r.text())
}

func TestPortsAreUsedAgain(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	w.says(FromClient, get(1))
	again := newWire(a, 9000, 8000)
	again.at = w.at
	again.open()
	again.says(FromClient, get(2))
	require.Equal(t, `#1 opened
#1 > GETCONFIG seq=1 25B {"file_pattern":"a.json"}
#1 replaced by a new connection between the same ports
#2 opened
#2 > GETCONFIG seq=2 25B {"file_pattern":"a.json"}`, r.text())
}

// Bodies are kept up to a bound; frames beyond it are still counted.
func TestLongBodies(t *testing.T) {
	a, r := newTest(Config{KeepBody: 100})
	w := newWire(a, 1, 2)
	w.open()
	long := frame(protocol.GetConfig.Reply(), 1, `{"code":0,"contents":"`+strings.Repeat("x", 5000)+`"}`)
	w.says(FromServer, long[:1000])
	require.Less(t, a.held, 3000)
	w.says(FromServer, long[1000:]+long)
	require.Equal(t, 2, r.frames)
	for _, line := range r.lines[1:] {
		require.Less(t, len(line), 200)
	}
	require.NotContains(t, r.text(), "skipped")
}

// heapOf returns how much a function leaves on the heap, in bytes.
func heapOf(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestTenThousandHalfOpenConnections(t *testing.T) {
	r := &recorder{quiet: true}
	a := New(Config{}, r)
	used := heapOf(func() {
		for i := range 10_000 {
			s := &capture.Segment{Src: client, Dst: server, Seq: uint32(i), Flags: capture.SYN}
			s.Src = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 13), 0, 1}), uint16(i&0x1fff)+1024)
			a.Segment(s)
		}
	})
	require.Equal(t, 10_000, r.open)
	require.Less(t, used, int64(12<<20), "about a KiB each")
	a.Finish()
	require.Zero(t, r.open)
}

// No capture exceeds the limits: not even endless connections, each with the beginning
// of a long frame and pieces that fit nowhere.
func TestMemoryIsBounded(t *testing.T) {
	const memory = 4 << 20
	r := &recorder{quiet: true}
	a := New(Config{Memory: memory, Conns: 2000}, r)
	long := frame(protocol.SetConfig, 1, `{"contents":"`+strings.Repeat("x", 1<<20)+`"}`)
	most := 0
	used := heapOf(func() {
		for i := range 20_000 {
			w := newWire(a, uint32(i), 0)
			s := w.segment(FromClient, 0, 0, long[:8000])
			s.Src = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 13), 0, 1}), uint16(i&0x1fff)+1024)
			a.Segment(s)
			s.Seq += 20_000
			a.Segment(s)
			most = max(most, a.held)
			require.LessOrEqual(t, len(a.conns), 2000)
		}
	})
	require.LessOrEqual(t, most, memory+64<<10)
	require.Less(t, used, int64(2*memory))
	require.LessOrEqual(t, r.open, 2000)
	a.Finish()
	require.Zero(t, a.held)
	require.Zero(t, r.open)
}

// A connection that never fills a gap does not keep everything that follows.
func TestPiecesAreBounded(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 1, 2)
	w.open()
	w.loses(FromClient, get(1))
	for range 10 * maxPieces {
		w.at -= 999 // all at nearly the same time
		w.says(FromClient, get(2))
		require.LessOrEqual(t, len(a.conns[firstKey(a)].ends[1].order.pieces), maxPieces)
	}
	require.Greater(t, r.frames, 8*maxPieces)
}

func firstKey(a *Assembler) pair {
	for key := range a.conns {
		return key
	}
	return pair{}
}

// A capture on several queues has answers before what they answer.
func TestAnswersWaitForWhatTheyAnswer(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	w.says(FromClient, get(1))
	w.says(FromServer, got(1))
	late := w.segment(FromClient, 0, 0, get(2))
	w.loses(FromClient, get(2))
	w.says(FromServer, got(2))
	require.NotContains(t, r.text(), "seq=2")
	a.Segment(late)
	require.True(t, strings.HasSuffix(r.text(), `
#1 > GETCONFIG seq=2 25B {"file_pattern":"a.json"}
#1 < GETCONFIG_RSP seq=2 10B {"code":0}`), r.text())
	require.Zero(t, a.held)
}

// Bytes that will not come hold up the rest for no more than three packets, or one if
// that comes a while later.
func TestGapThatIsAcknowledgedIsGivenUpSoon(t *testing.T) {
	for name, then := range map[string]func(w *wire){
		"a later acknowledgement": func(w *wire) {
			w.at += lostAfterNS
			w.a.Segment(w.segment(FromClient, 0, 0, ""))
		},
		"a later request": func(w *wire) {
			w.at += lostAfterNS
			w.says(FromClient, get(3))
		},
		"packets at once": func(w *wire) {
			w.says(FromClient, get(3))
			w.says(FromServer, got(3))
			w.says(FromClient, get(4))
		},
		"the end": func(w *wire) { w.a.Finish() },
	} {
		t.Run(name, func(t *testing.T) {
			a, r := newTest(Config{})
			w := newWire(a, 100, 200)
			w.open()
			w.says(FromClient, get(1))
			w.says(FromServer, got(1))
			w.loses(FromClient, get(2))
			w.says(FromServer, got(2))
			require.NotContains(t, r.text(), "seq=2", "its request may still come")
			then(w)
			require.Contains(t, r.text(), "< GETCONFIG_RSP seq=2")
			require.Zero(t, a.held)
			a.Finish()
			require.Contains(t, r.text(), "> skipped 35 at 35: lost")
		})
	}
}

// If only one direction is captured, it does not wait for the other.
func TestOneDirectionOnly(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	for seq := range uint16(3) {
		w.loses(FromClient, get(seq))
		w.says(FromServer, got(seq))
		require.Contains(t, r.text(), fmt.Sprintf("< GETCONFIG_RSP seq=%d", seq))
	}
	a.Finish()
	require.Contains(t, r.text(), "> skipped 105 at 0: lost")
}

// A FIN that was not captured does not count as a lost byte.
func TestFINThatWasNotCaptured(t *testing.T) {
	a, r := newTest(Config{})
	w := newWire(a, 100, 200)
	w.open()
	w.says(FromClient, get(1))
	w.next[FromClient]++
	w.says(FromServer, got(1))
	require.Contains(t, r.text(), "< GETCONFIG_RSP seq=1")
	w.ends(FromServer)
	a.Finish()
	require.NotContains(t, r.text(), "lost")
}
