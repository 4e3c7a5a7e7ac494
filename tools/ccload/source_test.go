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

// play takes n frames from a tape and returns their bodies.
func play(t require.TestingT, src *tape, n int) [][]byte {
	var bodies [][]byte
	for range n {
		frame := src.next()
		h, err := protocol.ParseHeader(frame)
		require.NoError(t, err)
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

func TestReadsVaryNamesAndMembers(t *testing.T) {
	names := fileNames(benchFiles)
	tape := benchReads(1)
	require.Len(t, tape.requests, tapeLength)
	asked := map[string]bool{}
	forms := map[string]bool{}
	for _, body := range play(t, tape, tapeLength) {
		q := query(t, body)
		require.Empty(t, q.Path)
		require.Zero(t, q.Newer, "every reply must be a document")
		asked[string(q.File)] = true
		forms[strings.Replace(string(body), string(q.File), "", 1)] = true
	}
	require.Len(t, asked, len(names))
	require.Len(t, forms, len(queries))
	for name := range asked {
		require.Contains(t, names, name)
	}
}

func TestReadsAreTheSameEachRun(t *testing.T) {
	require.Equal(t, benchReads(3), benchReads(3))
	require.NotEqual(t, benchReads(3), benchReads(4))
}

func TestPathTapeAsksForEachPathOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		paths := numbered("/k%05d", rapid.IntRange(1, 300).Draw(t, "paths"))
		tape := pathTape([]string{"a.json", "b.json"}, paths)
		var asked []string
		for _, body := range play(t, tape, len(paths)) {
			asked = append(asked, string(query(t, body).Path))
		}
		slices.Sort(asked)
		require.Equal(t, paths, asked)
		require.Equal(t, tape.requests[0], tape.next(), "after the last comes the first")
	})
}

func TestWritesAreAllDifferent(t *testing.T) {
	names := []string{"a.json", "b.json"}
	seen := map[string]bool{}
	for _, body := range play(t, setTape(names, 300), writesLength) {
		var r protocol.Request
		require.NoError(t, r.Parse(body))
		u := r.ConfigUpdate()
		require.Contains(t, names, u.Name)
		require.Len(t, u.Contents, 300)
		require.False(t, seen[string(u.Contents)])
		seen[string(u.Contents)] = true
	}
}

func TestReplyError(t *testing.T) {
	for body, want := range map[string]bool{
		`{"code":0}`:                true,
		`{"code":0,"mtime":3}`:      true,
		`{ "code": 0, "desc": "" }`: false,
		`{"code":404,"desc":""}`:    false,
		`{"code":01}`:               false,
		`{"code":0`:                 false,
		`{"mtime":0,"code":0}`:      false,
		`{}`:                        false,
		`1`:                         false,
		``:                          false,
	} {
		require.Equal(t, want, replyError(protocol.GetConfig, []byte(body)) == nil, body)
	}
}

func TestSmallDocumentsGiveRepliesOfTheSize(t *testing.T) {
	for i, name := range fileNames(1000) {
		doc := smallDocument(name, i)
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
	for _, path := range numbered("/k%05d", 10_000) {
		value, ok := index.Lookup([]byte(path))
		require.True(t, ok, path)
		require.Len(t, value, partSize)
	}
	require.NotEqual(t, doc, largeDocument(10_000, 8))
}
