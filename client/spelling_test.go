package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormsOfAPartNeverShareASpelling(t *testing.T) {
	paths := []string{"/", "//", "a", "a/", "/a", "/a/", "/a//"}
	for _, one := range paths {
		for _, other := range paths {
			merged, own := feedKey{"x", one, true, false}.wirePath(), feedKey{"x", other, false, false}.wirePath()
			require.NotEqual(t, merged, own)
			require.NotEmpty(t, merged, "that would be the whole document")
			require.NotEmpty(t, own)
		}
	}
}
