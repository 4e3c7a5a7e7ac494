package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Limits of one answer.
const (
	mostLines    = 1000
	mostScanned  = 50_000   // lines that are looked at for an answer
	mostAnswered = 2 << 20  // bytes of lines
	mostVerified = 100_000  // lines
	dayBefore    = 86400000 // ms: how far clocks may have been set back between lines
)

// Filter says which lines are of interest; empty members say nothing.
type Filter struct {
	Kind    string `json:"kind,omitempty" doc:"only of this kind, such as denied"`
	Who     string `json:"who,omitempty" doc:"only of this identity, such as token:deploy"`
	What    string `json:"what,omitempty" doc:"only about things that begin with this, such as config:game/"`
	Outcome string `json:"outcome,omitempty" doc:"only with this outcome: ok, or the name of an error"`
	From    int64  `json:"from,omitempty" doc:"not before this time, in ms since 1970"`
	To      int64  `json:"to,omitempty" doc:"not after this time, in ms since 1970"`
}

// Check refuses what no line can be. codes.BadRequest.
func (f *Filter) Check() error {
	var kinds, outcomes []string
	for _, k := range access.EventKinds() {
		kinds = append(kinds, string(k))
	}
	for _, row := range codes.All() {
		outcomes = append(outcomes, row.Name)
	}
	switch {
	case f.Kind != "" && !slices.Contains(kinds, f.Kind):
		return codes.Errorf(codes.BadRequest, "there is no kind %.40q; there are %s", f.Kind, strings.Join(kinds, ", "))
	case f.Outcome != "" && !slices.Contains(outcomes, f.Outcome):
		return codes.Errorf(codes.BadRequest, "there is no outcome %.40q; there are %s", f.Outcome, strings.Join(outcomes, ", "))
	}
	return nil
}

// Match reads a line behind another one, and reports whether it is of interest.
func (f *Filter) Match(at int64, text []byte) (l Line, ok bool, err error) {
	if l, err = ParseLine(text); err != nil {
		return l, false, codes.Errorf(codes.Storage, "line %d of the audit is damaged; confcenter audit verify says more", at+1)
	}
	return l, (f.Kind == "" || f.Kind == l.Kind) && (f.Who == "" || f.Who == l.Who) && (f.Outcome == "" || f.Outcome == l.Outcome) &&
		(f.From == 0 || l.Time >= f.From) && (f.To == 0 || l.Time <= f.To) &&
		(f.What == "" || slices.ContainsFunc(l.What, func(what string) bool { return strings.HasPrefix(what, f.What) })), nil
}

// LinesAsk asks for lines.
type LinesAsk struct {
	Filter
	After int64 `json:"after,omitempty" doc:"only lines with greater numbers"`
	Last  int64 `json:"last,omitempty" doc:"look only at the newest so many lines"`
	Limit int64 `json:"limit,omitempty" doc:"how many at most: 1,000"`
}

// LinesAnswer is lines in their order.
type LinesAnswer struct {
	Lines []Line `json:"lines" doc:"a line for each"`
	Next  int64  `json:"next,omitempty" doc:"ask again after this one; 0: there are no more now"`
}

// Lines lists lines.
func (a *Audit) Lines(ctx context.Context, _ *access.Actor, q *LinesAsk) (*LinesAnswer, error) {
	if err := a.refusal(); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	if q.Limit < 0 || q.Limit > mostLines || q.After < 0 || q.Last < 0 {
		return nil, codes.Errorf(codes.BadRequest, "limit %d, after %d, last %d: none is below 0, and limit is at most %d", q.Limit, q.After, q.Last, mostLines)
	}
	at, limit := q.After, int(cmp.Or(q.Limit, mostLines))
	if q.Last > 0 {
		at = max(at, a.cfg.Trail.Head().Seq-q.Last)
	}
	if q.From > 0 && q.After == 0 {
		begins, err := a.before(ctx, q.From-dayBefore)
		if err != nil {
			return nil, err
		}
		at = max(at, begins)
	}
	answer, size := &LinesAnswer{}, 0
	for scanned := 0; ; {
		block, err := a.Read(ctx, at)
		if err != nil || len(block.Lines) == 0 {
			return answer, err
		}
		for _, text := range Lines(block.Lines) {
			l, wanted, err := q.Match(at, text)
			if err != nil {
				return nil, err
			}
			if q.To > 0 && l.Time > q.To+dayBefore {
				return answer, nil
			}
			at = l.Seq
			if scanned++; wanted {
				answer.Lines = append(answer.Lines, l)
				size += len(text)
			}
			if len(answer.Lines) >= limit || size >= mostAnswered || scanned >= mostScanned {
				answer.Next = at
				return answer, nil
			}
		}
	}
}

