package landingtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var coldChecks = []check{
	{"H18ARemovedFieldIsAbsentWhenItIsCold", h18ARemovedFieldIsAbsentWhenItIsCold},
	{"H19OnlyTheFieldAskedForIsLoaded", h19OnlyTheFieldAskedForIsLoaded},
	{"H20AColdOwnerIsLoadedAsAWholeOnce", h20AColdOwnerIsLoadedAsAWholeOnce},
	{"H21AFullLoadLeavesANewerField", h21AFullLoadLeavesANewerField},
	{"H22AColdNumberIsIncrementedFromWhatItWas", h22AColdNumberIsIncrementedFromWhatItWas},
	{"H1ANewOwnerIsNotLookedForInTheDatabase", h1ANewOwnerIsNotLookedForInTheDatabase},
	{"H6AndH7AnyNameAndAnyValueComesBackFromTheDatabase", h6AndH7AnyNameAndAnyValueComesBackFromTheDatabase},
	{"WhatCannotBeIsNotLookedForInTheDatabase", whatCannotBeIsNotLookedForInTheDatabase},
	{"OwnersTooLargeToBeLoadedAsAWholeAreReadAndWrittenByFields", ownersTooLargeToBeLoadedAsAWholeAreReadAndWrittenByFields},
	{"LargeOwnersAreLoadedOneAtATime", largeOwnersAreLoadedOneAtATime},
}

func h18ARemovedFieldIsAbsentWhenItIsCold(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": "1", "b": "2"})
	p.do(t, &field.Write{Kind: field.Remove, Names: []string{"a"}})
	p.chill(t)
	require.True(t, p.in(t, "a").Removed)
	require.Equal(t, map[string]string{"b": "2"}, p.get(t, Player, "a", "b", "nope"))
	require.Equal(t, map[string]string{"b": "2"}, p.all(t, Player))
	require.Equal(t, []string{"fields a b nope", "all"}, p.asked.since(), "it was the database that said so")
}

func h19OnlyTheFieldAskedForIsLoaded(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": "1", "b": "2"})
	p.chill(t)
	require.False(t, p.warm(Player, "a"), "it is not in memory")
	require.Equal(t, map[string]string{"a": "1"}, p.get(t, Player, "a"))
	require.Equal(t, []string{"fields a"}, p.asked.since())
	require.True(t, p.warm(Player, "a"))
	require.False(t, p.warm(Player, "b"), "nobody has asked for it")
}

func h20AColdOwnerIsLoadedAsAWholeOnce(t *testing.T, d *Database) {
	p := playOn(t, d)
	want := map[string]string{}
	for i := range 100 {
		want[fmt.Sprint("f", i)] = fmt.Sprint(i)
	}
	p.updateOf(t, Player, want)
	p.chill(t)
	require.Equal(t, want, p.all(t, Player))
	require.Equal(t, []string{"all"}, p.asked.since())
	require.Equal(t, want, p.all(t, Player))
	require.Equal(t, map[string]string{"f7": "7"}, p.get(t, Player, "f7", "nope"))
	require.Empty(t, p.asked.since())
}

func h21AFullLoadLeavesANewerField(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": "1", "b": "1"})
	p.chill(t)
	p.update(t, "a", "2")
	require.Empty(t, p.asked.since(), "an update need not look")
	require.Equal(t, map[string]string{"a": "2", "b": "1"}, p.all(t, Player))
	require.Equal(t, []string{"all"}, p.asked.since())
	require.Equal(t, map[string]string{"a": "2", "b": "1"}, p.get(t, Player, "a", "b"))
	p.chill(t)
	require.Equal(t, "2", string(p.in(t, "a").Value))
	require.Equal(t, map[string]string{"a": "2", "b": "1"}, p.all(t, Player))
}

func h22AColdNumberIsIncrementedFromWhatItWas(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"n": "7", "max": "9223372036854775807", "text": "07", "gone": "10"})
	p.do(t, &field.Write{Kind: field.Remove, Names: []string{"gone"}})
	p.chill(t)
	require.Equal(t, "8", p.incr(t, "n", 1))
	require.Equal(t, "3", p.incr(t, "gone", 3), "a removed one counts from 0")
	for name, code := range map[string]codes.Code{"max": codes.Overflow, "text": codes.WrongType} {
		_, err := p.try(&field.Write{Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}, {Name: name, By: 1}}})
		require.ErrorIs(t, err, code)
		require.ErrorContains(t, err, name)
	}
	p.chill(t)
	require.Equal(t, "8", string(p.in(t, "n").Value))
	require.Equal(t, "3", string(p.in(t, "gone").Value))
	require.False(t, p.in(t, "gone").Removed)
	require.Equal(t, "9", p.incr(t, "n", 1))
}

