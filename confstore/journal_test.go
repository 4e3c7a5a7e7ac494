package confstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

const journalPath = "/srv/data/config.journal"

// tamper closes the store and gives its journal's bytes to fn.
func (m *memKit) tamper(fn func([]byte) []byte) {
	m.t.Helper()
	require.NoError(m.t, m.Close())
	data, err := m.mem.Get(journalPath)
	require.NoError(m.t, err)
	require.NoError(m.t, m.mem.Put(journalPath, fn(data), noon))
}

func TestTornTailOfTheJournalIsCut(t *testing.T) {
	for name, tail := range map[string]func(good []byte) []byte{
		"half a header":       func([]byte) []byte { return []byte{0xCF, 0x4A, 9} },
		"zeros":               func([]byte) []byte { return make([]byte, 5000) },
		"half a frame":        func(good []byte) []byte { return good[journalHeader : len(good)-3] },
		"a frame with a hole": func(good []byte) []byte { f := slices.Clone(good[journalHeader:]); f[40] ^= 1; return f },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, nil)
			m.mustSet("a.json", `1`)
			require.NoError(t, m.Close())
			good, err := m.mem.Get(journalPath)
			require.NoError(t, err)
			// One frame only, so that what is appended cannot contain a sound one.
			frame := good
			if name == "half a frame" || name == "a frame with a hole" {
				frame = oneFrame(record{kind: recordPut, name: "torn.json", text: []byte(`"torn"`)})
			}
			require.NoError(t, m.mem.Put(journalPath, append(slices.Clone(good), tail(frame)...), noon))
			m.open()
			require.Equal(t, "1", m.text("a"))
			require.Nil(t, m.Snapshot().Node("torn.json"))
			require.NoError(t, m.Close())
			data, err := m.mem.Get(journalPath)
			require.NoError(t, err)
			require.Equal(t, good, data)
			m.open()
			m.mustSet("b.json", `2`)
			m.reopen()
			require.Equal(t, "2", m.text("b"))
		})
	}
}

// oneFrame is a journal's header with one frame behind it.
func oneFrame(records ...record) []byte {
	frame := make([]byte, frameHeader)
	for _, r := range records {
		frame = appendRecord(frame, r)
	}
	sealFrame(frame)
	return append(appendJournalHeader(nil, [16]byte{1}), frame...)
}

func TestDamageInTheMiddleOfTheJournalIsRefusedByName(t *testing.T) {
	m := newMemKit(t, nil)
	m.mustSet("a.json", `"a value that stands in the first frame"`)
	m.mustSet("b.json", `2`)
	m.tamper(func(data []byte) []byte {
		data[strings.Index(string(data), "stands")] ^= 1
		return data
	})
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, journalName)
	require.ErrorContains(t, err, fmt.Sprintf("offset %d", journalHeader))
	require.ErrorContains(t, err, "backup", "what to do")
}

func TestDamagedLengthDoesNotLookLikeATornTail(t *testing.T) {
	m := newMemKit(t, nil)
	m.mustSet("a.json", `1`)
	m.mustSet("b.json", `2`)
	m.tamper(func(data []byte) []byte {
		data[journalHeader+5] = 0x7f // the first frame now claims 2 GB
		return data
	})
	_, err := Open(m.cfg)
	require.ErrorIs(t, err, codes.Storage)
}

