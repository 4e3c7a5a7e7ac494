package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/codes"
)

func event(i int) *access.Event {
	return &access.Event{Kind: access.EventChange, Do: "put", What: []string{fmt.Sprintf("kv:ns/%d", i)}, By: &access.Actor{Name: "n", Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: &access.Identity{Name: "token:game"}}}
}

// chain is n lines, and their heads.
func chain(n int) (lines [][]byte, heads []audit.Head) {
	var head audit.Head
	for i := range n {
		l := audit.LineOf(event(i), int64(1000+i), int64(i+1))
		var text []byte
		text, head = head.Next(nil, &l)
		lines, heads = append(lines, bytes.TrimSuffix(text, []byte("\n"))), append(heads, head)
	}
	return lines, heads
}

func check(c audit.Checker, lines [][]byte) (audit.Checker, error) {
	for _, line := range lines {
		if err := c.Add(line); err != nil {
			return c, err
		}
	}
	return c, c.End()
}

func TestLinesThatAreAsTheyWereWrittenAreRight(t *testing.T) {
	lines, heads := chain(5)
	c, err := check(audit.Checker{Whole: true, Kept: heads}, lines)
	require.NoError(t, err)
	require.EqualValues(t, 5, c.Lines)
	require.EqualValues(t, 1, c.First)
	require.Equal(t, heads[4], c.Head)
	c, err = check(audit.Checker{Head: heads[1], Kept: heads}, lines[2:])
	require.NoError(t, err)
	require.EqualValues(t, 3, c.First)
	c, err = check(audit.Checker{}, lines[3:])
	require.EqualError(t, audit.FaultOf(err), "lines 1 to 3 are gone, and no line says that they were removed for their age; if the lines go on behind those of another file, verify them after its head")
	require.EqualValues(t, 1, audit.FaultOf(err).Seq)
	require.EqualValues(t, 4, c.First)
	_, err = check(audit.Checker{Whole: true}, lines[3:])
	require.EqualValues(t, 1, audit.FaultOf(err).Seq)
	_, err = check(audit.Checker{Head: heads[0]}, lines[2:])
	require.EqualValues(t, 2, audit.FaultOf(err).Seq)
	require.EqualError(t, audit.FaultOf(err), "line 2 is gone: line 3 comes next")
	require.Equal(t, codes.Storage, codes.Of(err))
	require.Nil(t, audit.FaultOf(codes.Storage))
}

// A chain begins later than with line 1 only where a line of it says so.
func TestALateBeginningIsExplainedByALine(t *testing.T) {
	for what, c := range map[string]struct {
		event access.Event
		right bool
	}{
		"all":         {access.Event{Kind: access.EventPruned, What: []string{audit.Removed(1, 3)}}, true},
		"more":        {access.Event{Kind: access.EventPruned, What: []string{audit.Removed(2, 9)}}, true},
		"fewer":       {access.Event{Kind: access.EventPruned, What: []string{audit.Removed(1, 2)}}, false},
		"none":        {access.Event{Kind: access.EventPruned}, false},
		"odd":         {access.Event{Kind: access.EventPruned, What: []string{"audit:1-3x"}}, false},
		"another":     {access.Event{Kind: access.EventChange, What: []string{audit.Removed(1, 3)}}, false},
		"not removed": {access.Event{Kind: access.EventPruned, Outcome: codes.Storage, What: []string{audit.Removed(1, 3)}}, false},
	} {
		lines, heads := chain(5)
		l := audit.LineOf(&c.event, 9, 0)
		text, _ := heads[4].Next(nil, &l)
		lines = append(lines, bytes.TrimSuffix(text, []byte("\n")))
		for _, from := range []int{0, 3} {
			got, err := check(audit.Checker{}, lines[from:])
			require.Equal(t, c.right || from == 0, err == nil, "%s from %d: %v", what, from, err)
			require.EqualValues(t, from, got.Gone)
		}
		_, err := check(audit.Checker{Head: heads[2]}, lines[3:])
		require.NoError(t, err, "it goes on behind a head that was kept")
	}
}

func TestAChangedNumberIsFoundWhereItStands(t *testing.T) {
	lines, _ := chain(3)
	lines[2] = bytes.Replace(lines[2], []byte(`:3,`), []byte(`:1,`), 1)
	_, err := check(audit.Checker{Whole: true}, lines)
	require.EqualError(t, err, "line 1 comes where line 3 should: its number was changed, it was moved, or is there twice")
	require.EqualValues(t, 3, audit.FaultOf(err).Seq)
}