// H1: an owner that was never written costs no query, also while the database has others.
func h1ANewOwnerIsNotLookedForInTheDatabase(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.update(t, "a", "1")
	p.chill(t)
	other := Player
	for i := range 100 {
		other.ID = fmt.Sprint("new", i)
		require.Empty(t, p.get(t, other, "a", "b"))
		require.Empty(t, p.all(t, other))
	}
	require.Empty(t, p.asked.since())
}

func h6AndH7AnyNameAndAnyValueComesBackFromTheDatabase(t *testing.T, d *Database) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b), '\\', '\'', 0)
	}
	long := strings.Repeat("é", 50) // 100 bytes
	parts := []string{"a", "A", "a ", " a", "á", "a\u0301", "&", ":", "::", "a:b", "%", "%3A", "_", "'", "\"", "`", "\\", "{", "}", "--", "?", "$1", "😀", "\n", "\x7f", "\u0085", "\ufffd", "\U0010ffff", long}
	values := []string{"", string(every), "\x00", ":delFlag", "NULL", "-9223372036854775808", "9223372036854775808", "é😀"}
	p := playOn(t, d)
	want := map[field.Owner]map[string]string{}
	for i, part := range parts {
		other := parts[(i+1)%len(parts)]
		for _, o := range []field.Owner{
			{App: "1", Region: "1", Logic: part, ID: other}, {App: "1", Region: "1", Logic: other, ID: part},
			{App: part[:min(len(part), 4)], Region: "r", Logic: "l", ID: "o"}, {App: "r", Region: part[:min(len(part), 4)], Logic: "l", ID: "o"},
		} {
			want[o] = map[string]string{part: values[i%len(values)], other: fmt.Sprint(o), "k": "v"}
		}
	}
	for o, fields := range want {
		p.updateOf(t, o, fields)
	}
	p.chill(t)
	for o, fields := range want {
		require.Equal(t, fields, p.all(t, o), "%q", o)
	}
	require.Len(t, p.asked.since(), len(want))
	q := playOn(t, d) // has lost its data directory
	for o, fields := range want {
		for name, value := range fields {
			require.Equal(t, map[string]string{name: value}, q.get(t, o, name), "%q", o)
		}
	}
	require.Len(t, q.asked.since(), 3*len(want))
}

// Whatever is asked for, the database gets no query that it cannot answer.
func whatCannotBeIsNotLookedForInTheDatabase(t *testing.T, d *Database) {
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": "1"})
	p.chill(t)
	for _, name := range []string{"\xff", "a\x00", "", strings.Repeat("x", 1000)} {
		require.Equal(t, map[string]string{"a": "1"}, p.get(t, Player, name, "a"), "%q", name)
	}
	require.NotContains(t, fmt.Sprintf("%q", p.asked.since()), `\`)
	for _, bad := range []string{"\xff", "a\x00"} {
		o := Player
		o.ID = bad
		_, err := p.Load(ctx, o, []string{"a"})
		require.ErrorIs(t, err, codes.BadKey)
		_, err = p.GetAll(ctx, o, field.Ask{})
		require.ErrorIs(t, err, codes.BadKey)
		_, _, err = p.Owners(ctx, "1", "1", bad, "", 10)
		require.ErrorIs(t, err, codes.BadKey)
		_, err = p.Count(ctx, "1", "1", bad)
		require.ErrorIs(t, err, codes.BadKey)
		_, _, err = p.Owners(ctx, "1", "1", "", bad, 10)
		require.ErrorIs(t, err, codes.BadKey)
	}
}

func ownersTooLargeToBeLoadedAsAWholeAreReadAndWrittenByFields(t *testing.T, d *Database) {
	large := make(chan struct{}, 1)
	d = d.With(func(p *landing.Parts) { p.MaxOwner, p.Large = 100_000, large })
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": strings.Repeat("a", 60_000), "b": strings.Repeat("b", 60_000), "n": "1"})
	p.chill(t)
	_, err := p.GetAll(t.Context(), Player, field.Ask{})
	require.ErrorIs(t, err, codes.TooLarge)
	require.ErrorContains(t, err, "ask for some of its fields only")
	require.Len(t, p.get(t, Player, "a")["a"], 60_000)
	p.asked.since()
	out := p.do(t, &field.Write{Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}}})
	require.Equal(t, "2", string(out.Fields[0].Value))
	require.Equal(t, []string{"all", "fields n"}, p.asked.since())
	require.Empty(t, large)
}

// What many load at the same time would be more than the memory that there is.
func largeOwnersAreLoadedOneAtATime(t *testing.T, d *Database) {
	large := make(chan struct{}, 1)
	d = d.With(func(p *landing.Parts) { p.Large = large })
	p := playOn(t, d)
	p.updateOf(t, Player, map[string]string{"a": strings.Repeat("a", kv.MaxValue), "b": "2"})
	p.land(t)
	large <- struct{}{} // someone else
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.All(ctx, Player)
	require.Error(t, err, "it waits")
	<-large
	rows, err := d.All(t.Context(), Player)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Empty(t, large)
}
