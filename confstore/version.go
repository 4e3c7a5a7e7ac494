package confstore

import (
	"math"
	"time"
)

// An mtime is a version: SDKs hold whole int32 seconds and fetch only what is
// greater. maxGiven leaves 2^24 seconds above anything given, so that "one more
// than the highest" always has room.
const maxGiven = math.MaxInt32 - 1<<24 + 1

// maxAhead is how far versions may run ahead of the clock: far enough for bursts of
// writes, since each takes a second, and short enough to wait for. Were there no
// bound, a document that is set all the time would come to the end of int32, and
// one mtime of years ahead would make all who give the time of day too old.
const maxAhead = 24 * time.Hour

func ahead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

func timeOf(version int32) time.Time { return time.Unix(int64(version), 0).UTC() }

// seconds is t as an mtime. What no mtime may be, before 1970 or too far ahead,
// counts as now.
func seconds(t, now time.Time) int32 {
	if t.Unix() < 1 || ahead(t, now) {
		t = now
	}
	return int32(min(max(t.Unix(), 1), maxGiven))
}

// after is the smallest version greater than highest, if given is not.
func after(given, highest int32) int32 {
	if highest == math.MaxInt32 {
		return highest
	}
	return max(given, highest+1)
}
