package integration

import (
	_ "embed"
	"fmt"

	"github.com/stretchr/testify/require"
)

// soundness is a script that finds what is wrong with how a page is built and looks.
//
//go:embed testdata/soundness.js
var soundness string

// sound requires of what a page shows that it has one heading of the first level and skips none,
// that fields have names, that tabs and the navigation say which one is chosen and what it shows, that
// each text stands out from what it lies on, and that nothing is cut off or lies on something else.
func (tb *tab) sound(what string) {
	tb.t.Helper()
	require.Empty(tb.t, eval[[]string](tb, fmt.Sprintf("(%s)()", soundness)), "%s at %d", what, tb.size[0])
}
