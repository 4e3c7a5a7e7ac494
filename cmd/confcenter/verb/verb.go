// Package verb is what the verbs of the command line have in common: the run of the program that they are part of,
// arguments as the usage line names them, the connection to a server with its settings, and what is printed.
package verb

import (
	"fmt"
	"io"
	"sync"
)

// App is one run of the program, with its streams and environment.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	// Foreign are variables of the environment that verbs that connect to a server leave alone, as they are for others.
	Foreign []string

	telling sync.Mutex // held while standard error is written to, as callbacks do, too
}

// UsageError is a mistake in the command line, the environment or the config file. It has an exit code of its own.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

func (e UsageError) Unwrap() error { return e.Err }

// Usagef is the UsageError of a text, as fmt.Errorf makes it.
func Usagef(format string, args ...any) error {
	return UsageError{Err: fmt.Errorf(format, args...)}
}

// Tell writes a line to standard error, of what is not a verb's result. Callbacks may call it.
func (a *App) Tell(format string, args ...any) {
	a.telling.Lock()
	defer a.telling.Unlock()
	fmt.Fprintf(a.Stderr, "confcenter: "+format+"\n", args...)
}
