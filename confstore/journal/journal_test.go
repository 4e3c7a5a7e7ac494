package journal

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// readBytes reads a journal of these bytes, in which unfinished writes are finished or not.
func readBytes(t *testing.T, data []byte, finished bool) (*Memory, error) {
	disk := atomicfile.NewMem(nil)
	disk.MakeDir("/data")
	if data != nil {
		require.NoError(t, disk.Put("/data/"+Name, data, time.Time{}))
	}
	root, err := disk.OpenRoot("/data")
	require.NoError(t, err)
	return Read(root, func(Document) bool { return finished })
}

func oneFrame(records ...record) []byte {
	frame := make([]byte, frameHeader)
	for _, r := range records {
		frame = appendRecord(frame, r)
	}
	sealFrame(frame)
	return append(appendJournalHeader(nil, [16]byte{1}), frame...)
}

// damagedFrame is a journal of two frames, of which the first is damaged.
func damagedFrame() []byte {
	first := oneFrame(record{kind: recordPut, seq: 1, name: "a.json", text: []byte("1")})
	second := oneFrame(record{kind: recordPut, seq: 2, name: "b.json", text: []byte("1")})
	first[len(first)-1] ^= 1
	return append(first, second[journalHeader:]...)
}

func TestJournalsThatAreNotOursAreRefused(t *testing.T) {
	newer := appendJournalHeader(nil, [16]byte{})
	binary.LittleEndian.PutUint32(newer[len(journalMagic):], journalVersion+1)
	binary.LittleEndian.PutUint32(newer[journalHeader-4:], crc32.Checksum(newer[:journalHeader-4], castagnoli))
	damaged := appendJournalHeader(nil, [16]byte{})
	damaged[20] ^= 1
	for name, row := range map[string]struct{ data, says string }{
		"empty":        {"", "not a journal"},
		"damage":       {string(damagedFrame()), "sound again"},
		"another file": {strings.Repeat("hello world", 10), "not a journal"},
		"newer format": {string(newer), "newer program"},
		"bad header":   {string(damaged), "offset 0"},
		"odd record":   {string(oneFrame(record{kind: 99})), "makes no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readBytes(t, []byte(row.data), false)
			require.ErrorIs(t, err, codes.Storage)
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestThereMayBeNoJournal(t *testing.T) {
	m, err := readBytes(t, nil, false)
	require.NoError(t, err)
	require.Nil(t, m)
}

func TestATornTailIsNotRead(t *testing.T) {
	whole := oneFrame(record{kind: recordPut, seq: 1, name: "a.json", text: []byte("1")})
	second := oneFrame(record{kind: recordPut, seq: 2, name: "b.json", text: []byte("1")})[journalHeader:]
	for cut := range second {
		m, err := readBytes(t, append(append([]byte(nil), whole...), second[:cut]...), false)
		require.NoError(t, err)
		require.Len(t, m.Documents, 1)
		require.EqualValues(t, cut, m.Torn)
	}
}

// testdata/old.journal was written by a version that told the journal the compact text of a write,
// not the bytes of its file: with writes placed, taken back and, both ways, open, a tombstone, a
// list of bases and the last good contents of a broken file.
func TestAJournalOfAnOlderVersionIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/old.journal")
	require.NoError(t, err)
	for _, finished := range []bool{true, false} {
		m, err := readBytes(t, data, finished)
		require.NoError(t, err)
		require.Equal(t, "33eccdff443f62dabbd376bda9c9f238", m.Epoch)
		require.EqualValues(t, 11, m.Seq)
		var names []string
		for _, d := range m.Documents {
			names = append(names, d.Name)
			switch d.Name {
			case "open.json":
				require.Equal(t, finished, string(d.Text) == `{"v":"new"}`)
			case "broken.json":
				require.Equal(t, `{"good":1}`, string(d.Text))
			case "gone.json":
				require.True(t, d.Deleted)
				require.EqualValues(t, 6000, d.Served)
			case "heir.json":
				require.True(t, d.Listed)
			}
		}
		require.Len(t, names, 7)
	}
}

func TestRecordsSurviveTheirForm(t *testing.T) {
	records := []record{
		{kind: recordPut, seq: 1, served: 2, given: -3, name: "a.json", text: []byte(`{"a":1}`)},
		{kind: recordPut, seq: 1<<63 + 1, served: -1, given: 3, deleted: true, name: "b.json", text: []byte{}},
		{kind: recordIntent, seq: 4, served: 5, given: 6, absent: true, previous: [16]byte{7}, name: "c.json", text: []byte("1")},
		{kind: recordIntent, seq: 7, exact: true, name: "c.json", text: []byte("{ }\n")},
		{kind: recordDone, seq: 8},
		{kind: recordAbort, seq: 9},
		{kind: recordList, floor: 10, list: [16]byte{11}, name: "d.json"},
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
