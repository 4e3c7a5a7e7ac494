//go:build !race || soak

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/history"
)

// Whether a document is there, was deleted or never was, and whatever has become of its bases: what
// programs get of it is shown, compared, blamed and explained.
func TestWhatProgramsGetIsWhatIsTold(t *testing.T) {
	f := newFamily()
	k := near(t, f.files)
	before := k.log("_meta").Changes[0].Revision
	was := map[string][]byte{}
	for _, name := range f.heirs {
		was[name] = k.resolved(name)
	}
	var wanted []history.Wanted
	for _, name := range f.gone {
		wanted = append(wanted, history.Wanted{Name: name, Delete: true})
	}
	k.apply(history.ApplyAsk{Documents: wanted})
	for _, name := range f.heirs {
		k.told(name, "", k.resolved(name))
		k.told(name, fmt.Sprint(before), was[name])
		if was[name] == nil || k.resolved(name) == nil {
			continue
		}
		diff := k.diff(history.DiffAsk{Name: name, From: fmt.Sprint(before), Resolved: true})
		bare := strings.HasPrefix(name, "gone-none") || strings.HasPrefix(name, "gone-empty") // what is deleted then and inherits nothing
		require.Equal(t, string(was[name]) == string(k.resolved(name)), diff.Same, name)
		if !diff.Same {
			require.Equal(t, !bare, strings.HasPrefix(diff.Text, fmt.Sprintf("--- %s@%d\n+++ %[1]s@%[3]d\n", name, diff.From.At, diff.To.At)), diff.Text)
		}
	}
}
