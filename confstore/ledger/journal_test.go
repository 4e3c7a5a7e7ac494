package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// kit is a journal on a disk in memory.
type kit struct {
	*Journal
	t   *testing.T
	mem *atomicfile.Mem
}

const journalPath = "/data/" + JournalName

func newKit(t *testing.T) *kit {
	k := &kit{t: t, mem: atomicfile.NewMem(nil)}
	k.mem.MakeDir("/data")
	return k
}

func (k *kit) open(disk atomicfile.FS) error {
	root, err := disk.OpenRoot("/data")
	require.NoError(k.t, err)
	k.Journal, err = OpenJournal(root, false)
	return err
}

func (k *kit) recall() map[string]string {
	k.t.Helper()
	require.NoError(k.t, k.open(k.mem))
	m, err := k.Recall()
	require.NoError(k.t, err)
	out := map[string]string{}
	for _, d := range m.Documents {
		out[d.Name] = string(d.Text)
	}
	return out
}

func put(seq uint64, name, text string) Change {
	return Change{Versions: []Version{{Name: name, Seq: seq, Served: int32(seq), Given: int32(seq), Text: []byte(text)}}}
}

func TestTornTailOfTheJournalIsCut(t *testing.T) {
	for name, tail := range map[string]func(good []byte) []byte{
		"half a header":       func([]byte) []byte { return []byte{0xCF, 0x4A, 9} },
		"zeros":               func([]byte) []byte { return make([]byte, 5000) },
		"half a frame":        func(good []byte) []byte { return good[journalHeader : len(good)-3] },
		"a frame with a hole": func(good []byte) []byte { f := slices.Clone(good[journalHeader:]); f[40] ^= 1; return f },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			require.Empty(t, k.recall())
			require.NoError(t, k.Commit(put(1, "a.json", "1")))
			require.NoError(t, k.Close())
			good, err := k.mem.Get(journalPath)
			require.NoError(t, err)
			torn := tail(oneFrame(record{kind: recordPut, name: "torn.json", text: []byte(`"torn"`)}))
			require.NoError(t, k.mem.Put(journalPath, append(slices.Clone(good), torn...), time.Time{}))
			require.NoError(t, k.open(k.mem))
			m, err := k.Recall()
			require.NoError(t, err)
			require.Len(t, m.Documents, 1)
			require.EqualValues(t, len(torn), m.Torn)
			require.NoError(t, k.Close())
			data, err := k.mem.Get(journalPath)
			require.NoError(t, err)
			require.Equal(t, good, data)
			require.Equal(t, map[string]string{"a.json": "1"}, k.recall())
			require.NoError(t, k.Commit(put(2, "b.json", "2")))
			require.NoError(t, k.Close())
			require.Equal(t, map[string]string{"a.json": "1", "b.json": "2"}, k.recall())
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
			k := newKit(t)
			require.NoError(t, k.mem.Put(journalPath, []byte(row.data), time.Time{}))
			err := k.open(k.mem)
			require.ErrorIs(t, err, codes.Storage)
			require.ErrorContains(t, err, row.says)
		})
	}
}

var errStopped = errors.New("the machine has stopped")

// TestStopDuringCompaction: the old journal or the new one, never less.
func TestStopDuringCompaction(t *testing.T) {
	for step := range 7 {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(step, seed), func(t *testing.T) {
				k := newKit(t)
				trace := &atomicfile.Trace{FS: k.mem}
				require.NoError(t, k.open(trace))
				for i := range uint64(5) {
					require.NoError(t, k.Commit(put(i+1, "a.json", fmt.Sprint(i))))
				}
				seen := 0
				trace.Hook = func(atomicfile.Op) error {
					if seen++; seen > step {
						return errStopped
					}
					return nil
				}
				all := put(5, "a.json", "4")
				require.Equal(t, step < 6, k.compact(all.records()) != nil)
				random := rand.New(rand.NewPCG(seed, seed))
				k.mem = k.mem.Crash(func() bool { return seed == 0 || seed > 1 && random.IntN(2) == 0 })
				require.Equal(t, map[string]string{"a.json": "4"}, k.recall())
			})
		}
	}
}

