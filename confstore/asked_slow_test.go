//go:build !race || soak

package confstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What git tells that damages nothing: the owner's.
func TestAGitThatTalksNonsense(t *testing.T) {
	for name, script := range map[string]string{
		"silence":  "exit 0\n",
		"failure":  "echo 'no' >&2\nexit 128\n",
		"nonsense": "yes nonsense | head -c 300000\n",
		"zeros":    "head -c 3000000 /dev/zero\n",
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := newCommitted(t)
			fakeGit(t, script)
			k.open()
			k.asked()
			require.Equal(t, byOwner(t), k.by("a.json"))
			k.mustSet("b.json", `{}`)
		})
	}
}
