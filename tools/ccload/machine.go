package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What memory reads from /proc/PID/status.
const (
	residentNow  = "VmRSS"
	residentPeak = "VmHWM"
)

// memory is a process's resident memory in bytes.
func memory(pid int, field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseStatus(text, field)
}

func parseStatus(text []byte, field string) (int64, error) {
	for line := range bytes.Lines(text) {
		name, rest, ok := strings.Cut(string(line), ":")
		if !ok || name != field {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", field, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("no %s in the status of the process", field)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// cpuTime is the time a process has run on a core so far, 0 if it cannot be read.
func cpuTime(pid int) time.Duration {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		ns, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// kernelTCP is what the kernel holds in TCP buffers for all processes, in bytes;
// 0 if it cannot be read.
func kernelTCP() int64 {
	text, _ := os.ReadFile("/proc/net/sockstat")
	return parseSockstat(text) * int64(os.Getpagesize())
}

// parseSockstat finds the pages TCP uses: "TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3".
func parseSockstat(text []byte) int64 {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			if fields[i] == "mem" {
				pages, _ := strconv.ParseInt(fields[i+1], 10, 64)
				return pages
			}
		}
	}
	return 0
}

// machineUse is what the processors have done for programs so far, and how much
// of it for this one and the children it has waited for.
type machineUse struct {
	at, all, own time.Duration
}

func useNow(start time.Time) machineUse {
	text, _ := os.ReadFile("/proc/stat")
	return machineUse{at: time.Since(start), all: parseProcessors(text), own: usedBy(unix.RUSAGE_SELF) + usedBy(unix.RUSAGE_CHILDREN)}
}

// others is the part of n processors that other programs have had since before.
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

// parseProcessors reads the first line of /proc/stat without idle and stolen
// time. Interrupts count, since most kernels charge them to the program they
// interrupt as well; where one does not, other programs seem to have had more. The
// unit is a hundredth of a second on every Linux that Go runs on.
func parseProcessors(text []byte) time.Duration {
	fields := strings.Fields(string(text[:max(0, bytes.IndexByte(text, '\n'))]))
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			sum += n
		}
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
