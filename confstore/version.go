package confstore

import (
	"math"
	"time"
)

// An mtime is a version: SDKs hold whole int32 seconds and fetch only what is
// greater. maxGiven leaves 2^24 seconds above anything given, so that "one more
// than the highest" always has room.
const maxGiven = math.MaxInt32 - 1<<24 + 1

// seconds is t as an mtime. What no mtime can be, before 1970 or too far ahead,
// counts as otherwise: a wrong clock must not use up the versions.
func seconds(t, otherwise time.Time) int32 {
	s := t.Unix()
	if s < 1 || s > maxGiven {
		s = min(max(otherwise.Unix(), 1), maxGiven)
	}
	return int32(s)
}

// after is the smallest version greater than highest, if given is not.
func after(given, highest int32) int32 {
	if highest == math.MaxInt32 {
		return highest
	}
	return max(given, highest+1)
}
