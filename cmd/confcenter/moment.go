package main

import (
	"fmt"
	"time"

	"confcenter/state/history"
)

// readTime reads a time as people write it, and repeats it as repeatTime does; what is the setting that
// has it.
func (a *app) readTime(what, text string) (time.Time, error) {
	at, ok := history.ParseTime(text)
	if !ok {
		return at, usageError{fmt.Errorf("%s = %s: must be a time like 2026-11-22T18:00:00Z", what, text)}
	}
	a.repeatTime(text)
	return at, nil
}

// repeatTime says on standard error how a time is meant that is not written in UTC, before anything
// follows from it. Other moments are none of its business.
func (a *app) repeatTime(text string) {
	if at, ok := history.ParseTime(text); ok {
		if meant := at.Format(time.RFC3339Nano); meant != text {
			fmt.Fprintf(a.stderr, "confcenter: %s is %s\n", text, meant)
		}
	}
}
