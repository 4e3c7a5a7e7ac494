package flow

import (
	"context"
	"encoding/json" // of lines in the form of what is answered
	"strconv"

	"confcenter/access"
	"confcenter/kv"
)

// LogAsk is the question of Oplog.
type LogAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"whose: any member"`
	After int64  `json:"after,omitempty" doc:"continue behind this line"`
	Limit int64  `json:"limit,omitempty" doc:"at most so many lines; left out: 1000"`
}

// LogEntry is a line of an operation log.
type LogEntry struct {
	Line int64  `json:"line" doc:"its number, which counts the changes of the member"`
	Time int64  `json:"time" doc:"when, in nanoseconds since 1970"`
	Who  string `json:"who" doc:"who made the change"`
	What string `json:"what" doc:"what was changed: OLD -> NEW of a status"`
	By   string `json:"by,omitempty" doc:"the connection that asked, if who is another name: anyone can give any"`
}

// LogAnswer is the answer of Oplog.
type LogAnswer struct {
	Lines []LogEntry `json:"lines" doc:"oldest first; those before them may be gone"`
	More  bool       `json:"more,omitempty" doc:"there are more: ask again behind the last"`
}

// Oplog reads the operation log of a member.
func (f *Flow) Oplog(_ context.Context, _ *access.Actor, q *LogAsk) (*LogAnswer, error) {
	ns, m, err := memberOf(q.Scope, q.Key, ParseMember)
	if err != nil {
		return nil, err
	}
	if _, err := f.load(ns, m); err != nil {
		return nil, err
	}
	page, _, err := f.page(kv.List{NS: ns, Prefix: m.field("oplog."), After: logKey(m, max(q.After, 0))}, q.Limit)
	if err != nil {
		return nil, err
	}
	a := &LogAnswer{Lines: []LogEntry{}, More: page.More}
	for _, e := range page.Entries {
		k, err := ParseKey(e.Key)
		if err != nil {
			continue
		}
		var one LogEntry
		_ = json.Unmarshal(e.Value.Data, &one) // edit.touch wrote it
		one.Line, _ = strconv.ParseInt(k.Field, 10, 64)
		a.Lines = append(a.Lines, one)
	}
	return a, nil
}
