package bench

import (
	"cmp"
	"context"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Entry is one update of a node or a job, as its history has it.
type Entry struct {
	Seq   int64  `json:"seq" doc:"the updates of one node or job are counted from 1"`
	Time  int64  `json:"time" doc:"when, in ns since 1970"`
	Actor string `json:"actor,omitempty" doc:"who did it"`
	Event string `json:"event" doc:"what was done"`
	Old   string `json:"old" doc:"the state before"`
	New   string `json:"new" doc:"the state since"`
	Note  string `json:"note,omitempty" doc:"more about it"`
	Parts []Part `json:"parts,omitempty" doc:"what changed below: stages and tasks, all of them"`
}

// Part is something within a job that changed with it.
type Part struct {
	Of  string `json:"of" doc:"what it is: stage 2, stage 2 node a task 0"`
	Old string `json:"old" doc:"the state before"`
	New string `json:"new" doc:"the state since"`
}

// log writes an entry into the history of a node or a job, in the same transaction as the
// update itself. Its number must be one that only this transaction can write.
func (c *change) log(of string, e Entry) {
	e.Time = c.now.UnixNano()
	if c.by != nil {
		e.Actor = c.by.String()
	}
	c.put(numbered("history/"+of, e.Seq), e)
	c.past = append(c.past, numbered("history/"+of, e.Seq-1))
	if old := e.Seq - c.b.cfg.MaxHistory; old > 0 {
		c.delete(numbered("history/"+of, old))
	}
}

// late reports whether a history would step back, because the machine's clock has been put back
// since. Then the change has to be made again: it is not earlier than what is there.
func (c *change) late() (bool, error) {
	for _, e := range c.b.store.GetMany(kv.BenchNamespace, c.past...) {
		var last struct{ Time int64 }
		if err := decode(e, &last); err != nil {
			return false, err
		}
		c.floor = max(c.floor, last.Time)
	}
	return c.floor > c.now.UnixNano(), nil
}

// buried is what there is of a removed node besides its history.
type buried struct {
	Seq int64 `json:"seq"` // of its last update
	At  int64 `json:"at"`  // its place among those that were removed
}

func buriedKey(at int64, id string) string { return numbered("removed", at) + "/" + id }

// bury notes that a node is removed. If there are too many, the history of the first one goes.
func (c *change) bury(id string, seq int64) error {
	at := c.now.UnixNano()
	c.put("history/node/"+id, buried{seq, at})
	c.putValue(buriedKey(at, id), kv.StringValue(""), 0)
	if err := c.countUp("removed", c.b.cfg.MaxRemoved, "%d removed nodes are kept"); codes.Of(err) != codes.Limit {
		return err
	}
	page, err := c.b.list("removed/", "", 1)
	if err != nil {
		return err
	}
	for _, first := range page.Entries {
		c.unchanged(first.Key, first)
		c.delete(first.Key)
		of := "history/node/" + first.Key[strings.LastIndexByte(first.Key, '/')+1:]
		c.delete(of)
		c.do(kv.Op{Kind: kv.OpDeletePrefix, Key: of + "/"})
	}
	return nil
}

// unbury returns the last update of a node that is registered again after its removal, or 0.
func (c *change) unbury(id string) (int64, error) {
	var was buried
	e, err := c.read("history/node/"+id, &was)
	c.unchanged("history/node/"+id, e)
	if e != nil {
		c.delete(e.Key)
		c.delete(buriedKey(was.At, id))
		c.count("removed", -1)
	}
	return was.Seq, err
}

// HistoryAsk asks for the history of a node or a job, also of a removed node.
type HistoryAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the node or job"`
	After int64  `json:"after,omitempty" doc:"continue behind this entry"`
	Limit int64  `json:"limit,omitempty" doc:"entries at most: 1,000"`
}

// HistoryAnswer is a part of a history, oldest first.
type HistoryAnswer struct {
	Entries []Entry `json:"entries" doc:"oldest first"`
	Next    int64   `json:"next,omitempty" doc:"there is more: ask again with this as after"`
}

// NodeHistory returns what happened to a node, registrations included.
func (b *Bench) NodeHistory(_ context.Context, _ *access.Actor, q *HistoryAsk) (*HistoryAnswer, error) {
	return b.history("node", q)
}

// JobHistory returns what happened to a job.
func (b *Bench) JobHistory(_ context.Context, _ *access.Actor, q *HistoryAsk) (*HistoryAnswer, error) {
	return b.history("job", q)
}

func (b *book) history(what string, q *HistoryAsk) (*HistoryAnswer, error) {
	if err := checkName("id", q.ID); err != nil {
		return nil, err
	}
	if q.After < 0 {
		return nil, codes.Errorf(codes.BadRequest, "after is %d: give the number of an entry, or leave it out", q.After)
	}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	of := "history/" + what + "/" + q.ID
	list, more, err := pageOf[Entry](b, of, q.After, limit)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && q.After == 0 {
		return nil, refuse(NotFound, "%s %s not found", what, q.ID)
	}
	answer := &HistoryAnswer{Entries: list}
	if more {
		answer.Next = list[len(list)-1].Seq
	}
	return answer, nil
}

// pageOf reads what is kept of something by numbers, behind one of them.
func pageOf[T any](b *book, of string, after int64, limit int) (list []T, more bool, err error) {
	page, err := b.list(of+"/", numbered(of, after), limit)
	list = make([]T, len(page.Entries))
	for i, e := range page.Entries {
		err = cmp.Or(err, decode(e, &list[i]))
	}
	return list, page.More, err
}

// pageLimit is how many entries an answer may have.
func pageLimit(asked int64) (int, error) {
	switch {
	case asked < 0:
		return 0, codes.Errorf(codes.BadRequest, "limit is %d: give 1 to %d", asked, maxPage)
	case asked == 0 || asked > maxPage:
		return maxPage, nil
	}
	return int(asked), nil
}
