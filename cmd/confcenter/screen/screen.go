// Package screen is how text reaches people at a terminal: escaped where it is not only ours, and in tables
// that fit. Streams that are no terminals get what is written to them as it is.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"confcenter/internal/jsontext"
)

// screen is a terminal. What peers have written may reach it as names, values and errors, so it is sent
// no character that would control it, or have text look as if it said something else.
type screen struct {
	file *os.File

	mu   sync.Mutex
	rest []byte // guarded by mu: the beginning of a character
}

// Of is a stream for what is not only ours; a stream that is no terminal stays as it is.
func Of(stream io.Writer) io.Writer {
	if file, ok := stream.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &screen{file: file}
	}
	return stream
}

// Raw is a stream for what is only ours, or has to be exact.
func Raw(stream io.Writer) io.Writer {
	if s, ok := stream.(*screen); ok {
		return s.file
	}
	return stream
}

// IsTerminal reports whether a person is at the other end of a stream.
func IsTerminal(stream any) bool {
	switch s := stream.(type) {
	case *screen:
		return true
	case *os.File:
		return term.IsTerminal(int(s.Fd()))
	}
	return false
}

// Write implements io.Writer.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.rest, text...)
	whole := len(all)
	for i := 1; i < utf8.UTFMax && i <= len(all); i++ {
		if tail := all[len(all)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= i
			}
			break
		}
	}
	s.rest = append([]byte(nil), all[whole:]...)
	if _, err := s.file.Write(AppendEscaped(nil, all[:whole])); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Flush writes what was the beginning of a character and stays one.
func Flush(stream io.Writer) {
	if s, ok := stream.(*screen); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = s.file.Write(AppendEscaped(nil, s.rest))
		s.rest = nil
	}
}

// AppendEscaped appends text with the characters escaped that no one sees, or that control terminals: as
// JSON does, so that JSON stays the same. Line ends and tabs stay.
func AppendEscaped(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[i])
		case r == '\n', r == '\t', jsontext.Visible(r), r == '\r' && i+1 < len(text) && text[i+1] == '\n':
			dst = append(dst, text[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		i += size
	}
	return dst
}

// Visible is a text on one line, in which what cannot be seen is escaped.
func Visible(text string) string {
	return lineEnds.Replace(string(AppendEscaped(nil, []byte(text))))
}

var lineEnds = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)
