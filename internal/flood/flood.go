// Package flood makes connections to a server as fast as it can, from several addresses of
// this machine, for tests and benchmarks of what a server does about that.
//
// Over TCP and HTTP in turn it says nothing, begins to say something and stops, or says
// who it is; none of the connections does more, and none is read.
package flood

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"confcenter/protocol"
)

// Flood is an attacker. Only one goroutine may use it.
type Flood struct {
	// set at open
	manners []manner
	sources []unix.SockaddrInet4

	open    []int // descriptors, a ring: the oldest is at next once it is full; -1: none
	next    int
	pending []int // places of connects that have not been answered
	Tally
}

// impatience is how many connects a flood begins that are not answered, as a program would
// with so many threads. To go on with what the kernel drops would test the kernel.
const impatience = 256

// Tally is what became of the connects.
type Tally struct {
	Begun   int // connects made
	Evicted int // of those that were closed again: the server had closed them before
	Ignored int // of these: they were never answered
}

// manner is how a connection behaves.
type manner struct {
	to   unix.SockaddrInet4
	says []byte
}

// Sources is how many addresses of 127/8 a flood comes from.
const Sources = 8

// source is the address of a flood's n-th source.
func source(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 66, byte(n), 1}) }

// New prepares a flood on a server's addresses that keeps the newest connections open, as
// many as hold. It needs as many descriptors.
func New(tcp, http string, hold int) (*Flood, error) {
	toTCP, err := sockaddr(tcp)
	if err != nil {
		return nil, err
	}
	toHTTP, err := sockaddr(http)
	if err != nil {
		return nil, err
	}
	whoami := protocol.AppendFrame(nil, protocol.Whoami, 1, []byte(`{"svrid":0,"svrname":"flood"}`))
	f := &Flood{open: slices.Repeat([]int{-1}, hold), manners: []manner{
		{toTCP, nil}, {toHTTP, nil}, {toTCP, whoami[:protocol.HeaderSize/2]}, {toHTTP, []byte("GET /v1/con")},
		{toTCP, nil}, {toHTTP, nil}, {toTCP, whoami}, {toHTTP, []byte("PUT /v1/store/key?ns=n&key=k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")},
	}}
	for n := range Sources {
		f.sources = append(f.sources, unix.SockaddrInet4{Addr: source(n).As4()})
	}
	return f, nil
}

func sockaddr(text string) (unix.SockaddrInet4, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || !a.Addr().Is4() {
		return unix.SockaddrInet4{}, fmt.Errorf("flood %s: must be an IPv4 address with a port (%w)", text, err)
	}
	return unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
}

// Connect makes one connection more, without waiting for it, and closes the oldest if there
// are as many as may be. It does nothing while too many have not been answered.
func (f *Flood) Connect() error {
	if len(f.pending) == impatience && !f.answered() {
		return nil
	}
	f.end(f.next)
	m := &f.manners[f.Begun%len(f.manners)]
	from := &f.sources[f.Begun/len(f.manners)%len(f.sources)]
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	place := f.next
	f.open[place] = fd
	f.next = (place + 1) % len(f.open)
	f.Begun++
	// The port is found with the whole pair of addresses, so that each source has all of them.
	// A reset at the end leaves nothing behind that would use them up.
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Bind(fd, from))
	if err != nil {
		return fmt.Errorf("flood: %w", err)
	}
	if err := unix.Connect(fd, &m.to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil // refused: counted when it is closed
	}
	if state(fd) == synSent {
		f.pending = append(f.pending, place)
	} else if m.says != nil {
		_, _ = unix.SendmsgN(fd, m.says, nil, nil, unix.MSG_NOSIGNAL)
	}
	return nil
}

// answered takes those off the list of pending connects that are not any more, and reports
// whether there are any.
func (f *Flood) answered() bool {
	f.pending = slices.DeleteFunc(f.pending, func(place int) bool { return state(f.open[place]) != synSent })
	return len(f.pending) < impatience
}

// state is the kernel's state of a connection.
func state(fd int) uint8 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return info.State
}

// end closes the connection in a place and counts what had become of it.
func (f *Flood) end(place int) {
	fd := f.open[place]
	if fd < 0 {
		return
	}
	f.open[place] = -1
	switch state(fd) {
	case synSent:
		f.Ignored++
	case established:
	default:
		f.Evicted++
	}
	_ = unix.Close(fd)
}

// States of the kernel's.
const (
	established = 1
	synSent     = 2
)

// Close ends all connections.
func (f *Flood) Close() {
	for i := range f.open {
		f.end(i)
	}
}
