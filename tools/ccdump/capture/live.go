package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gopacket/gopacket/afpacket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// ErrPermission says that the process may not capture on an interface.
var ErrPermission = errors.New("capturing needs root or CAP_NET_RAW; `ccdump tap` needs neither")

// Live is a Source of the packets on an interface.
type Live struct {
	// Link is the type of all records.
	Link Link

	ctx    context.Context
	socket *afpacket.TPacket
	idle   func()
}

const (
	// pollTimeout is how often ctx is checked while no packet arrives.
	pollTimeout = 100 * time.Millisecond
	// blockTimeout is the longest a packet waits for others in the kernel, so that
	// lines appear soon after their packets.
	blockTimeout = 10 * time.Millisecond
	ringBlock    = 1 << 20
	ringBlocks   = 32
	ringFrame    = 1 << 16
)

// Listen captures on the named interface until ctx ends. It calls idle when there is
// nothing to read; idle may be nil.
func Listen(ctx context.Context, name string, idle func()) (*Live, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	socket, err := afpacket.NewTPacket(
		afpacket.OptInterface(name), afpacket.OptFrameSize(ringFrame), afpacket.OptBlockSize(ringBlock), afpacket.OptNumBlocks(ringBlocks),
		afpacket.OptBlockTimeout(blockTimeout), afpacket.OptPollTimeout(pollTimeout), afpacket.TPacketVersion3)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("interface %s: %w", name, ErrPermission)
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	l := &Live{ctx: ctx, Link: Ethernet, socket: socket, idle: idle}
	loopback := iface.Flags&net.FlagLoopback != 0
	if !loopback && len(iface.HardwareAddr) == 0 { // a tunnel: nothing stands in front of IP
		l.Link = RawIP
	}
	if loopback {
		if err := l.dropOutgoing(); err != nil {
			socket.Close()
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
	}
	return l, nil
}

// dropOutgoing keeps one of the two copies of each packet on the loopback interface.
func (l *Live) dropOutgoing() error {
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: MaxPacket},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	return l.socket.SetBPF(filter)
}

// Next implements Source. It returns io.EOF when ctx has ended.
func (l *Live) Next(rec *Record) error {
	for l.ctx.Err() == nil {
		data, info, err := l.socket.ZeroCopyReadPacketData()
		switch {
		case err == nil:
			*rec = Record{At: info.Timestamp.UnixNano(), Data: data, Length: info.Length, Link: l.Link}
			return nil
		case errors.Is(err, afpacket.ErrTimeout):
			if l.idle != nil {
				l.idle()
			}
		case errors.Is(err, unix.EINTR):
		default:
			return err
		}
	}
	return io.EOF
}

// Dropped is how many packets the kernel has dropped for lack of room.
func (l *Live) Dropped() uint {
	_, stats, err := l.socket.SocketStats()
	if err != nil {
		return 0
	}
	return stats.Drops()
}

// Close stops capturing.
func (l *Live) Close() { l.socket.Close() }
