package confstore

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kvstore/memory"
)

const oneDay = 86_400

func TestGivenMtimeMoreThanADayAheadIsRefused(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	now := int32(noon.Unix())
	for _, text := range []string{`2`, ``, `1`} {
		r, err := m.setAt("a.json", text, now+oneDay+1)
		require.ErrorIs(t, err, codes.BadRequest)
		require.ErrorContains(t, err, fmt.Sprintf("a.json: mtime %d is 2023-11-15T22:13:21Z, more than a day ahead", now+oneDay+1))
		require.EqualValues(t, 1000, r.Mtime)
	}
	_, err := m.setAt("new.json", `1`, 2_114_380_800)
	require.ErrorIs(t, err, codes.BadRequest)
	require.ErrorContains(t, err, "2037-01-01T00:00:00Z")
	_, err = m.setAt("new.json", ``, 2_114_380_800)
	require.ErrorIs(t, err, codes.BadRequest, "of what never was too")
	m.none()

	_, err = m.setAt("a.json", `2`, now+oneDay)
	require.NoError(t, err)
	_, err = m.setAt("a.json", `3`, now+oneDay+2)
	require.ErrorIs(t, err, codes.BadRequest)
	_, err = m.setAt("a.json", `3`, now+oneDay+1)
	require.NoError(t, err, "one more than what is served")
}

func TestVersionsAreRaisedAtMostTwoDaysAheadOfTheClock(t *testing.T) {
	now := int32(noon.Unix())
	m := atVersion(t, now+2*oneDay+1)
	for second := range int32(3) {
		ahead := now + 2*oneDay + 1 + second
		for _, req := range []SetRequest{
			{Name: "a.json", Contents: []byte(`"other"`)}, {Name: "a.json"},
			{Name: "a.json", Contents: []byte(`"other"`), Mtime: ahead, HasMtime: true},
			{Name: "a.json", Contents: fmt.Append(nil, 1+second), Mtime: ahead + 1, HasMtime: true},
		} {
			r, err := m.set(req)
			require.ErrorIs(t, err, codes.Busy)
			require.ErrorContains(t, err, fmt.Sprintf("a.json: its version, %d, runs more than two days ahead of the server's clock; try again at %s.",
				ahead, noon.Add(time.Duration(1+second)*time.Second).UTC().Format(time.RFC3339)))
			require.Equal(t, ahead, r.Mtime)
		}
		require.Equal(t, ahead, m.mustSet("a.json", fmt.Sprint(1+second)).Mtime, "the same again changes nothing and is fine")
		m.mustSet(fmt.Sprintf("b%d.json", second), `1`)
		m.clock.Advance(time.Second)
		require.Equal(t, ahead+1, m.mustSet("a.json", fmt.Sprint(2+second)).Mtime)
	}
}

// A client that may write an heir cannot keep others from its base: no mtime that can be given is too
// far ahead. Who inherits the base is not told.
func TestABaseIsBusyOnlyAfterADayOfVersionsOfItsHeir(t *testing.T) {
	m := newMemKit(t, map[string]string{"base.json": `{}`, "a.json": `{}`, "_meta.json": `{"conf_inherit":{"a.json":"base.json"}}`})
	_, err := m.setAt("a.json", `{"v":1}`, int32(noon.Unix())+oneDay)
	require.NoError(t, err)
	_, err = m.setAt("a.json", `{"v":2}`, int32(noon.Unix())+2*oneDay)
	require.ErrorIs(t, err, codes.BadRequest)
	m.mustSet("base.json", `{"v":3}`)

	m.remember(log.Version{Seq: 9, Served: int32(noon.Unix()) + 2*oneDay, Given: 1, Name: "a.json", File: []byte(`{"v":2}`)})
	m.reopen()
	_, err = m.set(SetRequest{Name: "base.json", Contents: []byte(`{"v":4}`)})
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, fmt.Sprintf("base.json: the version of a file that inherits from it, %d, runs more than two days ahead", noon.Unix()+2*oneDay+1))
	require.NotContains(t, err.Error(), "a.json")
	m.clock.Advance(time.Second)
	m.mustSet("base.json", `{"v":3}`)
}

// atVersion opens a store whose log says that a.json is served with version.
func atVersion(t *testing.T, version int32) *memKit {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	m.remember(log.Version{Seq: 2, Served: version, Given: version, Name: "a.json", File: []byte(`1`)})
	m.reopen()
	require.Equal(t, version, m.mtime("a.json"))
	return m
}

// What an older server or a wrong clock left behind: no writer is told that it is
// old, the error says what helps, and that does.
func TestLogWithAVersionOfYearsAhead(t *testing.T) {
	const far = 2_114_380_800
	m := atVersion(t, far)
	for _, req := range []SetRequest{
		{Name: "a.json", Contents: []byte(`2`)}, {Name: "a.json"},
		{Name: "a.json", Contents: []byte(`2`), Mtime: int32(noon.Unix()), HasMtime: true},
	} {
		_, err := m.set(req)
		require.ErrorIs(t, err, codes.Busy)
		require.ErrorContains(t, err, "try again at 2036-12-30T00:00:00Z. If that is far off, correct the clock or edit the file itself")
	}
	m.none()
	m.edit("a.json", `2`, noon.Unix())
	require.EqualValues(t, far+1, m.mtime("a.json"), "an edit always counts")
	require.Equal(t, []string{"a.json"}, names(m.next()))

	// With another log versions begin again.
	require.NoError(t, m.Close())
	m.cfg.State = memory.ForTest(t)
	m.open()
	require.EqualValues(t, noon.Unix(), m.mtime("a.json"))
	m.mustSet("a.json", `3`)
}

func TestEndOfVersionsIsRefusedByName(t *testing.T) {
	m := atVersion(t, math.MaxInt32)
	m.clock.Advance(time.Unix(math.MaxInt32, 0).Sub(noon))
	for _, contents := range [][]byte{[]byte(`2`), nil} {
		_, err := m.set(SetRequest{Name: "a.json", Contents: contents})
		require.ErrorIs(t, err, codes.Limit)
		require.ErrorContains(t, err, "a.json: its version is 2147483647, the end of all versions; edit the file itself")
	}
	m.none()
	m.edit("a.json", `2`, noon.Unix())
	require.Equal(t, `2`, m.text("a"))
	require.Len(t, m.Problems(), 1)
	require.Contains(t, m.Problems()[0].Text, "clients do not fetch it")
}

func TestFileOfYearsAheadBlocksNoWriter(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	var log bytes.Buffer
	require.NoError(t, m.Close())
	m.cfg.Log = zerolog.New(&log)
	m.write("start.json", `1`, 2_114_380_800)
	m.open()
	now := int32(noon.Unix())
	require.Equal(t, now, m.mtime("start.json"))
	for i := range int32(2) {
		m.edit("a.json", fmt.Sprintf(`"edit %d"`, i), 2_114_380_800)
		require.Equal(t, now+i, m.mtime("a.json"), "the present, or one more than what was served")
		m.Reload()
	}
	_, err := m.setAt("a.json", `2`, now)
	require.NoError(t, err, "who gives the time of day can write")
	m.reopen()
	require.NoError(t, m.Close())
	require.Equal(t, 1, strings.Count(log.String(), `"name":"start.json"`), log.String())
	require.Equal(t, 2, strings.Count(log.String(), `"name":"a.json"`), "once for each change: %s", log.String())
}
