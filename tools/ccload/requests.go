package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"confcenter/protocol"
)

// source gives the requests of a load. The sequence in the header is the
// connection's to fill in.
type source interface {
	// next appends one whole frame.
	next(dst []byte) []byte
	// expect is the id of the replies.
	expect() protocol.Command
}

// tape is a source of frames made beforehand, given out in order and then from
// the start again: the load side pays for one copy and no more. One cursor
// serves all connections, so a tape of n requests played for n is each once.
type tape struct {
	cmd    protocol.Command
	frames []byte
	ends   []int // end of each frame in frames
	at     int
}

func (t *tape) expect() protocol.Command { return t.cmd.Reply() }

func (t *tape) len() int { return len(t.ends) }

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

func (t *tape) add(body []byte) {
	t.frames = protocol.AppendFrame(t.frames, t.cmd, 0, body)
	t.ends = append(t.ends, len(t.frames))
}

// addRaw is for what is not our protocol's.
func (t *tape) addRaw(request []byte) {
	t.frames = append(t.frames, request...)
	t.ends = append(t.ends, len(t.frames))
}

// tapeLength is how many requests a tape of random reads holds: enough that a
// server that remembers requests by their bytes has no profit from it.
const tapeLength = 1 << 14

// readTape asks for whole documents, names drawn from names at random. Members
// come in varied order, with and without those that change nothing.
func readTape(rnd *rand.Rand, names []string) *tape {
	t := &tape{cmd: protocol.GetConfig}
	for range tapeLength {
		t.add(queryBody(rnd, names[rnd.IntN(len(names))], ""))
	}
	return t
}

// pathTape asks once, in random order, for each pair of a name and a path.
func pathTape(rnd *rand.Rand, names, paths []string) *tape {
	t := &tape{cmd: protocol.GetConfig}
	for _, i := range rnd.Perm(len(paths)) {
		t.add(queryBody(rnd, names[i%len(names)], paths[i]))
	}
	return t
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
	body := append([]byte{'{'}, members[0]...)
	for _, m := range members[1:] {
		body = append(append(body, comma...), m...)
	}
	return append(body, '}')
}

// writeSource is a source of SETCONFIG requests, each of which changes its file:
// names in turn, a number that rises, and padding up to a size.
type writeSource struct {
	names []string
	pad   []byte
	body  []byte
	n     int
}

// newWrites makes contents of about size bytes. first is the number of the first
// change; another one is needed for each run against the same files.
func newWrites(names []string, size, first int) *writeSource {
	pad := make([]byte, max(0, size-len(`{"n":12345678,"pad":""}`)))
	for i := range pad {
		pad[i] = 'a' + byte(i%26)
	}
	return &writeSource{names: names, pad: pad, n: first}
}

func (w *writeSource) expect() protocol.Command { return protocol.SetConfig.Reply() }

func (w *writeSource) next(dst []byte) []byte {
	w.n++
	w.body = append(w.body[:0], `{"n":`...)
	w.body = strconv.AppendInt(w.body, int64(w.n), 10)
	w.body = append(append(append(w.body, `,"pad":"`...), w.pad...), `"}`...)
	start := len(dst)
	dst = protocol.BeginFrame(dst, protocol.SetConfig, 0)
	dst = protocol.AppendConfigUpdate(dst, protocol.ConfigUpdate{Name: w.names[w.n%len(w.names)], Contents: w.body})
	return protocol.FinishFrame(dst, start)
}

// replyOK says that body begins as every reply with code 0 does. It looks no
// further: contents are checked once before a load, not a million times in it.
func replyOK(body []byte) bool {
	rest, ok := skip(body, "{")
	if ok {
		rest, ok = skip(rest, `"code"`)
	}
	if ok {
		rest, ok = skip(rest, ":")
	}
	if ok {
		rest, ok = skip(rest, "0")
	}
	return ok && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}' || rest[0] == ' ')
}

// skip drops blanks and then token from the front of b.
func skip(b []byte, token string) ([]byte, bool) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if len(b) < len(token) || string(b[:len(token)]) != token {
		return b, false
	}
	return b[len(token):], true
}

// replyError quotes a reply that is not code 0.
func replyError(cmd protocol.Command, body []byte) error {
	return fmt.Errorf("%v answered %.300q", cmd, body)
}
