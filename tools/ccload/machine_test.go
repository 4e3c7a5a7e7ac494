package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStatus(t *testing.T) {
	text := []byte("Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n")
	n, err := parseStatus(text, residentNow)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, n)
	n, err = parseStatus(text, residentPeak)
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, n)
	_, err = parseStatus(text, "VmSwap")
	require.ErrorContains(t, err, "VmSwap")
	_, err = parseStatus([]byte("VmRSS: many\n"), residentNow)
	require.Error(t, err)
}

func TestParseSockstat(t *testing.T) {
	text := "sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 31\nUDP: inuse 0 mem 2\n"
	require.EqualValues(t, 31, parseSockstat([]byte(text)))
	require.Zero(t, parseSockstat(nil))
}

func TestCPUTimeOfNobody(t *testing.T) {
	require.Zero(t, cpuTime(1<<30))
	_, err := memory(1<<30, residentNow)
	require.Error(t, err)
	require.True(t, strings.HasPrefix(err.Error(), "open"))
}

func TestParseProcessors(t *testing.T) {
	text := "cpu  100 20 3 9999 5 6 7 0 0 0\ncpu0 50 10 1 5 5 5 5 0 0 0\n"
	require.Equal(t, 1360*time.Millisecond, parseProcessors([]byte(text)))
	require.Zero(t, parseProcessors(nil))
}

func TestOthers(t *testing.T) {
	before := machineUse{at: time.Second, all: 10 * time.Second, own: time.Second}
	after := machineUse{at: 3 * time.Second, all: 13 * time.Second, own: 3 * time.Second}
	require.Equal(t, 0.25, after.others(before, 2), "one of the three seconds that were used, of four")
	require.Zero(t, before.others(before, 2))
	require.Zero(t, machineUse{at: 2 * time.Second, all: 10 * time.Second, own: 9 * time.Second}.others(before, 2))
}
