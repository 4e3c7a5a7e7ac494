package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json" // decodes lines, which jsontext has checked, and which have to be as Append writes them
	"fmt"
	"slices"
	"strconv"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// Limits of a line: names beyond the first MostNames are only counted, and texts are cut. A line is
// never longer than MostLine, in bytes.
const (
	MostNames = 16
	MostName  = 256
	MostLine  = 16 << 10
)

// Line is one line of the audit, as JSON has it. Times are ms since 1970.
type Line struct {
	Seq     int64    `json:"seq" doc:"number of the line, from 1"`
	Prev    string   `json:"prev" doc:"SHA-256 of the line before, in hexadecimal; zeros: this is the first"`
	Time    int64    `json:"time" doc:"when, in ms since 1970"`
	Kind    string   `json:"kind" doc:"what kind of event: change, permission, token, login, logout, denied, review, refused, lost or pruned"`
	Who     string   `json:"who,omitempty" doc:"who it was proved to be, with its kind; empty: no one in particular"`
	Says    string   `json:"says,omitempty" doc:"who it says it is, which proves nothing"`
	Via     string   `json:"via,omitempty" doc:"the way: tcp, http, console, file, rollback, release or server"`
	From    string   `json:"from,omitempty" doc:"address of the peer, with its port"`
	Do      string   `json:"do,omitempty" doc:"what was done or asked, in a word"`
	What    []string `json:"what,omitempty" doc:"to what, each with its class: config:NAME, kv:NAMESPACE/KEY, token:NAME"`
	More    int64    `json:"more,omitempty" doc:"how many further things are not named"`
	Rev     int64    `json:"rev,omitempty" doc:"revision of the state store, of a change"`
	Outcome string   `json:"outcome" doc:"ok, or the name of the error that it was refused with"`
	Count   int64    `json:"count,omitempty" doc:"how often, if it was more than once"`
	Since   int64    `json:"since,omitempty" doc:"when the first of these was, in ms since 1970"`
}

// done is the outcome of what was done.
const done = "ok"

// LineOf is a line about an event, without its place in the chain.
func LineOf(e *access.Event, now int64, rev int64) Line {
	l := Line{Time: now, Kind: string(e.Kind), Do: cut(e.Do, 64), Rev: rev, Outcome: done, More: e.More, Count: e.Count, Since: e.Since}
	if e.Outcome != codes.OK {
		l.Outcome = e.Outcome.Name()
	}
	if by := e.By; by != nil {
		l.Via, l.From = cut(by.Origin, 16), cut(by.Address, 64)
		if l.Says = cut(cmp.Or(by.Author, by.Name), MostName); by.Identity != nil {
			l.Who = cut(by.Identity.Name, MostName)
		}
	}
	n := min(len(e.What), MostNames)
	l.More += int64(len(e.What) - n)
	for _, what := range e.What[:n] {
		l.What = append(l.What, cut(what, MostName))
	}
	return l
}

// cut makes text fit into a line, wherever it comes from.
func cut(text string, most int) string {
	if len(text) <= most && plain(text) {
		return text
	}
	return access.Fitted(text, most)
}

func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7F {
			return false
		}
	}
	return true
}

// Removed is what a line of kind pruned says of the lines that were removed, up to last.
func Removed(first, last int64) string { return fmt.Sprintf("audit:%d-%d", first, last) }

// pruned is up to which line the line says that lines were removed; 0: it says nothing of that.
func (l *Line) pruned() int64 {
	var first, last int64
	if l.Kind != string(access.EventPruned) || l.Outcome != done || len(l.What) != 1 {
		return 0
	}
	if _, err := fmt.Sscanf(l.What[0], "audit:%d-%d", &first, &last); err != nil || l.What[0] != Removed(first, last) {
		return 0
	}
	return last
}

