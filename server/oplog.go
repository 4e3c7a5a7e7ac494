package server

import (
	"strings"

	"confcenter/internal/clock"
)

// oplog is the operation log that GETLOGR shows: the last lines, in memory.
type oplog struct {
	clock clock.Clock // set at open
	lines ring[string]
}

// oplogLines is how many lines are kept.
const oplogLines = 200

func (o *oplog) init(c clock.Clock) { o.clock, o.lines.size = c, oplogLines }

// add writes one line: the time, the kind and the fields.
func (o *oplog) add(kind string, fields ...string) {
	o.lines.add(o.clock.Now().Format("2006-01-02 15:04:05") + ": " + strings.Join(append([]string{kind}, fields...), "| "))
}

// newest returns up to n lines, the newest first.
func (o *oplog) newest(n int) []string { return o.lines.newest(n) }
