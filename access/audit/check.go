package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"confcenter/codes"
)

// Checker finds out whether lines are all there, in order, as they were written.
type Checker struct {
	// Head is that of the last line. Before the first it may be set to the one that must come
	// before; with the zero Head a chain may begin where lines say that those before were removed.
	Head  Head
	Whole bool // the first line must be the very first
	// Kept are heads that were kept elsewhere.
	Kept []Head

	// Gone is up to which line there are none, which one of the lines has to say; 0: nothing is missing.
	// Of a chain that begins later than with line 1 Add sets it.
	Gone   int64
	Pruned int64 // up to which line the lines say that they were removed

	Lines int64 // that were right
	First int64 // the number of the first of them
}

// Broken is why lines are not as they were written.
type Broken struct {
	Seq  int64 // of the line that is wrong or, if it is gone, was to come
	Text string
}

// Error implements error.
func (b *Broken) Error() string { return b.Text }

func broken(seq int64, format string, args ...any) error {
	err := codes.Errorf(codes.Storage, format, args...)
	err.Err = &Broken{Seq: seq, Text: err.Text}
	return err
}

// Add checks the next line, without its line feed. codes.Storage, with a [Broken] as its cause.
//
// That a line was changed shows in the one behind it, and of the last one only in a Head that was
// kept elsewhere.
func (c *Checker) Add(b []byte) error {
	due := c.Head.Seq + 1
	l, err := ParseLine(b)
	if err != nil {
		if c.Head.Seq == 0 {
			return broken(due, "the first line is damaged: %s", codes.Message(err))
		}
		return broken(due, "line %d was changed: %s", due, codes.Message(err))
	}
	var prev [sha256.Size]byte
	size := hex.EncodedLen(len(prev))
	if _, err := hex.Decode(prev[:], []byte(l.Prev)[:min(size, len(l.Prev))]); err != nil || len(l.Prev) != size {
		return broken(l.Seq, "line %d was changed: its prev is no hash", l.Seq)
	}
	first := c.Lines == 0 && c.Head == Head{}
	switch {
	case l.Seq <= 0:
		return broken(due, "line %d was changed: its number is not above 0", due)
	case first && c.Whole && l.Seq > 1:
		return broken(1, "line 1 is gone: line %d comes first", l.Seq)
	case first && (l.Seq == 1) != (prev == Head{}.Hash):
		return broken(l.Seq, "line %d was changed: only the first line has no line before it", l.Seq)
	case first:
		c.Gone = l.Seq - 1
	case l.Seq > due:
		return broken(due, "line %d is gone: line %d comes next", due, l.Seq)
	case l.Seq < due:
		// Its number may be what was changed, so it does not say where.
		return broken(due, "line %d comes where line %d should: its number was changed, it was moved, or is there twice", l.Seq, due)
	case !bytes.Equal(prev[:], c.Head.Hash[:]):
		return broken(c.Head.Seq, "line %d was changed: line %d has another hash of it", c.Head.Seq, l.Seq)
	}
	if c.Lines == 0 {
		c.First = l.Seq
	}
	c.Head = Head{Seq: l.Seq, Hash: sha256.Sum256(b)}
	c.Lines++
	c.Pruned = max(c.Pruned, l.pruned())
	for _, kept := range c.Kept {
		if kept.Seq == l.Seq && kept != c.Head {
			return broken(l.Seq, "line %d was changed: it had another hash", l.Seq)
		}
	}
	return nil
}

// End checks that the lines reach all the heads that were kept elsewhere, and say of those that are
// missing at the beginning that they were removed.
func (c *Checker) End() error {
	if c.Gone > c.Pruned {
		return Unexplained(c.Pruned, c.Gone)
	}
	for _, kept := range c.Kept {
		if kept.Seq > c.Head.Seq {
			return broken(c.Head.Seq+1, "line %d is gone, and so are all behind it: there were %d", c.Head.Seq+1, kept.Seq)
		}
	}
	return nil
}

// Unexplained is what is wrong with lines behind gone of which none says that more than those up to pruned
// were removed. codes.Storage, with a [Broken] as its cause.
func Unexplained(pruned, gone int64) error {
	return broken(pruned+1, "lines %d to %d are gone, and no line says that they were removed for their age; if the lines go on behind those of another file, verify them after its head", pruned+1, gone)
}

// FaultOf is what Add or End found to be wrong; nil if err is something else.
func FaultOf(err error) *Broken {
	b, _ := errors.AsType[*Broken](err)
	return b
}

// Expect has the checker begin behind one head, and meet another one that was kept elsewhere, as
// Head writes them; either may be empty. codes.BadRequest.
func (c *Checker) Expect(after, kept string) error {
	if after != "" {
		h, err := ParseHead(after)
		if err != nil {
			return err
		}
		c.Head = h
	}
	if kept != "" {
		h, err := ParseHead(kept)
		if err != nil {
			return err
		}
		c.Kept = append(c.Kept, h)
	}
	return nil
}

// ReadAll checks lines up to the end of in.
func (c *Checker) ReadAll(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MostLine+1)
	for lines.Scan() {
		if err := c.Add(lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return broken(c.Head.Seq+1, "line %d was changed: it is longer than any line is", c.Head.Seq+1)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return c.End()
}