// Whatever single bit is changed, line removed, doubled or moved: it is found, and the number that is
// named is that of the line or of the one that comes in its place.
func TestEachChangeOfTheLinesIsFound(t *testing.T) {
	lines, heads := chain(7)
	head := heads[len(heads)-1]
	rapid.Check(t, func(t *rapid.T) {
		damaged := slices.Clone(lines)
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		seq := int64(at + 1)
		switch rapid.SampledFrom([]string{"flip", "remove", "twice", "swap", "cut", "insert"}).Draw(t, "how") {
		case "flip":
			line := bytes.Clone(damaged[at])
			line[rapid.IntRange(0, len(line)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			damaged[at] = line
		case "remove":
			damaged = slices.Delete(damaged, at, at+1)
		case "twice":
			damaged = slices.Insert(damaged, at, damaged[at])
		case "swap":
			to := rapid.IntRange(0, len(lines)-1).Filter(func(i int) bool { return i != at }).Draw(t, "to")
			damaged[at], damaged[to] = damaged[to], damaged[at]
			seq = int64(min(at, to) + 1)
		case "cut":
			damaged = damaged[:at]
		case "insert":
			l := audit.LineOf(event(100), 1, 1)
			l.Seq, l.Prev = seq, strings.Repeat("0", 64)
			damaged = slices.Insert(damaged, at, l.Append(nil))
		}
		_, err := check(audit.Checker{Whole: true, Kept: []audit.Head{head}}, damaged)
		fault := audit.FaultOf(err)
		require.NotNil(t, fault, "%v", err)
		require.InDelta(t, seq, fault.Seq, 1, fault.Text)
	})
}

func TestALineIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		e := access.Event{
			Kind: rapid.SampledFrom(access.EventKinds()).Draw(t, "kind"), Do: text.Draw(t, "do"), What: rapid.SliceOf(text).Draw(t, "what"),
			Outcome: rapid.SampledFrom([]codes.Code{codes.OK, codes.Forbidden}).Draw(t, "outcome"), Count: int64(rapid.Int32().Draw(t, "count")),
			By: &access.Actor{Name: text.Draw(t, "name"), Author: text.Draw(t, "author"), Address: text.Draw(t, "address"), Identity: &access.Identity{Name: text.Draw(t, "identity")}},
		}
		l := audit.LineOf(&e, 5, 7)
		text1, _ := audit.Head{Seq: 3}.Next(nil, &l)
		got, err := audit.ParseLine(bytes.TrimSuffix(text1, []byte("\n")))
		require.NoError(t, err, string(text1))
		require.Equal(t, l, got)
		require.NotContains(t, string(bytes.TrimSuffix(text1, []byte("\n"))), "\n")
	})
}

// Names come from peers.
func TestALineIsBounded(t *testing.T) {
	long := strings.Repeat("a\x1b", 1<<20)
	e := access.Event{Kind: access.EventDenied, Do: long, Outcome: codes.Forbidden, By: &access.Actor{Name: long, Author: long, Origin: long, Address: long, Identity: &access.Identity{Name: long}}}
	for range 1000 {
		e.What = append(e.What, long)
	}
	l := audit.LineOf(&e, 1<<62, 1<<62)
	l.Seq, l.Prev, l.Count, l.Since = 1<<62, strings.Repeat("0", 64), 1<<62, 1<<62
	require.Len(t, l.What, audit.MostNames)
	require.EqualValues(t, 1000-audit.MostNames, l.More)
	require.Less(t, len(l.Append(nil)), audit.MostLine)
	require.NotContains(t, l.Who+l.Says+l.From+l.What[0], "\x1b")
	require.Equal(t, "forbidden", l.Outcome)
	require.Equal(t, "ok", (func() audit.Line { return audit.LineOf(event(1), 1, 1) })().Outcome)
}

