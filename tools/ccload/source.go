package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"confcenter/protocol"
)

// tape is the requests of a load, made beforehand and given out in a circle: the load side
// pays for one copy and no more. One cursor serves all connections, so a tape of n
// requests played for n gives each once. The connection fills in the sequence of the header.
type tape struct {
	requests [][]byte
	at       int
}

// next returns the next request, which must be copied before it is changed.
func (t *tape) next() []byte {
	request := t.requests[t.at]
	t.at = (t.at + 1) % len(t.requests)
	return request
}

// newTape makes n requests with the bodies that body returns.
func newTape(cmd protocol.Command, n int, body func(i int) []byte) *tape {
	t := &tape{}
	for i := range n {
		t.requests = append(t.requests, protocol.AppendFrame(nil, cmd, 0, body(i)))
	}
	return t
}

const (
	// tapeLength is how many requests a tape of random reads holds: enough that a
	// server that remembers requests by their bytes gains nothing.
	tapeLength = 1 << 14
	// writesLength is how many different writes a tape to few names holds.
	writesLength = 1 << 12
)

// newRandom has a fixed seed, so that every run asks for the same.
func newRandom(seed int) *rand.Rand { return rand.New(rand.NewPCG(0xCC10AD, uint64(seed))) }

// queries are GETCONFIG requests for a whole document, as different clients write them.
var queries = []string{`{"file_pattern":%q}`, `{"file_pattern":%q,"key_pattern":""}`, `{"incbase":1, "file_pattern":%q}`, `{"gt_mtime":0,"file_pattern":%q,"incbase":0}`}

// benchReads asks for small documents of a benchmark, drawn at random.
func benchReads(seed int) *tape {
	rnd, names := newRandom(seed), fileNames(benchFiles)
	return newTape(protocol.GetConfig, tapeLength, func(int) []byte {
		return fmt.Appendf(nil, queries[rnd.IntN(len(queries))], names[rnd.IntN(len(names))])
	})
}

// pathTape asks once, in random order, for each pair of a name and a path.
func pathTape(names, paths []string) *tape {
	order := newRandom(0).Perm(len(paths))
	return newTape(protocol.GetConfig, len(paths), func(i int) []byte {
		return protocol.AppendConfigQuery(nil, names[order[i]%len(names)], paths[order[i]], 0, false)
	})
}

// setTape writes documents of about size bytes to names in turn, each write different
// from the one before.
func setTape(names []string, size int) *tape {
	pad := kvText(0, max(0, size-len(`{"n":1234,"pad":""}`)))
	return newTape(protocol.SetConfig, writesLength, func(i int) []byte {
		doc := fmt.Appendf(nil, `{"n":%d,"pad":"%s"}`, 1000+i, pad)
		return protocol.AppendConfigUpdate(nil, protocol.ConfigUpdate{Name: names[i%len(names)], Contents: doc})
	})
}

// replySize is the size of the reply's body that the figures refer to, in bytes.
const replySize = 280

// numbered returns n names of equal length, so that replies are of equal length too.
func numbered(format string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(format, i)
	}
	return names
}

// fileNames are the names of the small documents.
func fileNames(n int) []string { return numbered("f%05d.json", n) }

// smallDocument is a document whose GETCONFIG reply has a body of replySize bytes.
func smallDocument(name string, i int) []byte {
	around := len(protocol.AppendConfigStart(nil, 1700000000, []byte(strconv.Quote(name)))) + len(protocol.ConfigEnd)
	doc := fmt.Sprintf(`{"id":%d,"host":"10.0.%d.%d","part":"%s","pad":"`, i, i/250%250, i%250, strings.Repeat("z", partSize-2))
	return []byte(doc + strings.Repeat("x", replySize-around-len(doc)-len(`"}`)) + `"}`)
}

const (
	// partPath is a key path of every small document; its value is as long as those in
	// a large one.
	partPath = "/part"
	partSize = 92
)

// largeDocument has members of about 102 bytes each: 10,000 of them make the 1 MB
// document. Each version differs.
func largeDocument(members, version int) []byte {
	doc := append(make([]byte, 0, members*(partSize+10)), '{')
	pad := strings.Repeat("y", partSize-len(`{"v":10000000,"pad":""}`))
	for i := range members {
		doc = fmt.Appendf(doc, `"k%05d":{"v":%d,"pad":"%s"},`, i, 10_000_000+version, pad)
	}
	doc[len(doc)-1] = '}' // instead of the last comma
	return doc
}

// writeFiles fills dir with n small documents.
func writeFiles(dir string, n int) {
	check(os.MkdirAll(dir, 0o755))
	for i, name := range fileNames(n) {
		check(os.WriteFile(filepath.Join(dir, name), smallDocument(name, i), 0o644))
	}
}

// What the figures of the state store are measured with.
const (
	kvNamespace = "bench"
	kvValueSize = 256
	kvConns     = 64
)

// kvKey is the name of key i; all names are of equal length.
func kvKey(i int) string { return fmt.Sprintf("user/%08d/state", i) }

// kvText is a value of size bytes that differs with i.
func kvText(i, size int) []byte {
	text := make([]byte, size)
	for j := range text {
		text[j] = 'a' + byte((i+j*7)%26)
	}
	return text
}

// kvGetBody asks for a key.
func kvGetBody(key int) []byte {
	return fmt.Appendf(nil, `{"ns":"%s","key":"%s"}`, kvNamespace, kvKey(key))
}

// kvGetTape asks for keys drawn at random from n.
func kvGetTape(rnd *rand.Rand, n int) *tape {
	return newTape(protocol.KVGet, tapeLength, func(int) []byte { return kvGetBody(rnd.IntN(n)) })
}

// kvPutTape writes values to keys drawn at random from n.
func kvPutTape(rnd *rand.Rand, n int) *tape {
	return newTape(protocol.KVPut, tapeLength, func(i int) []byte { return kvPutBody(rnd.IntN(n), kvText(i, kvValueSize)) })
}

func kvPutBody(key int, text []byte) []byte {
	return fmt.Appendf(nil, `{"ns":"%s","key":"%s","value":"%s"}`, kvNamespace, kvKey(key), text)
}
