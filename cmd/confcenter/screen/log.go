package screen

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"confcenter/internal/settings"
)

// NewLog writes text for people if w is a terminal, and one JSON object per line
// otherwise.
func NewLog(w io.Writer, level zerolog.Level) zerolog.Logger {
	if IsTerminal(w) {
		w = zerolog.ConsoleWriter{Out: Raw(w), TimeFormat: time.TimeOnly, FormatPrepare: func(event map[string]any) error {
			if text, ok := event[zerolog.MessageFieldName].(string); ok { // it quotes all others by itself
				event[zerolog.MessageFieldName] = string(AppendEscaped(nil, []byte(text)))
			}
			return nil
		}}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// LogLevels is the value of --log-level.
func LogLevels() settings.Choice {
	return settings.Choice{Value: "info", Allowed: []string{"trace", "debug", "info", "warn", "error"}}
}

// Level is what zerolog calls a log level.
func Level(c settings.Choice) zerolog.Level {
	level, _ := zerolog.ParseLevel(c.Value) // it is one of the words allowed
	return level
}
