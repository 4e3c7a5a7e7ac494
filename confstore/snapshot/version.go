package snapshot

import (
	"math"
	"time"
)

// An mtime is a version: SDKs store whole int32 seconds and fetch only greater ones.
// MaxGiven leaves 2^24 seconds above any given mtime, so that there is always room for "one
// more than the highest".
const MaxGiven = math.MaxInt32 - 1<<24 + 1

// maxAhead is how far ahead of the clock a given mtime may be: one years ahead would make every
// writer that sends the time of day too old.
const maxAhead = 24 * time.Hour

// MaxRaised is how far ahead of it versions may be raised: far enough for bursts of writes, each of
// which takes a second, also where an mtime was given that is as far ahead as can be, and short
// enough to wait for. Without a bound, a document that is set all the time would reach the end of
// int32.
const MaxRaised = 2 * maxAhead

// Ahead reports whether a time is too far ahead of the clock to be an mtime.
func Ahead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

// Raised reports whether a version has been raised as far as it may be.
func Raised(version int32, now time.Time) bool { return TimeOf(version).After(now.Add(MaxRaised)) }

// TimeOf is a version as a time.
func TimeOf(version int32) time.Time { return time.Unix(int64(version), 0).UTC() }

// Seconds returns t as an mtime. Times that are not allowed as one, before 1970 or too far
// ahead, count as now.
func Seconds(t, now time.Time) int32 {
	if t.Unix() < 1 || Ahead(t, now) {
		t = now
	}
	return int32(min(max(t.Unix(), 1), MaxGiven))
}

// After returns given if it is greater than highest, else the next version above highest.
func After(given, highest int32) int32 {
	if highest == math.MaxInt32 {
		return highest
	}
	return max(given, highest+1)
}
