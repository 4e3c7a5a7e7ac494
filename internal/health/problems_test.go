package health

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestProblemsOfDifferentSourcesDoNotHealEachOther(t *testing.T) {
	p := NewProblems(zerolog.Logger{}, time.Now)
	p.Set("file", "_meta.json", "broken")
	p.Replace("meta", []Problem{{Name: "_meta.json", Text: "unknown option"}, {Name: "a.json", Text: "cycle"}})
	require.Len(t, p.All(), 3)
	p.Set("file", "_meta.json", "")
	p.Replace("meta", []Problem{{Name: "a.json", Text: "cycle"}})
	require.Len(t, p.All(), 1)
	require.Equal(t, "a.json", p.All()[0].Name)
}
