package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/xml"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// capture writes a pcapng file like that of a capture on an interface.
type capture struct {
	t     *testing.T
	mu    sync.Mutex
	file  *os.File
	w     *pcapgo.NgWriter
	conns uint16

	packets int
	log     []sent
}

func newCapture(t *testing.T) *capture {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "wire.pcapng"))
	require.NoError(t, err)
	w, err := pcapgo.NewNgWriter(file, layers.LinkTypeEthernet)
	require.NoError(t, err)
	return &capture{t: t, file: file, w: w}
}

// done ends the file and returns its path.
func (c *capture) done() string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(c.t, c.w.Flush())
	require.NoError(c.t, c.file.Close())
	return c.file.Name()
}

// wire is a connection in a capture.
type wire struct {
	c     *capture
	v6    bool
	ports [2]layers.TCPPort // of client and server
	next  [2]uint32         // sequence numbers
}

// sent is a segment that was written to a capture.
type sent struct {
	wire   *wire
	side   int
	data   []byte
	at     time.Time
	packet int
}

// conn adds a connection to a server's port, with its handshake.
func (c *capture) conn(port uint16, v6 bool, at time.Time) *wire {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns++
	w := &wire{c: c, v6: v6, ports: [2]layers.TCPPort{layers.TCPPort(40000 + c.conns), layers.TCPPort(port)}, next: [2]uint32{1000 + uint32(at.Unix()), 9000 + uint32(at.Unix())}}
	w.packet(0, &layers.TCP{SYN: true}, nil, at, 0)
	w.packet(1, &layers.TCP{SYN: true, ACK: true}, nil, at, 0)
	w.next[0]++
	w.next[1]++
	w.packet(0, &layers.TCP{ACK: true}, nil, at, 0)
	return w
}

// send adds a segment of data that one side sent. snap, unless 0, is how many bytes of the
// packet were captured.
func (w *wire) send(side int, data []byte, at time.Time, snap int) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if at.IsZero() {
		at = time.Now().Round(0) // as the file has it: the clock may be corrected meanwhile, by more than what is compared
	}
	w.packet(side, &layers.TCP{ACK: true, PSH: true}, data, at, snap)
	w.next[side] += uint32(len(data))
	w.c.log = append(w.c.log, sent{w, side, bytes.Clone(data), at, w.c.packets})
}

// sendNow adds data that one side sent just now, cut into segments of these sizes in turn.
func (w *wire) sendNow(side int, data []byte, sizes ...int) {
	for i := 0; len(data) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(data))
		w.send(side, data[:n], time.Time{}, 0)
		data = data[n:]
	}
}

// lose omits the next bytes of one side from the capture.
func (w *wire) lose(side, n int) { w.next[side] += uint32(n) }

func (w *wire) packet(side int, tcp *layers.TCP, data []byte, at time.Time, snap int) {
	tcp.SrcPort, tcp.DstPort = w.ports[side], w.ports[1-side]
	tcp.Seq, tcp.Ack, tcp.Window = w.next[side], w.next[1-side], 65535
	if tcp.SYN && !tcp.ACK {
		tcp.Ack = 0
	}
	ethernet := &layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, byte(side)}, DstMAC: []byte{2, 0, 0, 0, 0, byte(1 - side)}, EthernetType: layers.EthernetTypeIPv4}
	hosts := [2]string{"10.1.0.1", "10.1.0.2"}
	var network gopacket.SerializableLayer
	if w.v6 {
		hosts = [2]string{"fd00::1", "fd00::2"}
		ethernet.EthernetType = layers.EthernetTypeIPv6
	}
	from, to := netip.MustParseAddr(hosts[side]).AsSlice(), netip.MustParseAddr(hosts[1-side]).AsSlice()
	if w.v6 {
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: from, DstIP: to}
		require.NoError(w.c.t, tcp.SetNetworkLayerForChecksum(ip))
		network = ip
	} else {
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: from, DstIP: to}
		require.NoError(w.c.t, tcp.SetNetworkLayerForChecksum(ip))
		network = ip
	}
	buffer := gopacket.NewSerializeBuffer()
	require.NoError(w.c.t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		ethernet, network, tcp, gopacket.Payload(data)))
	packet := buffer.Bytes()
	length := len(packet)
	w.c.packets++
	if snap > 0 {
		packet = packet[:min(snap, length)]
	}
	require.NoError(w.c.t, w.c.w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(packet), Length: length}, packet))
}