// What a journal remembers of writes: their bytes until they are known to be in
// place, the version before if they were taken back.
func TestWritesAreOpenUntilPlacedAndCanBeTakenBack(t *testing.T) {
	write := func(seq uint64, name string) Change {
		c := put(seq, name, `{"v":2}`)
		c.Versions[0].Write = &Write{File: []byte("{ \"v\": 2 }\n"), Replaces: DigestOf([]byte("1"))}
		return c
	}
	k := newKit(t)
	k.recall()
	for i, name := range []string{"open.json", "placed.json", "back.json"} {
		require.NoError(t, k.Commit(put(uint64(i+1), name, "1")))
	}
	var group Change
	for i, name := range []string{"open.json", "placed.json", "back.json"} {
		group.Versions = append(group.Versions, write(uint64(i+4), name).Versions...)
	}
	group.Lists = []List{{Name: "open.json", Floor: 7, Digest: Digest{1}}}
	require.NoError(t, k.Commit(group))
	k.Placed(5)
	require.NoError(t, k.TakeBack(6))
	require.NoError(t, k.Close())

	require.NoError(t, k.open(k.mem))
	m, err := k.Recall()
	require.NoError(t, err)
	require.EqualValues(t, 6, m.Seq)
	slices.SortFunc(m.Documents, func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	old := put(3, "back.json", "1").Versions[0]
	opened, placed := group.Versions[0], group.Versions[1]
	placed.Write = nil
	require.Equal(t, []Document{
		{Version: old, List: List{Name: "back.json"}},
		{Version: opened, List: group.Lists[0], HasList: true},
		{Version: placed, List: List{Name: "placed.json"}},
	}, m.Documents)
}

// One commit is one fsync, however many writes are in it.
func TestACommitIsOneFsync(t *testing.T) {
	k := newKit(t)
	trace := &atomicfile.Trace{FS: k.mem}
	require.NoError(t, k.open(trace))
	trace.Reset()
	var c Change
	for i := range uint64(50) {
		c.Versions = append(c.Versions, put(i+1, fmt.Sprint(i, ".json"), "1").Versions...)
	}
	require.NoError(t, k.Commit(c))
	k.Placed(1, 2, 3)
	var ops []string
	for _, op := range trace.Ops() {
		ops = append(ops, op.String())
	}
	require.Equal(t, []string{"write data/config.journal", "fsync data/config.journal", "write data/config.journal"}, ops)
}

func TestAFullDiskChangesNothingAndAFailedFsyncEndsIt(t *testing.T) {
	k := newKit(t)
	trace := &atomicfile.Trace{FS: k.mem}
	require.NoError(t, k.open(trace))
	fail := "write"
	trace.Hook = func(op atomicfile.Op) error {
		if op.Kind == fail {
			return syscall.ENOSPC
		}
		return nil
	}
	require.ErrorIs(t, k.Commit(put(1, "a.json", "1")), codes.Storage)
	require.NoError(t, k.Err())
	fail = "fsync"
	require.ErrorIs(t, k.Commit(put(2, "b.json", "1")), codes.Storage)
	fail = ""
	require.ErrorIs(t, k.Err(), codes.Storage)
	require.ErrorIs(t, k.Commit(put(3, "c.json", "1")), codes.Storage)
	require.Empty(t, k.recall())
}

// After a failed fsync a new file, all of which is written again, is none of whose contents is
// unknown.
func TestAJournalThatFailedIsRenewed(t *testing.T) {
	k := newKit(t)
	trace := &atomicfile.Trace{FS: k.mem}
	require.NoError(t, k.open(trace))
	trace.Hook = func(op atomicfile.Op) error {
		if op.Kind == "fsync" {
			return syscall.EIO
		}
		return nil
	}
	require.ErrorIs(t, k.Commit(put(1, "a.json", "1")), codes.Storage)
	require.ErrorIs(t, k.Renew(put(7, "b.json", "1")), codes.Storage)
	require.Error(t, k.Err())
	trace.Hook = nil
	require.NoError(t, k.Renew(put(7, "b.json", "1")))
	require.NoError(t, k.Err())
	require.NoError(t, k.Commit(put(8, "c.json", "2")))
	k.mem = k.mem.Crash(func() bool { return false })
	require.Equal(t, map[string]string{"b.json": "1", "c.json": "2"}, k.recall())
}

// What is read from a file that cannot be written is all that was known, but for the torn tail.
func TestAJournalThatCanOnlyBeReadIsOpened(t *testing.T) {
	k := newKit(t)
	require.Empty(t, k.recall())
	require.NoError(t, k.Commit(put(1, "a.json", "1")))
	epoch := k.Epoch()
	require.NoError(t, k.Close())
	data, err := k.mem.Get(journalPath)
	require.NoError(t, err)
	require.NoError(t, k.mem.Put(journalPath, append(data, data[journalHeader:len(data)-1]...), time.Time{}))
	require.NoError(t, k.open(readOnly{k.mem}))
	require.Equal(t, epoch, k.Epoch())
	require.ErrorIs(t, k.Err(), syscall.EROFS)
	require.NotContains(t, codes.Message(k.Err()), JournalName, "no paths for peers")
	require.ErrorIs(t, k.Commit(put(2, "b.json", "1")), codes.Storage)
	k.Placed(1)
	m, err := k.Recall()
	require.NoError(t, err)
	require.Len(t, m.Documents, 1)
	require.Equal(t, "1", string(m.Documents[0].Text))
	require.NoError(t, k.Close())
}

// readOnly is a file system that is mounted for reading only.
type readOnly struct{ atomicfile.FS }

func (f readOnly) OpenRoot(dir string) (atomicfile.Root, error) {
	root, err := f.FS.OpenRoot(dir)
	return readOnlyRoot{root}, err
}

type readOnlyRoot struct{ atomicfile.Root }

func (r readOnlyRoot) OpenFile(name string, flag int, perm fs.FileMode) (atomicfile.File, error) {
	if flag != os.O_RDONLY {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	return r.Root.OpenFile(name, flag, perm)
}

func TestRecordsSurviveTheirForm(t *testing.T) {
	records := []record{
		{kind: recordPut, seq: 1, served: 2, given: -3, name: "a.json", text: []byte(`{"a":1}`)},
		{kind: recordPut, seq: 1<<63 + 1, served: -1, given: 3, deleted: true, name: "b.json", text: []byte{}},
		{kind: recordIntent, seq: 4, served: 5, given: 6, absent: true, previous: Digest{7}, name: "c.json", text: []byte("1")},
		{kind: recordIntent, seq: 7, exact: true, name: "c.json", text: []byte("{ }\n")},
		{kind: recordDone, seq: 8},
		{kind: recordAbort, seq: 9},
		{kind: recordList, floor: 10, list: Digest{11}, name: "d.json"},
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
