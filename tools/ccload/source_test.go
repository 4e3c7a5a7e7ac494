package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// play takes n frames from src and returns their bodies.
func play(t require.TestingT, src source, n int) [][]byte {
	var bodies [][]byte
	for range n {
		frame := src.next(nil)
		h, err := protocol.ParseHeader(frame)
		require.NoError(t, err)
		require.Equal(t, src.expect(), h.Command.Reply())
		require.EqualValues(t, len(frame)-protocol.HeaderSize, h.BodyLen)
		bodies = append(bodies, frame[protocol.HeaderSize:])
	}
	return bodies
}

func query(t require.TestingT, body []byte) protocol.ConfigQuery {
	var r protocol.Request
	require.NoError(t, r.Parse(body))
	return r.ConfigQuery()
}

func TestReadTapeVariesNamesAndMembers(t *testing.T) {
	names := fileNames(50)
	tape := readTape(newRandom(1), names, "")
	require.Equal(t, tapeLength, len(tape.ends))
	asked := map[string]int{}
	firsts := map[string]int{}
	for _, body := range play(t, tape, tapeLength) {
		q := query(t, body)
		require.Empty(t, q.Path)
		require.Zero(t, q.Newer, "every reply must be a document")
		asked[string(q.File)]++
		firsts[strings.SplitN(string(body), `"`, 3)[1]]++
	}
	require.Len(t, asked, len(names))
	require.GreaterOrEqual(t, len(firsts), 4, "the first member is always one of %v", firsts)
	for name := range asked {
		require.Contains(t, names, name)
	}
}

func TestReadTapeIsTheSameEachRun(t *testing.T) {
	names := fileNames(10)
	require.Equal(t, readTape(newRandom(3), names, "").frames, readTape(newRandom(3), names, "").frames)
	require.NotEqual(t, readTape(newRandom(3), names, "").frames, readTape(newRandom(4), names, "").frames)
}

func TestPathTapeAsksForEachPathOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := largePaths(rapid.IntRange(1, 300).Draw(t, "paths"))
		tape := pathTape(newRandom(rapid.IntRange(0, 99).Draw(t, "seed")), []string{"a.json", "b.json"}, paths)
		var asked []string
		for _, body := range play(t, tape, len(paths)) {
			asked = append(asked, string(query(t, body).Path))
		}
		slices.Sort(asked)
		require.Equal(t, paths, asked)
		require.Equal(t, tape.frames[:tape.ends[0]], tape.next(nil), "after the last comes the first")
	})
}

func TestWritesAreAllDifferent(t *testing.T) {
	names := writeNames(6, 2, 1)
	require.Equal(t, []string{"w00001.json", "w00003.json", "w00005.json"}, names)
	seen := map[string]bool{}
	for _, body := range play(t, newWrites(names, 300, 10_000_000), 30) {
		var r protocol.Request
		require.NoError(t, r.Parse(body))
		u := r.ConfigUpdate()
		require.Contains(t, names, u.Name)
		require.Len(t, u.Contents, 300)
		require.False(t, seen[string(u.Contents)])
		seen[string(u.Contents)] = true
	}
}

func TestReplyOK(t *testing.T) {
	for body, want := range map[string]bool{
		`{"code":0}`:                true,
		`{"code":0,"mtime":3}`:      true,
		`{ "code": 0, "desc": "" }`: true,
		`{"code":404,"desc":""}`:    false,
		`{"code":01}`:               false,
		`{"code":0`:                 false,
		`{"mtime":0,"code":0}`:      false,
		`{}`:                        false,
		`1`:                         false,
		``:                          false,
	} {
		require.Equal(t, want, replyOK([]byte(body)), body)
	}
}

func TestSmallDocumentsGiveRepliesOfTheSize(t *testing.T) {
	for i, name := range fileNames(1000) {
		doc := smallDocument(name, i, replySize)
		reply := append(protocol.AppendConfigStart(nil, 1700000000, []byte(`"`+name+`"`)), doc...)
		require.Len(t, append(reply, protocol.ConfigEnd...), replySize)
		part, ok := jsonpath.Lookup(doc, []byte(partPath))
		require.True(t, ok)
		require.Len(t, part, partSize)
	}
}

func TestLargeDocumentHasItsPaths(t *testing.T) {
	doc := largeDocument(10_000, 7)
	kind, err := jsontext.Check(doc)
	require.NoError(t, err)
	require.Equal(t, jsontext.Object, kind)
	require.InDelta(t, 1_000_000, len(doc), 50_000)
	index := jsonpath.NewIndex(doc)
	for _, path := range largePaths(10_000) {
		value, ok := index.Lookup([]byte(path))
		require.True(t, ok, path)
		require.Len(t, value, partSize)
	}
	require.NotEqual(t, doc, largeDocument(10_000, 8))
}
