package landingtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var storageChecks = []check{
	{"H12ManyIncrementsAreLandedAsTheirSum", h12ManyIncrementsAreLandedAsTheirSum},
	{"H23AThousandUpdatesAreOneRow", h23AThousandUpdatesAreOneRow},
	{"H27ReadsNeverFailWhileTheDatabaseIsAway", h27ReadsNeverFailWhileTheDatabaseIsAway},
	{"H34AFieldRemovedWhileItIsBeingLanded", h34AFieldRemovedWhileItIsBeingLanded},
	{"H36AValueOfAMebibyteIsLandedWholeAndALongerOneRefused", h36AValueOfAMebibyteIsLandedWholeAndALongerOneRefused},
	{"H34RemovedFieldsAreLandedWithTheirLastValue", h34RemovedFieldsAreLandedWithTheirLastValue},
	{"ALostDataDirectoryLandsAboveTheDatabase", aLostDataDirectoryLandsAboveTheDatabase},
	{"H26ARefusedFieldIsRetriedByItself", h26ARefusedFieldIsRetriedByItself},
}

func h12ManyIncrementsAreLandedAsTheirSum(t *testing.T, d *Database) {
	p := playOn(t, d)
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			for range 200 {
				p.incr(t, "n", 1)
			}
		})
	}
	clients.Wait()
	p.land(t)
	require.Equal(t, "10000", string(p.in(t, "n").Value))
}

func h23AThousandUpdatesAreOneRow(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.l.Clock.BlockUntil(1) // its first round is over
	for i := range 1000 {
		p.update(t, "a", fmt.Sprint(i))
	}
	p.land(t)
	require.Equal(t, "999", string(p.in(t, "a").Value))
	require.EqualValues(t, 1, p.l.Readings().Get("landing_rows_total"))
}

func h27ReadsNeverFailWhileTheDatabaseIsAway(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.settle(t)
	p.update(t, "before", "1")
	p.land(t)
	back := d.Kind.Away(t, d)
	for i := range 60 {
		name := fmt.Sprint("f", i)
		p.updateOf(t, Player, map[string]string{name: "while it was away", "last": name})
		p.incr(t, "n", 1)
		if i%3 == 0 {
			p.do(t, &field.Write{Kind: field.Remove, Names: []string{name}})
		}
		require.Equal(t, map[string]string{"last": name, "n": fmt.Sprint(i + 1)}, p.get(t, Player, "last", "n"))
		p.clock.Advance(time.Second)
	}
	p.l.Pass(t, "it has tried", func() bool { return p.l.Readings().Get("landing_failures_total") >= 3 })
	require.EqualValues(t, 62, p.Status()[0].Dirty)
	require.Zero(t, p.Status()[0].Refused)
	back()
	p.land(t)
	require.Equal(t, "60", string(p.in(t, "n").Value))
	require.Equal(t, "f59", string(p.in(t, "last").Value))
	for i := range 60 {
		row := p.in(t, fmt.Sprint("f", i))
		require.Equal(t, i%3 == 0, row.Removed)
		require.Equal(t, "while it was away", string(row.Value))
	}
}

func h34AFieldRemovedWhileItIsBeingLanded(t *testing.T, d *Database) {
	var p *play
	var halfWay field.Row
	removed := make(chan struct{})
	steps := []func(){
		func() {
			p.do(t, &field.Write{Kind: field.Remove, Names: []string{"a"}})
			close(removed)
		},
		func() { halfWay = p.in(t, "a") },
	}
	p = playWith(t, d, func(s landing.Source) landing.Source { return &between{s, steps} })
	p.l.Clock.BlockUntil(1) // its first round is over
	p.update(t, "a", "last")
	p.l.Clock.Advance(10 * time.Second)
	<-removed
	p.land(t)
	require.Equal(t, "last false 0", fmt.Sprint(string(halfWay.Value), " ", halfWay.Removed, " ", halfWay.RemovedAt))
	gone := p.in(t, "a")
	require.Equal(t, fmt.Sprint("last true ", p.clock.Now().UnixMilli()), fmt.Sprint(string(gone.Value), " ", gone.Removed, " ", gone.RemovedAt))
}

func h36AValueOfAMebibyteIsLandedWholeAndALongerOneRefused(t *testing.T, d *Database) {
	p := playOn(t, d)
	for _, letter := range []string{"x", "'", "\x00"} { // quoted, they are longer
		whole := strings.Repeat(letter, kv.MaxValue)
		p.update(t, "a", whole)
		p.land(t)
		require.True(t, whole == string(p.in(t, "a").Value))
		_, err := p.try(&field.Write{Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte(whole + letter)}}})
		require.ErrorIs(t, err, codes.TooLarge)
	}
	require.Equal(t, 1<<20, kv.MaxValue)
	require.Zero(t, p.Status()[0].Refused)
}

// H15, H17 and H34, with the storage's own rows.
func h34RemovedFieldsAreLandedWithTheirLastValue(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.update(t, "a", "1")
	p.update(t, "binary", "\x00\xff")
	p.clock.Advance(time.Second)
	p.do(t, &field.Write{Kind: field.Remove, Names: []string{"a", "nope"}})
	p.land(t)
	gone := p.in(t, "a")
	require.True(t, gone.Removed)
	require.Equal(t, p.clock.Now().UnixMilli(), gone.RemovedAt)
	require.Equal(t, "1", string(gone.Value))
	require.Equal(t, "\x00\xff", string(p.in(t, "binary").Value))
	p.update(t, "a", "new")
	p.land(t)
	back := p.in(t, "a")
	require.Equal(t, "new 0 false", fmt.Sprint(string(back.Value), " ", back.RemovedAt, " ", back.Removed))
	require.Greater(t, back.Version, gone.Version)
	require.Equal(t, gone.Created, back.Created, "when it came into the database")
}

// A data directory that is lost begins anew above what the database has.
func aLostDataDirectoryLandsAboveTheDatabase(t *testing.T, d *Database) {
	const future = int64(1) << 61
	Write(t, d, Row(Player, "a", "of an earlier life", future))
	p := playOn(t, d)
	p.update(t, "a", "of this life")
	p.land(t)
	require.Equal(t, "of this life", string(p.in(t, "a").Value))
	require.Greater(t, p.in(t, "a").Version, future)
}

func h26ARefusedFieldIsRetriedByItself(t *testing.T, d *Database) {
	poison(t, d)
	p := playOn(t, d)
	p.update(t, "good", "1")
	p.update(t, "bad", "poison")
	p.land(t)
	require.EqualValues(t, 1, p.Status()[0].Refused)
	require.Equal(t, "1", string(p.in(t, "good").Value))
	list, _ := p.Errors(field.Ref{}, 10)
	require.Len(t, list, 1)
	require.Equal(t, "bad", list[0].Name)
	require.Contains(t, list[0].Reason, "antidote")
	heal(t, d)
	p.l.Pass(t, "it is landed", func() bool {
		p.clock.Advance(time.Second)
		return p.Status()[0].Refused == 0
	})
	require.Equal(t, "poison", string(p.in(t, "bad").Value))
}

// between has functions called each when a batch was taken, before it is written.
type between struct {
	landing.Source
	next []func()
}

func (b *between) Dirty(ctx context.Context, table, limit int) (*field.Batch, error) {
	batch, err := b.Source.Dirty(ctx, table, limit)
	if batch != nil && len(b.next) > 0 {
		do := b.next[0]
		b.next = b.next[1:]
		do()
	}
	return batch, err
}
