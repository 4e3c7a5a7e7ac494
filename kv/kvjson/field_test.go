package kvjson

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader who meets a name finds what it is.
func TestEveryFieldIsDocumented(t *testing.T) {
	var text []byte
	for _, file := range []string{"../../PROTOCOL.md", "../../server/http/openapi.json"} {
		more, err := os.ReadFile(file)
		require.NoError(t, err)
		text = append(text, more...)
	}
	for f := noField + 1; f < fieldCount; f++ {
		require.Equal(t, f, fieldOf([]byte(f.String())))
		require.Regexp(t, regexp.MustCompile("[`\", ]"+f.String()+"[`\",=]"), string(text))
	}
	for _, name := range []string{"", "Key", "keys_", "ttl_s"} {
		require.Equal(t, noField, fieldOf([]byte(name)), name)
	}
}