// Append appends the line as it is kept and exported, without a line feed. There is one way to
// write a line.
func (l *Line) Append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"seq":`...), l.Seq, 10)
	dst = append(append(append(dst, `,"prev":"`...), l.Prev...), '"')
	dst = number(dst, "time", l.Time, true)
	dst = text(dst, "kind", l.Kind, true)
	dst = text(dst, "who", l.Who, false)
	dst = text(dst, "says", l.Says, false)
	dst = text(dst, "via", l.Via, false)
	dst = text(dst, "from", l.From, false)
	dst = text(dst, "do", l.Do, false)
	for i, what := range l.What {
		if i == 0 {
			dst = append(dst, `,"what":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendQuote(dst, what)
		if i == len(l.What)-1 {
			dst = append(dst, ']')
		}
	}
	dst = number(dst, "more", l.More, false)
	dst = number(dst, "rev", l.Rev, false)
	dst = text(dst, "outcome", l.Outcome, true)
	dst = number(dst, "count", l.Count, false)
	return append(number(dst, "since", l.Since, false), '}')
}

func number(dst []byte, name string, n int64, always bool) []byte {
	if n == 0 && !always {
		return dst
	}
	return strconv.AppendInt(append(append(append(dst, ',', '"'), name...), '"', ':'), n, 10)
}

func text(dst []byte, name, value string, always bool) []byte {
	if value == "" && !always {
		return dst
	}
	return jsontext.AppendQuote(append(append(append(dst, ',', '"'), name...), '"', ':'), value)
}

// ParseLine reads a line, without its line feed. codes.BadJSON: it is none, or is not written as
// Append writes it.
func ParseLine(b []byte) (l Line, err error) {
	if len(b) > MostLine {
		return l, codes.Errorf(codes.BadJSON, "a line of the audit has %d bytes, and the limit is %d", len(b), MostLine)
	}
	if kind, err := jsontext.CheckUTF8(b); err != nil || kind != jsontext.Object {
		return l, codes.Errorf(codes.BadJSON, "a line of the audit is not a JSON object")
	}
	if json.Unmarshal(b, &l) != nil || !bytes.Equal(l.Append(make([]byte, 0, len(b))), b) {
		return l, codes.Errorf(codes.BadJSON, "a line of the audit is not as it was written")
	}
	return l, nil
}

// Head is the end of the chain: the number of the newest line, and its hash. The zero Head is
// before the first.
type Head struct {
	Seq  int64
	Hash [sha256.Size]byte
}

// Next puts a line behind the head, appends it to dst with a line feed, and returns the new head.
func (h Head) Next(dst []byte, l *Line) ([]byte, Head) {
	var prev [2 * sha256.Size]byte
	hex.Encode(prev[:], h.Hash[:])
	l.Seq, l.Prev = h.Seq+1, string(prev[:])
	from := len(dst)
	dst = l.Append(dst)
	return append(dst, '\n'), Head{Seq: l.Seq, Hash: sha256.Sum256(dst[from:])}
}

// String is the head as people compare it: SEQ:HASH.
func (h Head) String() string {
	return strconv.FormatInt(h.Seq, 10) + ":" + hex.EncodeToString(h.Hash[:])
}

// ParseHead reads what String writes. codes.BadRequest.
func ParseHead(text string) (h Head, err error) {
	seq, hash, _ := bytes.Cut([]byte(text), []byte(":"))
	if h.Seq, err = strconv.ParseInt(string(seq), 10, 64); err == nil && len(hash) == hex.EncodedLen(len(h.Hash)) {
		_, err = hex.Decode(h.Hash[:], hash)
	}
	if err != nil || h.String() != text {
		return Head{}, codes.Errorf(codes.BadRequest, "%.100q is no head of the audit: it is SEQ:HASH, as confcenter audit head shows it", text)
	}
	return h, nil
}

// Lines cuts text into its lines, without their line feeds. The last one may lack it.
func Lines(text []byte) [][]byte {
	return slices.Collect(func(yield func([]byte) bool) {
		for line := range bytes.Lines(text) {
			if !yield(bytes.TrimSuffix(line, []byte("\n"))) {
				return
			}
		}
	})
}
