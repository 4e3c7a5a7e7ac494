package plum

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTextIsThatOfGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		want, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, string(want), string(AppendText(nil, s)))
	})
	for _, s := range []string{"", "\u2028", "a\u2029b", "\u2027", "€", "\x7f\x00\x1f", "<>&'\"\\/\b\f\n\r\t"} {
		want, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, string(want), string(AppendText(nil, s)))
	}
}
