package bench

import (
	"context"
	"fmt"

	"confcenter/access"
	"confcenter/codes"
)

// LogAsk adds to the log of a task.
type LogAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Stage string `json:"stage" arg:"2" doc:"name or index of the stage"`
	Task  string `json:"task" arg:"3" doc:"name or index of the task in the stage"`
	Node  string `json:"node" arg:"4" doc:"id of the node, or its name in the job"`
	Text  string `json:"text" doc:"what is added: at most 64 KiB"`
	Token string `json:"token,omitempty" doc:"makes the request safe to repeat"`
}

// LogAnswer names what was added.
type LogAnswer struct {
	Seq int64 `json:"seq" doc:"number of the chunk, from 1"`
}

// LogTask adds a chunk of text to the log of a task, of which the last 256 chunks are kept.
// It is no update of the job.
func (b *Bench) LogTask(ctx context.Context, by *access.Actor, q *LogAsk) (*LogAnswer, error) {
	if len(q.Text) > b.cfg.MaxLogChunk {
		return nil, codes.Errorf(codes.TooLarge, "text has %d bytes, the limit is %d: add it in pieces", len(q.Text), b.cfg.MaxLogChunk)
	}
	return apply(ctx, b, by, "log/"+q.ID+"/"+q.Stage+"/"+q.Task+"/"+q.Node, q.Token, q, func(c *change) (*LogAnswer, error) {
		j, of, err := b.logKey(q.ID, q.Stage, q.Task, q.Node)
		if err != nil {
			return nil, err
		}
		var last int64
		e, err := c.read(of, &last)
		if err != nil {
			return nil, err
		}
		c.exists("job/" + j.ID)
		c.unchanged(of, e)
		c.put(of, last+1)
		c.past = append(c.past, numbered(of, last))
		c.put(numbered(of, last+1), LogChunk{Seq: last + 1, Time: c.now.UnixNano(), Text: q.Text})
		if old := last + 1 - b.cfg.MaxLog; old > 0 {
			c.delete(numbered(of, old))
		}
		return &LogAnswer{Seq: last + 1}, nil
	})
}

// logKey is where the log of a task is: the number of its last chunk, and below it the chunks.
func (b *book) logKey(id, stage, task, node string) (*job, string, error) {
	j, err := b.job(id)
	if err != nil {
		return nil, "", err
	}
	s, t, n, err := j.findTask(stage, task, node)
	if err != nil {
		return nil, "", err
	}
	return j, fmt.Sprintf("log/%s/%d/%s/%d", j.ID, s, j.nodes[j.run[s].Nodes[n].Node].ID, t), nil
}

// TaskLogAsk asks for the log of a task.
type TaskLogAsk struct {
	ID    string `json:"id" arg:"1" doc:"of the job"`
	Stage string `json:"stage" arg:"2" doc:"name or index of the stage"`
	Task  string `json:"task" arg:"3" doc:"name or index of the task in the stage"`
	Node  string `json:"node" arg:"4" doc:"id of the node, or its name in the job"`
	After int64  `json:"after,omitempty" doc:"continue behind this chunk"`
	Limit int64  `json:"limit,omitempty" doc:"chunks at most: 1,000"`
}

// LogChunk is a piece of a log.
type LogChunk struct {
	Seq  int64  `json:"seq" doc:"from 1"`
	Time int64  `json:"time" doc:"when it was added, in ns since 1970"`
	Text string `json:"text" doc:"what was added"`
}

// TaskLogAnswer is a part of a log.
type TaskLogAnswer struct {
	Chunks []LogChunk `json:"chunks" doc:"oldest first"`
	Next   int64      `json:"next,omitempty" doc:"there is more: ask again with this as after"`
}

// TaskLog returns what is kept of the log of a task.
func (b *Bench) TaskLog(_ context.Context, _ *access.Actor, q *TaskLogAsk) (*TaskLogAnswer, error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	if q.After < 0 {
		return nil, codes.Errorf(codes.BadRequest, "after is %d: give the number of a chunk, or leave it out", q.After)
	}
	_, of, err := b.logKey(q.ID, q.Stage, q.Task, q.Node)
	if err != nil {
		return nil, err
	}
	list, more, err := pageOf[LogChunk](&b.book, of, q.After, limit)
	if err != nil {
		return nil, err
	}
	answer := &TaskLogAnswer{Chunks: list}
	if more {
		answer.Next = list[len(list)-1].Seq
	}
	return answer, nil
}
