package verb

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"confcenter/codes"
	"confcenter/confstore/history"
	"confcenter/kv"
)

// ReadInput reads a file, or standard input for "-", up to a limit; name is for messages.
func (a *App) ReadInput(file string) (text []byte, name string, err error) {
	if file == "-" {
		name = "standard input"
		text, err = readUpTo(maxInput, a.Stdin, name)
		return text, name, err
	}
	text, err = readFile(maxInput, file)
	return text, file, err
}

func readFile(limit int, file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(limit, f, file)
}

func readUpTo(limit int, in io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > limit {
		return nil, codes.Errorf(codes.TooLarge, "%s: at most %d bytes are allowed", name, limit)
	}
	return text, nil
}

// maxInput limits what ReadInput reads. A server accepts far less; the limit only keeps an
// endless standard input from filling the memory.
const maxInput = 64 << 20

// ReadArgument reads an argument that is a value: its text, @FILE, or - for standard input; a text that begins
// with @ has one more before it.
func (a *App) ReadArgument(text string) ([]byte, error) {
	switch {
	case text == "-":
		return readUpTo(kv.MaxValue, a.Stdin, "standard input")
	case strings.HasPrefix(text, "@@"):
		text = text[1:]
	case strings.HasPrefix(text, "@"):
		return readFile(kv.MaxValue, text[1:])
	}
	return []byte(text), nil
}

// ReadSecret reads a text that is to be sealed: from a terminal, which does not show it, or from
// standard input, of which the line break at the end is left out. It is no argument, because
// everyone on the machine sees those. prompt says what is asked for.
func (a *App) ReadSecret(prompt string) (string, error) {
	file, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		text, _, err := a.ReadInput("-")
		return some(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err)
	}
	fmt.Fprintf(a.Stderr, "%s: ", prompt)
	text, err := term.ReadPassword(int(file.Fd()))
	fmt.Fprintln(a.Stderr)
	return some(string(text), err)
}

// some refuses the empty text, which is more likely a mistake than a secret.
func some(text string, err error) (string, error) {
	if err == nil && text == "" {
		err = Usagef("standard input has no value to be sealed")
	}
	return text, err
}

// ReadTime reads a time as people write it, and repeats it as RepeatTime does; what is the setting that
// has it.
func (a *App) ReadTime(what, text string) (time.Time, error) {
	at, ok := history.ParseTime(text)
	if !ok {
		return at, Usagef("%s = %s: must be a time like 2026-11-22T18:00:00Z", what, text)
	}
	a.RepeatTime(text)
	return at, nil
}

// RepeatTime says on standard error how a time is meant that is not written in UTC, before anything
// follows from it. Other moments are none of its business.
func (a *App) RepeatTime(text string) {
	if at, ok := history.ParseTime(text); ok {
		if meant := at.Format(time.RFC3339Nano); meant != text {
			a.Tell("%s is %s", text, meant)
		}
	}
}
