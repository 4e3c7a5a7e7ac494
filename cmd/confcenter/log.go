package main

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLog writes text for people if w is a terminal, and one JSON object per line
// otherwise.
func newLog(w io.Writer, level zerolog.Level) zerolog.Logger {
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// newLogLevel is the value of --log-level.
func newLogLevel() choice {
	return choice{value: "info", allowed: []string{"trace", "debug", "info", "warn", "error"}}
}

// level is what zerolog calls a log level.
func (c *choice) level() zerolog.Level {
	level, _ := zerolog.ParseLevel(c.value) // it is one of the words allowed
	return level
}
