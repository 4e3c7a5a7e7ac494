package placement

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Machine is the machine that files are on, since it was started.
type Machine struct {
	Boot  string    // identifies that time; "": not known, so that each start counts as another
	Since time.Time // zero: not known
}

// ThisMachine is the one that the process runs on, as Linux tells of it.
func ThisMachine() Machine {
	var m Machine
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.Boot = string(bytes.TrimSpace(id))
	}
	stat, _ := os.ReadFile("/proc/stat")
	for line := range bytes.Lines(stat) {
		if text, is := bytes.CutPrefix(line, []byte("btime ")); is {
			if seconds, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
				m.Since = time.Unix(seconds, 0)
			}
		}
	}
	return m
}
