package main

import (
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// memory is the resident memory of a process, in bytes.
type memory struct{ now, peak int64 }

func memoryOf(pid int) (memory, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return memory{}, err
	}
	s, err := p.NewStatus()
	return memory{now: int64(s.VmRSS), peak: int64(s.VmHWM)}, err
}

// peakUntil watches the peak memory of a process until ended. The kernel's figure for a
// process that has ended includes the memory of its parent.
func peakUntil(ended <-chan struct{}, pid int) (peak int64) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if m, err := memoryOf(pid); err == nil {
			peak = max(peak, m.peak)
		}
		select {
		case <-ended:
			return peak
		case <-ticker.C:
		}
	}
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// cpuTime is the processor time of a process so far, 0 if it cannot be read.
func cpuTime(pid int) time.Duration {
	threads, _ := procfs.AllThreads(pid)
	var sum uint64
	for _, t := range threads {
		s, _ := t.Schedstat()
		sum += s.RunningNanoseconds
	}
	return time.Duration(sum)
}

// kernelTCP is how much the kernel holds in TCP buffers for all processes, in bytes; 0
// if it cannot be read.
func kernelTCP() int64 {
	fs, _ := procfs.NewDefaultFS()
	stat, err := fs.NetSockstat()
	if err != nil {
		return 0
	}
	for _, p := range stat.Protocols {
		if p.Protocol == "TCP" && p.Mem != nil {
			return int64(*p.Mem) * int64(os.Getpagesize())
		}
	}
	return 0
}

// machineUse is the processor time of all programs so far, and of this one with the
// children it has waited for.
type machineUse struct {
	at, all, own time.Duration
}

func useNow(start time.Time) machineUse {
	fs, _ := procfs.NewDefaultFS()
	stat, _ := fs.Stat()
	return machineUse{at: time.Since(start), all: programTime(stat.CPUTotal), own: usedBy(unix.RUSAGE_SELF) + usedBy(unix.RUSAGE_CHILDREN)}
}

// programTime leaves out idle and stolen time. Interrupts count, because most kernels
// also charge them to the program they interrupt; where one does not, other programs
// appear to have used more.
func programTime(s procfs.CPUStat) time.Duration {
	return time.Duration((s.User + s.Nice + s.System + s.IRQ + s.SoftIRQ) * float64(time.Second))
}

// others is the part of n processors that other programs have used since before.
func (u machineUse) others(before machineUse, n int) float64 {
	if u.at <= before.at {
		return 0
	}
	return max(0, float64(u.all-before.all-(u.own-before.own))/float64(u.at-before.at)/float64(n))
}

func usedBy(who int) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
