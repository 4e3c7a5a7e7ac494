package server

import (
	"strings"
	"sync"

	"confcenter/internal/clock"
)

// oplog is the operation log that GETLOGR shows: the last lines, in memory.
type oplog struct {
	clock clock.Clock // set at open

	mu sync.Mutex
	// guarded by mu
	lines []string // ring; next is the place of the oldest once it is full
	next  int
}

// oplogLines is how many lines are kept.
const oplogLines = 200

// add writes one line: the time, the kind and the fields.
func (o *oplog) add(kind string, fields ...string) {
	line := o.clock.Now().Format("2006-01-02 15:04:05") + ": " + strings.Join(append([]string{kind}, fields...), "| ")
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) < oplogLines {
		o.lines = append(o.lines, line)
		return
	}
	o.lines[o.next] = line
	o.next = (o.next + 1) % oplogLines
}

// newest returns up to n lines, the newest first.
func (o *oplog) newest(n int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	n = min(max(n, 0), len(o.lines))
	lines := make([]string, 0, n)
	for i := range n {
		lines = append(lines, o.lines[(o.next+len(o.lines)-1-i)%len(o.lines)])
	}
	return lines
}
