package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"
)

// newLog writes text for people if w is a terminal, and one JSON object per line
// otherwise.
func newLog(w io.Writer, level zerolog.Level) zerolog.Logger {
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: unescaped(w), TimeFormat: time.TimeOnly, FormatPrepare: func(event map[string]any) error {
			if text, ok := event[zerolog.MessageFieldName].(string); ok { // it quotes all others by itself
				event[zerolog.MessageFieldName] = string(appendEscaped(nil, []byte(text)))
			}
			return nil
		}}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
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