// seen is a frame as tshark shows it.
type seen struct {
	packet  int
	fields  map[string][]pdmlField
	experts []string
}

// text is the first field of that name as tshark writes it, empty if there is none.
func (s seen) text(name string) string {
	if all := s.fields["confcenter."+name]; len(all) > 0 {
		return all[0].Show
	}
	return ""
}

func (s seen) number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.ParseInt(s.text(name), 0, 64)
	require.NoError(t, err, "%s is %q", name, s.text(name))
	return int(n)
}

// octets returns the bytes covered by all fields of that name.
func (s seen) octets(t *testing.T, name string) string {
	t.Helper()
	var all []byte
	for _, field := range s.fields["confcenter."+name] {
		b, err := hex.DecodeString(field.Value)
		require.NoError(t, err)
		all = append(all, b...)
	}
	return string(all)
}

// has reports whether there is a field or protocol of that full name.
func (s seen) has(name string) bool { return len(s.fields[name]) > 0 }

type pdmlField struct {
	Name   string      `xml:"name,attr"`
	Show   string      `xml:"show,attr"`
	Shown  string      `xml:"showname,attr"`
	Value  string      `xml:"value,attr"`
	Fields []pdmlField `xml:",any"`
}

type pdmlPacket struct {
	Protos []pdmlField `xml:"proto"`
}

func (s *seen) collect(fields []pdmlField) {
	for _, field := range fields {
		s.fields[field.Name] = append(s.fields[field.Name], field)
		if field.Name == "_ws.expert.message" {
			s.experts = append(s.experts, field.Show)
		}
		s.collect(field.Fields)
	}
}

const dissector = "../tools/wireshark/confcenter.lua"

// tshark runs the real tshark, with the dissector that people install.
func tshark(t *testing.T, args ...string) []byte {
	t.Helper()
	return tsharkBy(t, "", append([]string{"tshark", "-n", "-X", "lua_script:" + dissector}, args...)...)
}

// tsharkBy runs a command that is the real tshark, in dir, without the settings of the user who
// runs the test.
func tsharkBy(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	_, err := exec.LookPath("tshark")
	require.NoError(t, err, "install Debian's package tshark, as make packages does")
	ctx, cancel := context.WithTimeout(context.Background(), 6*servertest.Patience)
	defer cancel()
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = dir
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	var output, trouble bytes.Buffer
	command.Stdout, command.Stderr = &output, &trouble
	require.NoError(t, command.Run(), trouble.String())
	for line := range strings.Lines(trouble.String()) {
		if !strings.HasPrefix(line, "Running as user") && strings.TrimSpace(line) != "" {
			require.Fail(t, "tshark complains", trouble.String())
		}
	}
	if _, from, failed := strings.Cut(output.String(), "Lua Error"); failed {
		require.Fail(t, "the dissector fails", from[:min(len(from), 500)])
	}
	return output.Bytes()
}

// dissect lists the frames that tshark finds in a capture, in two passes, in the order
// of the capture.
func dissect(t *testing.T, file string, options ...string) []seen {
	t.Helper()
	output := tshark(t, append([]string{"-r", file, "-2", "-T", "pdml"}, options...)...)
	var document struct {
		Packets []pdmlPacket `xml:"packet"`
	}
	// Wireshark's own JSON tree writes names as they were sent.
	require.NoError(t, xml.Unmarshal(bytes.ToValidUTF8(output, []byte("?")), &document))
	require.NotEmpty(t, document.Packets)
	var frames []seen
	for i, packet := range document.Packets {
		for _, proto := range packet.Protos {
			if proto.Name == "confcenter" {
				frame := seen{packet: i + 1, fields: map[string][]pdmlField{}}
				frame.collect(proto.Fields)
				slices.Sort(frame.experts)
				frames = append(frames, frame)
			}
		}
	}
	return frames
}
