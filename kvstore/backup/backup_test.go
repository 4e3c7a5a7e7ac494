package backup_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/backup"
)

var update = flag.Bool("update", false, "write the golden file")

// rows is a copy with fixed rows, in pieces.
type rows struct{ pieces [][][2]string }

func (r *rows) Revision() kv.Revision { return 42 }
func (r *rows) Time() int64           { return 1_700_000_000_000 }
func (r *rows) Close()                {}
func (r *rows) Next(dst []byte) ([]byte, error) {
	if len(r.pieces) == 0 {
		return dst, io.EOF
	}
	for _, row := range r.pieces[0] {
		for _, text := range row {
			dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
		}
	}
	r.pieces = r.pieces[1:]
	return dst, nil
}

func some() *rows {
	return &rows{[][][2]string{{{"key", "value"}, {"empty", ""}}, {{"long", strings.Repeat("x", 300)}}}}
}

func written(t testing.TB, from kv.Copy) []byte {
	t.Helper()
	var b bytes.Buffer
	totals, err := backup.Write(&b, from, "v1")
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), totals.Bytes)
	return b.Bytes()
}

// read reads a backup, with its rows as text.
func read(from io.Reader) (text string, totals backup.Totals, err error) {
	totals, err = backup.Read(from, func(backup.Head) error { return nil }, func(key, value []byte) error {
		text += fmt.Sprintf("%s=%s;", key, value)
		return nil
	})
	return text, totals, err
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	file := written(t, some())
	text, totals, err := read(iotest.OneByteReader(bytes.NewReader(file)))
	require.NoError(t, err)
	require.Equal(t, "key=value;empty=;long="+strings.Repeat("x", 300)+";", text)
	require.Equal(t, backup.Head{Format: 1, Engine: "pebblekv/1", Revision: 42, Time: 1_700_000_000_000, Program: "v1"}, totals.Head)
	require.EqualValues(t, 3, totals.Rows)
	require.EqualValues(t, 2, totals.Blocks)
	require.EqualValues(t, len(file), totals.Bytes)
	text, _, err = read(bytes.NewReader(written(t, &rows{})))
	require.NoError(t, err)
	require.Empty(t, text)
}

// The bytes are for ever.
func TestGoldenFile(t *testing.T) {
	const name = "testdata/format1.backup"
	file := written(t, some())
	if *update {
		require.NoError(t, os.WriteFile(name, file, 0o644))
	}
	golden, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, golden, file)
}

func TestEachDamageIsNoticed(t *testing.T) {
	file := written(t, some())
	for i := range file {
		for _, flip := range []byte{1, 0x80, 0xFF} {
			bad := bytes.Clone(file)
			bad[i] ^= flip
			_, _, err := read(bytes.NewReader(bad))
			require.ErrorIs(t, err, codes.Storage, "byte %d", i)
		}
		_, _, err := read(bytes.NewReader(file[:i]))
		require.ErrorIs(t, err, codes.Storage, "cut at %d", i)
		if i >= len(backup.Magic) {
			require.ErrorContains(t, err, "incomplete", "cut at %d", i)
		}
	}
	_, _, err := read(bytes.NewReader(append(bytes.Clone(file), 0)))
	require.ErrorContains(t, err, "something follows")
	_, _, err = read(iotest.ErrReader(io.ErrClosedPipe))
	require.ErrorIs(t, err, codes.Storage)
}

// block is a block with a right checksum.
func block(kind byte, payload string) string {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	b = append(b, payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}

func TestBlocksThatLie(t *testing.T) {
	head := backup.Magic + block('H', `{"format":1,"engine":"pebblekv/1"}`)
	for text, want := range map[string]string{
		backup.Magic + block('R', ""):                                  "it is no head",
		backup.Magic + block('H', "{"):                                 "head",
		backup.Magic + block('H', `{"format":2,"program":"v9"}`):       `written by version "v9" in format 2`,
		backup.Magic + block('H', strings.Repeat(" ", 70_000)):         "the limit is 65536",
		head + block('X', ""):                                          "unknown kind",
		head + block('H', `{}`):                                        "unknown kind",
		head + block('R', "\x05abc"):                                   "does not fit",
		head + block('R', "\x01a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"): "does not fit",
		head + block('R', "\x01a"):                                     "does not fit",
		head + "R\xff\xff\xff\xff":                                     "the limit is",
		head + "R\x0f\xff\xff\xff":                                     "incomplete",
		head + block('E', `{"blocks":1}`):                              "should have 1",
		head + block('E', `[]`):                                        "end",
		"PK\x03\x04 some other file":                                   "this is no backup",
	} {
		_, _, err := read(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}

// A length alone has nothing allocated.
func TestALengthIsNotBelieved(t *testing.T) {
	text := backup.Magic + block('H', `{"format":1,"engine":"pebblekv/1"}`) + "R\x0f\xff\xff\xff" + "short"
	grown := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			_, _, _ = read(strings.NewReader(text))
		}
	}).AllocedBytesPerOp()
	require.Less(t, grown, int64(4<<20))
}

type failing struct{ rows }

func (f *failing) Next([]byte) ([]byte, error) { return nil, codes.Errorf(codes.Closed, "gone") }

func TestErrorsOfEitherSideEndIt(t *testing.T) {
	_, err := backup.Write(io.Discard, &failing{}, "")
	require.ErrorIs(t, err, codes.Closed)
	_, err = backup.Write(&full{left: 100}, some(), "")
	require.ErrorIs(t, err, io.ErrShortWrite)
	file := written(t, some())
	_, err = backup.Read(bytes.NewReader(file), func(backup.Head) error { return io.ErrClosedPipe }, nil)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	_, err = backup.Read(bytes.NewReader(file), func(backup.Head) error { return nil }, func(_, _ []byte) error { return io.ErrClosedPipe })
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, some()))
	f.Add([]byte(backup.Magic))
	f.Add([]byte(backup.Magic + block('H', `{"format":1,"engine":"pebblekv/1"}`) + block('R', "\x01a\x01b")))
	f.Fuzz(func(t *testing.T, file []byte) {
		text, totals, err := read(bytes.NewReader(file))
		if err != nil {
			return
		}
		// What is taken for whole is what its end says.
		again, same, err := read(iotest.HalfReader(bytes.NewReader(file)))
		require.NoError(t, err)
		require.Equal(t, totals, same)
		require.Equal(t, text, again)
		require.EqualValues(t, len(file), totals.Bytes)
	})
}
