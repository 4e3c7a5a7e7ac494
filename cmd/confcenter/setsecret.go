package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"confcenter/internal/jsontext"
)

// readSecret reads a text that is to be sealed: from a terminal, which does not show it, or from
// standard input, of which the line break at the end is left out. It is no argument, because
// everyone on the machine sees those. prompt says what is asked for.
func (a *app) readSecret(prompt string) (string, error) {
	file, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		text, _, err := a.readInput("-")
		return some(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), err)
	}
	fmt.Fprintf(a.stderr, "%s: ", prompt)
	text, err := term.ReadPassword(int(file.Fd()))
	fmt.Fprintln(a.stderr)
	return some(string(text), err)
}

// some refuses the empty text, which is more likely a mistake than a secret.
func some(text string, err error) (string, error) {
	if err == nil && text == "" {
		err = usageError{errors.New("standard input has no value to be sealed")}
	}
	return text, err
}

// toSeal is the JSON that asks for a text to be sealed.
func toSeal(text string) string {
	return `{"$seal":` + string(jsontext.AppendQuote(nil, text)) + `}`
}
