package place

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"time"

	"confcenter/confstore/log"
	"confcenter/kv"
)

// Found is the file of a document as it is at a start.
type Found struct {
	Missing bool
	Broken  bool       // it cannot be read, or is no JSON
	Digest  log.Digest // of its bytes; zero if it cannot be read
	Changed time.Time  // when its contents, name or attributes changed last; zero if missing
}

// Known is what the log has of the document.
type Known struct {
	Revision kv.Revision // of its newest version
	Deleted  bool        // by it
	Hash     log.Digest  // of its file; zero if it is deleted
	Replaces log.Digest  // of the file before; zero: there was none
	// Since returns the digests of the files of the version that was current at a revision, and of
	// those after it but the newest. It is called only if they matter.
	Since func(kv.Revision) ([]log.Digest, error)
}

// Start is what a start knows of the machine.
type Start struct {
	Again  bool // the machine has not been started since the last run
	Boot   time.Time
	Synced kv.Revision // through which files are durable
	Placed bool        // the document's newest version is marked as placed
}

// Verdict is what to do about a file.
type Verdict int

// The verdicts.
const (
	InPlace    Verdict = iota // nothing: it is that of the newest version
	Edited                    // someone has changed it: take that in
	Place                     // put the newest version in its place
	PlaceAside                // likewise, but keep what was found elsewhere
)

// Judge decides what a file is that the last run left, or that someone has changed since.
func Judge(found Found, known Known, start Start) (Verdict, error) {
	switch {
	case found.Missing && known.Deleted, !found.Missing && !known.Deleted && found.Digest == known.Hash:
		return InPlace, nil
	case known.Revision <= start.Synced:
		return Edited, nil
	case start.Again:
		if !start.Placed && found.isBefore(known.Replaces) {
			return Place, nil
		}
		return Edited, nil
	case found.Changed.After(start.Boot):
		return Edited, nil
	case found.Missing || found.isBefore(known.Replaces):
		return Place, nil
	case found.Broken:
		return PlaceAside, nil
	}
	older, err := known.Since(start.Synced)
	if err != nil {
		return InPlace, err
	}
	if slices.Contains(older, found.Digest) {
		return PlaceAside, nil
	}
	return Edited, nil
}

// isBefore reports whether the file is as it was before the newest version.
func (f *Found) isBefore(replaces log.Digest) bool {
	if f.Missing {
		return replaces == log.Digest{}
	}
	return f.Digest == replaces && replaces != log.Digest{}
}

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