func TestJournalsThatAreNotOursAreRefused(t *testing.T) {
	newer := appendJournalHeader(nil, [16]byte{})
	binary.LittleEndian.PutUint32(newer[len(journalMagic):], journalVersion+1)
	binary.LittleEndian.PutUint32(newer[journalHeader-4:], crc32.Checksum(newer[:journalHeader-4], castagnoli))
	damaged := appendJournalHeader(nil, [16]byte{})
	damaged[20] ^= 1
	for name, row := range map[string]struct{ data, says string }{
		"empty":        {"", "not a journal"},
		"another file": {strings.Repeat("hello world", 10), "not a journal"},
		"newer format": {string(newer), "newer program"},
		"bad header":   {string(damaged), "offset 0"},
		"odd record":   {string(oneFrame(record{kind: 99})), "makes no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, nil)
			m.tamper(func([]byte) []byte { return []byte(row.data) })
			_, err := Open(m.cfg)
			require.ErrorIs(t, err, codes.Storage)
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestLostJournalIsAnotherEpoch(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	epoch := m.Epoch()
	require.Len(t, epoch, 32)
	require.NoError(t, m.Close())
	require.NoError(t, m.mem.Drop(journalPath))
	m.open()
	require.NotEqual(t, epoch, m.Epoch())
	require.Equal(t, "1", m.text("a"))
}

func TestNewEpochKeepsWhatTheJournalKnows(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "gone.json": `1`})
	m.remove("gone.json")
	m.edit("a.json", `{`, 2000)
	version, seq, epoch := m.mtime("a.json"), m.Snapshot().Seq(), m.Epoch()
	m.cfg.NewEpoch = true
	m.reopen()
	next := m.Epoch()
	require.NotEqual(t, epoch, next)
	m.cfg.NewEpoch = false
	m.reopen()
	require.Equal(t, next, m.Epoch())
	require.Equal(t, "1", m.text("a"), "the last good version")
	require.Equal(t, version, m.mtime("a.json"))
	require.True(t, m.Snapshot().Node("gone.json").Deleted())
	require.Equal(t, seq, m.Snapshot().Seq())
}

func TestJournalIsCompactedAndForgetsNothing(t *testing.T) {
	m := newMemKit(t, family())
	m.mustSet("gone.json", `1`)
	m.remove("gone.json")
	text := `"` + strings.Repeat("x", 20_000) + `"`
	for i := range 200 {
		m.mustSet("big.json", strings.Replace(text, "x", fmt.Sprint(i), 1))
	}
	m.edit("broken.json", `{"good":1}`, 1000)
	m.edit("broken.json", `{`, 2000)
	size := func() int {
		data, err := m.mem.Get(journalPath)
		require.NoError(t, err)
		return len(data)
	}
	require.Less(t, size(), 2<<20, "200 versions are 4 MB")
	state := func() (out []string) {
		for _, name := range m.Snapshot().Names() {
			n := m.Snapshot().Node(name)
			out = append(out, fmt.Sprint(name, n.Mtime(false), n.Mtime(true), n.GivenMtime(), n.Deleted(), len(textOf(n, true)), n.Broken()))
		}
		return out
	}
	before, epoch, seq := state(), m.Epoch(), m.Snapshot().Seq()
	m.reopen()
	require.Equal(t, before, state())
	require.Equal(t, epoch, m.Epoch())
	require.Equal(t, seq, m.Snapshot().Seq())
}

// TestStopDuringCompaction: the old journal or the new one, never less.
func TestStopDuringCompaction(t *testing.T) {
	for step := range 7 {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(step, seed), func(t *testing.T) {
				r := newRig(t)
				for i := range 5 {
					_, err := setNow(t, r.store, SetRequest{Name: "a.json", Contents: fmt.Appendf(nil, "%d", i)})
					require.NoError(t, err)
				}
				mtime := r.store.Snapshot().Node("a.json").Mtime(false)
				stopped := make(chan struct{})
				require.NoError(t, r.store.Set(SetRequest{Name: "x.json", Contents: []byte("{")}, func(SetResult, error) {
					defer close(stopped)
					seen := 0
					r.trace.Hook = func(atomicfile.Op) error {
						if seen++; seen > step {
							return errStopped
						}
						return nil
					}
					var records []record
					for name, e := range r.store.entries {
						records = append(records, e.records(name)...)
					}
					err := r.store.journal.compact(records)
					require.Equal(t, step < 6, err != nil)
				}))
				<-stopped
				text, _, now := r.reopened(r.mem.Crash(losses(seed)))
				require.Equal(t, "4", text)
				require.Equal(t, mtime, now)
			})
		}
	}
}

func TestRecordsSurviveTheirForm(t *testing.T) {
	records := []record{
		{kind: recordPut, seq: 1, served: 2, given: -3, name: "a.json", text: []byte(`{"a":1}`)},
		{kind: recordPut, seq: 1<<63 + 1, served: -1, given: 3, deleted: true, name: "b.json", text: []byte{}},
		{kind: recordIntent, seq: 4, served: 5, given: 6, absent: true, previous: digest{7}, name: "c.json", text: []byte("1")},
		{kind: recordIntent, seq: 7, exact: true, name: "c.json", text: []byte("{ }\n")},
		{kind: recordDone, seq: 8},
		{kind: recordAbort, seq: 9},
		{kind: recordList, floor: 10, list: digest{11}, name: "d.json"},
	}
	var payload []byte
	for _, r := range records {
		payload = appendRecord(payload, r)
	}
	decoded, err := decodeRecords(payload)
	require.NoError(t, err)
	require.Equal(t, records, decoded)
	for cut := range payload {
		part, err := decodeRecords(payload[:cut])
		require.True(t, err != nil || len(part) < len(records))
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte{})
	f.Add(oneFrame())
	f.Add(oneFrame(
		record{kind: recordIntent, seq: 1, name: "a.json", text: []byte("1")}, record{kind: recordAbort, seq: 1},
		record{kind: recordPut, seq: 2, name: "a.json", text: []byte("2")}, record{kind: recordList, name: "a.json"},
		record{kind: recordIntent, seq: 7, exact: true, name: "a.json", text: []byte("{ }")},
		record{kind: recordDone, seq: 7},
	))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, journal := range [][]byte{data, append(oneFrame(), data...), append(appendJournalHeader(nil, [16]byte{}), data...)} {
			r, err := replay(journal)
			if err != nil {
				continue
			}
			require.Equal(t, int64(len(journal)), r.size+r.torn)
			again, err := replay(journal[:r.size])
			require.NoError(t, err)
			require.Zero(t, again.torn)
			require.Len(t, again.names, len(r.names))
		}
		// Whatever a payload holds is records or an error.
		if records, err := decodeRecords(data); err == nil {
			all := newReplayed()
			for _, rec := range records {
				all.take(rec)
			}
		}
	})
}