func TestOnlyHeadsAreReadAsSuch(t *testing.T) {
	_, heads := chain(1)
	h, err := audit.ParseHead(heads[0].String())
	require.NoError(t, err)
	require.Equal(t, heads[0], h)
	for _, text := range []string{"", "1", "1:", "1:aa", "x" + heads[0].String(), heads[0].String() + "0", strings.ToUpper(heads[0].String()), "0" + heads[0].String()} {
		_, err := audit.ParseHead(text)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
	var c audit.Checker
	require.Error(t, c.Expect("x", ""))
	require.Error(t, c.Expect("", "x"))
	require.NoError(t, c.Expect(heads[0].String(), "9"+heads[0].String()[1:]))
	require.ErrorContains(t, c.End(), "line 2 is gone, and so are all behind it")
}

func TestAFileIsChecked(t *testing.T) {
	lines, heads := chain(3)
	text := append(bytes.Join(lines, []byte("\n")), '\n')
	c := audit.Checker{Kept: heads[2:]}
	require.NoError(t, c.ReadAll(bytes.NewReader(text)))
	require.EqualValues(t, 3, c.Lines)
	c = audit.Checker{Kept: heads[2:]}
	require.ErrorContains(t, c.ReadAll(bytes.NewReader(text[:len(lines[0])+1+len(lines[1])+1])), "line 3 is gone")
	c = audit.Checker{}
	require.ErrorContains(t, c.ReadAll(strings.NewReader(strings.Repeat("x", audit.MostLine+10))), "longer than any line")
	c = audit.Checker{}
	require.ErrorContains(t, c.ReadAll(strings.NewReader("x")), "the first line is damaged")
}

func blocks(t *testing.T, tr *audit.Trail, from, n int) {
	tr.Begin()
	for i := range n {
		tr.Add(event(from+i), 1, int64(from+i))
	}
	for _, b := range tr.Blocks() {
		require.NoError(t, tr.Published(b.Key(), b.Lines))
	}
}

func TestATrailGoesOnBehindWhatIsDurable(t *testing.T) {
	tr := audit.New(1 << 20)
	news, stop := tr.Follow()
	defer stop()
	blocks(t, tr, 0, 3)
	<-news
	require.EqualValues(t, 3, tr.Head().Seq)
	before := tr.Head()
	tr.Begin()
	tr.Add(event(9), 1, 1) // a group that did not become durable
	require.Equal(t, before, tr.Head())
	blocks(t, tr, 3, 2)
	var c audit.Checker
	for at := int64(0); at < 5; {
		b, ok := tr.Since(at)
		require.True(t, ok)
		for _, line := range audit.Lines(b.Lines) {
			require.NoError(t, c.Add(line))
		}
		require.Equal(t, at+1, b.First)
		at = b.Last
	}
	require.Equal(t, tr.Head(), c.Head)
	b, ok := tr.Since(5)
	require.True(t, ok)
	require.Empty(t, b.Lines)
	lines, size := tr.Written()
	require.EqualValues(t, 5, lines)
	require.Positive(t, size)

	again := audit.New(1)
	again.Resume(tr.Head())
	_, ok = again.Since(4)
	require.False(t, ok, "that is in the store only")
	blocks(t, again, 5, 1)
	blocks(t, again, 6, 1)
	_, ok = again.Since(5)
	require.False(t, ok, "memory is bounded")
	b, ok = again.Since(6)
	require.True(t, ok)
	require.EqualValues(t, 7, b.Last)
}

// What another has written in the meantime counts, also if it is as many lines as were lost.
func TestATrailGoesOnBehindWhatOthersWrote(t *testing.T) {
	tr, other := audit.New(1<<20), audit.New(1<<20)
	tr.Begin()
	tr.Add(event(1), 1, 1)
	require.Len(t, tr.Blocks(), 1, "which are not written")
	other.Begin()
	other.Add(event(2), 2, 2)
	written := other.Blocks()[0]
	require.NoError(t, tr.Published(written.Key(), written.Lines))
	tr.Begin()
	tr.Add(event(3), 3, 3)
	c := audit.Checker{Whole: true}
	for _, b := range []audit.Block{written, tr.Blocks()[0]} {
		require.NoError(t, c.Add(audit.Lines(b.Lines)[0]))
	}
}

func TestLargeGroupsHaveSeveralBlocks(t *testing.T) {
	tr := audit.New(1 << 20)
	tr.Begin()
	for i := range 2000 {
		tr.Add(event(i), 1, 1)
	}
	list := tr.Blocks()
	require.Greater(t, len(list), 1)
	due := int64(1)
	for _, b := range list {
		require.Less(t, len(b.Lines), 200<<10)
		got, head, err := audit.ParseBlock(b.Key(), b.Lines)
		require.NoError(t, err)
		require.Equal(t, b, got)
		require.Equal(t, due, got.First)
		require.Equal(t, b.Last, head.Seq)
		due = got.Last + 1
	}
	require.EqualValues(t, 2001, due)
	for key, lines := range map[string]string{"": "x\n", "x": "x\n", list[0].Key(): "x", "0000000000000001": "a\nb\n", "0000000000000002": ""} {
		_, _, err := audit.ParseBlock(key, []byte(lines))
		require.Equal(t, codes.Storage, codes.Of(err), key)
	}
}

func FuzzLine(f *testing.F) {
	lines, heads := chain(3)
	for _, line := range lines {
		f.Add(line)
	}
	f.Add([]byte(`{"seq":1}`))
	f.Add([]byte(`{"seq":1e0,"prev":"","time":1,"kind":"x","outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := audit.ParseLine(b)
		if err == nil {
			require.Equal(t, string(b), string(l.Append(nil)), "there is one way to write a line")
		}
		c := audit.Checker{Head: heads[0]}
		if c.Add(b) == nil {
			require.EqualValues(t, 2, c.Head.Seq)
		}
		_ = (&audit.Checker{}).ReadAll(bytes.NewReader(b))
		_, _, _ = audit.ParseBlock("0000000000000002", b)
	})
}

func BenchmarkAdd(b *testing.B) {
	tr, e := audit.New(1<<20), event(1)
	b.ReportAllocs()
	for i := range b.N {
		if i%256 == 0 {
			tr.Begin()
		}
		tr.Add(e, 1, 1)
	}
}
