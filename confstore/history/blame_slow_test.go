//go:build !race || soak

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/history"
)

// Of a document with very many values those at a path can still be asked for.
func TestAPartOfVeryManyValuesIsBlamed(t *testing.T) {
	k := near(t, nil)
	var text strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&text, `,"%d":%d`, i, i)
	}
	k.by("ann", "base.json", `{"few":{"x":1,"y":{"z":[{"p":1}]}}`+text.String()+"}")
	k.by("bob", "app.json", `{"few":{"y":{"z":[{"q":1}],"a":{}}}}`)
	k.by("ann", "_meta.json", `{"conf_inherit":{"app.json":"base"},"inherit_options":{"*":{"merge":"deep"}}}`)
	_, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app"})
	k.refused(err, codes.TooLarge, "app.json has too many values to blame at once; name a key path")
	for path, want := range map[string][]string{
		"/few":       {"/few/x base ann", "/few/y/z app bob"},
		"/few/y/z":   {"/few/y/z app bob"},
		"/few/y/z/0": {"/few/y/z/0/q app bob"},
		"/few/y/a":   {"/few/y/a app bob"},
		"/4711":      {"/4711 base ann"},
	} {
		answer, err := k.Blame(k.ctx, nil, &history.BlameAsk{Name: "app", Path: path})
		require.NoError(t, err)
		require.Equal(t, want, blamed(answer), path)
	}
}
