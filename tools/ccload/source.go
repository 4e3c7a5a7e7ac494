package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"confcenter/protocol"
)

// source produces the requests of a load. The connection fills in the sequence of
// the header.
type source interface {
	// next appends one whole frame.
	next(dst []byte) []byte
	// expect is the id of the replies.
	expect() protocol.Command
}

// tape is a source of frames made beforehand and given out in a circle: the load side
// pays for one copy and no more. One cursor serves all connections, so a tape of n
// requests played for n gives each once.
type tape struct {
	cmd    protocol.Command
	frames []byte
	ends   []int // end of each frame in frames
	at     int
}

func (t *tape) expect() protocol.Command { return t.cmd.Reply() }

func (t *tape) next(dst []byte) []byte {
	start := 0
	if t.at > 0 {
		start = t.ends[t.at-1]
	}
	dst = append(dst, t.frames[start:t.ends[t.at]]...)
	if t.at++; t.at == len(t.ends) {
		t.at = 0
	}
	return dst
}

// newTape makes n requests with the bodies that body returns.
func newTape(cmd protocol.Command, n int, body func(i int) []byte) *tape {
	t := &tape{cmd: cmd}
	for i := range n {
		t.add(protocol.AppendFrame(nil, cmd, 0, body(i)))
	}
	return t
}

// add adds a whole request, which may be of another protocol.
func (t *tape) add(request []byte) {
	t.frames = append(t.frames, request...)
	t.ends = append(t.ends, len(t.frames))
}

// tapeLength is how many requests a tape of random reads holds: enough that a
// server that remembers requests by their bytes gains nothing.
const tapeLength = 1 << 14

// readTape asks for the value at path, or the whole document if path is empty, of
// documents drawn at random from names. Members come in varied order, with and
// without optional ones that change nothing.
func readTape(rnd *rand.Rand, names []string, path string) *tape {
	return newTape(protocol.GetConfig, tapeLength, func(int) []byte { return queryBody(rnd, names[rnd.IntN(len(names))], path) })
}

// pathTape asks once, in random order, for each pair of a name and a path.
func pathTape(rnd *rand.Rand, names, paths []string) *tape {
	order := rnd.Perm(len(paths))
	return newTape(protocol.GetConfig, len(paths), func(i int) []byte { return queryBody(rnd, names[order[i]%len(names)], paths[order[i]]) })
}

// queryBody is a GETCONFIG request as different clients would write it.
func queryBody(rnd *rand.Rand, name, path string) []byte {
	members := []string{`"file_pattern":` + strconv.Quote(name)}
	switch {
	case path != "":
		members = append(members, `"key_pattern":`+strconv.Quote(path))
	case rnd.IntN(4) == 0:
		members = append(members, `"key_pattern":""`)
	}
	if rnd.IntN(2) == 0 {
		members = append(members, `"incbase":`+strconv.Itoa(rnd.IntN(2)))
	}
	if rnd.IntN(3) == 0 {
		members = append(members, `"gt_mtime":0`)
	}
	rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	comma := ","
	if rnd.IntN(3) == 0 {
		comma = ", "
	}
	return []byte("{" + strings.Join(members, comma) + "}")
}

// writes is a source of requests that each write something different: body gets a
// number that grows with every request.
type writes struct {
	cmd  protocol.Command
	n    int
	body func(dst []byte, n int) []byte
}

func (w *writes) expect() protocol.Command { return w.cmd.Reply() }

func (w *writes) next(dst []byte) []byte {
	w.n++
	start := len(dst)
	return protocol.FinishFrame(w.body(protocol.BeginFrame(dst, w.cmd, 0), w.n), start)
}

// newWrites writes documents of about size bytes to names in turn. first numbers the
// first write and must differ between runs against the same files, so that every write
// is a change.
func newWrites(names []string, size, first int) *writes {
	pad := kvText(0, max(0, size-len(`{"n":12345678,"pad":""}`)))
	var doc []byte
	return &writes{cmd: protocol.SetConfig, n: first, body: func(dst []byte, n int) []byte {
		doc = fmt.Appendf(doc[:0], `{"n":%d,"pad":"%s"}`, n, pad)
		return protocol.AppendConfigUpdate(dst, protocol.ConfigUpdate{Name: names[n%len(names)], Contents: doc})
	}}
}

// newKVWrites puts different values to one key.
func newKVWrites() *writes {
	return &writes{cmd: protocol.KVPut, body: func(dst []byte, n int) []byte { return appendKVPut(dst, 0, kvText(n, kvValueSize)) }}
}

// replyStart is how nearly every reply with code 0 begins. Comparing with it first
// spares the load side the check token by token.
var replyStart = []byte(`{"code":0,`)

// replyOK reports whether body begins as every reply with code 0 does. It looks no
// further: contents are checked once before a load, not a million times in it.
func replyOK(body []byte) bool {
	if bytes.HasPrefix(body, replyStart) {
		return true
	}
	for _, token := range []string{"{", `"code"`, ":", "0"} {
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(body, " "), []byte(token))
		if !ok {
			return false
		}
		body = rest
	}
	return len(body) > 0 && (body[0] == ',' || body[0] == '}' || body[0] == ' ')
}

// replyError quotes a reply that is not code 0.
func replyError(cmd protocol.Command, body []byte) error {
	return fmt.Errorf("%v answered %.300q", cmd, body)
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

// smallDocument is a document whose GETCONFIG reply has a body of size bytes, or is as
// short as its members allow.
func smallDocument(name string, i, size int) []byte {
	around := len(protocol.AppendConfigStart(nil, 1700000000, []byte(strconv.Quote(name)))) + len(protocol.ConfigEnd)
	doc := fmt.Sprintf(`{"id":%d,"host":"10.0.%d.%d","part":"%s","pad":"`, i, i/250%250, i%250, strings.Repeat("z", partSize-2))
	pad := size - around - len(doc) - len(`"}`)
	return []byte(doc + strings.Repeat("x", max(0, pad)) + `"}`)
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

// largePaths are the paths of every member of a large document.
func largePaths(members int) []string { return numbered("/k%05d", members) }

// writeFiles fills dir with n small documents.
func writeFiles(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range fileNames(n) {
		if err := os.WriteFile(filepath.Join(dir, name), smallDocument(name, i, replySize), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// What the figures of the state store are measured with.
const (
	kvNamespace = "bench"
	kvValueSize = 256
	kvConns     = 64
	// kvReplySize is the size of a reply's body in the figures for gets, in bytes.
	kvReplySize = 280
	// kvBatch is how many keys one request of a load writes.
	kvBatch = 500
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
	return newTape(protocol.KVPut, tapeLength, func(i int) []byte { return appendKVPut(nil, rnd.IntN(n), kvText(i, kvValueSize)) })
}

func appendKVPut(dst []byte, key int, text []byte) []byte {
	return fmt.Appendf(dst, `{"ns":"%s","key":"%s","value":"%s"}`, kvNamespace, kvKey(key), text)
}

// kvIncrTape adds to one key.
func kvIncrTape() *tape {
	return newTape(protocol.KVIncr, 1, func(int) []byte { return []byte(`{"ns":"` + kvNamespace + `","key":"counter"}`) })
}
