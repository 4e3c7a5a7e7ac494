package screen

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTablesFitTheTerminal(t *testing.T) {
	lines := []string{"NAME\tCOMMENT\tBY", "a.json\t" + strings.Repeat("long ", 30) + "\tann", "b.json\t" + strings.Repeat("限流", 20) + "\tann"}
	whole := slices.Clone(lines)
	fit(lines, 200)
	require.Equal(t, whole, lines)
	fit(lines, 40)
	require.Equal(t, whole[0], lines[0])
	for _, line := range lines[1:] {
		require.LessOrEqual(t, columns(strings.ReplaceAll(line, "\t", "  ")), 40, line)
		require.Regexp(t, `^[ab]\.json\t.{13,}…\tann$`, line)
	}
	id := []string{"0123456789abcdef\t0123456789abcdef\t" + strings.Repeat("x", 99)}
	fit(id, 30)
	require.Equal(t, "0123456789abcdef\t0123456789abcdef\t"+strings.Repeat("x", 19)+"…", id[0], "what one copies stays whole")
}