// before is the number of a line before which all are older than a time in ms since 1970, if no
// clock was set back meanwhile.
func (a *Audit) before(ctx context.Context, time int64) (int64, error) {
	low, high := int64(0), a.cfg.Trail.Head().Seq
	for low < high {
		middle := low + (high-low)/2
		page, err := a.store.ListArchive(ctx, kv.List{NS: kv.AuditLines, After: KeyOf(middle), Limit: 1, MaxBytes: 1})
		if err != nil {
			return 0, err
		}
		if len(page.Entries) == 0 || page.Entries[0].Updated >= time {
			high = middle
			continue
		}
		b, _, err := ParseBlock(page.Entries[0].Key, page.Entries[0].Value.Data)
		if err != nil {
			return 0, err
		}
		low = max(middle+1, b.Last)
	}
	return low, nil
}

// HeadAsk asks for the end of the chain.
type HeadAsk struct{}

// HeadAnswer is the end of the chain. Kept somewhere else, it shows later whether lines up to it
// were changed or removed.
type HeadAnswer struct {
	Head   string `json:"head" doc:"number and hash of the newest line: SEQ:HASH"`
	Pruned string `json:"pruned,omitempty" doc:"the same of the newest line that was removed for its age or for lack of room"`
}

// Head tells the end of the chain.
func (a *Audit) Head(context.Context, *access.Actor, *HeadAsk) (*HeadAnswer, error) {
	if err := a.refusal(); err != nil {
		return nil, err
	}
	b, err := a.booksNow()
	if err != nil {
		return nil, err
	}
	return &HeadAnswer{Head: a.cfg.Trail.Head().String(), Pruned: b.Pruned.Head}, nil
}

// VerifyAsk asks whether the lines are as they were written.
type VerifyAsk struct {
	After string `json:"after,omitempty" doc:"go on behind this line, as next of the answer before has it; empty: from the oldest one"`
	Head  string `json:"head,omitempty" doc:"a head that was kept: the lines must reach it, and be the same up to it"`
}

// VerifyAnswer is what was found.
type VerifyAnswer struct {
	Lines  int64  `json:"lines" doc:"how many lines were right"`
	First  int64  `json:"first,omitempty" doc:"number of the first of them"`
	Head   string `json:"head,omitempty" doc:"number and hash of the last of them: SEQ:HASH"`
	Next   string `json:"next,omitempty" doc:"ask again after this one; empty: these were all"`
	Fault  string `json:"fault,omitempty" doc:"what is wrong; empty: nothing"`
	Line   int64  `json:"line,omitempty" doc:"number of the line that was changed or is gone"`
	Pruned int64  `json:"pruned,omitempty" doc:"up to which line these lines say that lines were removed for their age or for lack of room: of all parts together it has to be the one before the first"`
}

// Verify checks lines, some 100,000 at a time.
func (a *Audit) Verify(ctx context.Context, _ *access.Actor, q *VerifyAsk) (*VerifyAnswer, error) {
	if err := a.refusal(); err != nil {
		return nil, err
	}
	for {
		b, err := a.booksNow()
		if err != nil {
			return nil, err
		}
		answer, err := a.verify(ctx, q, &b)
		if err != nil || answer.Fault == "" {
			return answer, err
		}
		if now, err := a.booksNow(); err != nil || now.Pruned == b.Pruned { // else lines were removed meanwhile
			return answer, err
		}
	}
}

func (a *Audit) verify(ctx context.Context, q *VerifyAsk, b *books) (*VerifyAnswer, error) {
	newest := a.cfg.Trail.Head() // before reading: later lines may be there, earlier ones must
	c := Checker{Head: b.Pruned.head(), Kept: []Head{newest}}
	for i := range b.Segments {
		c.Kept = append(c.Kept, b.Segments[i].head())
	}
	oldest := c.Head
	if err := c.Expect(q.After, q.Head); err != nil {
		return nil, err
	}
	if c.Head.Seq < oldest.Seq { // what was to come next was removed meanwhile
		c.Head = oldest
	}
	c.Whole = c.Head == Head{}
	if q.After == "" {
		c.Gone = c.Head.Seq
	}
	more, err := a.check(ctx, &c)
	answer := &VerifyAnswer{Lines: c.Lines, First: c.First, Head: c.Head.String(), Pruned: c.Pruned}
	if err == nil && !more {
		err = c.End()
	}
	if fault := FaultOf(err); fault != nil {
		answer.Fault, answer.Line, err = fault.Text, fault.Seq, nil
	} else if more {
		answer.Next = answer.Head
	}
	return answer, err
}

// check has a checker see lines, until it has seen enough; more: there are further ones.
func (a *Audit) check(ctx context.Context, c *Checker) (more bool, err error) {
	for {
		block, err := a.Read(ctx, c.Head.Seq)
		if err != nil || len(block.Lines) == 0 {
			return false, err
		}
		for _, text := range Lines(block.Lines) {
			if err := c.Add(text); err != nil {
				return false, err
			}
		}
		if c.Lines >= mostVerified {
			return true, nil
		}
	}
}
