package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/protocol"
)

// After a change of the command table or the template, run go generate.
func TestTheDissectorIsCurrent(t *testing.T) {
	want, err := generate()
	require.NoError(t, err)
	got, err := os.ReadFile("../../../tools/wireshark/confcenter.lua")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./internal/generate/wireshark")
}

func TestEveryCommandIsInIt(t *testing.T) {
	text, err := generate()
	require.NoError(t, err)
	for _, row := range protocol.Commands {
		require.Contains(t, string(text), `{ "`+row.Name+`", `)
	}
	require.NotContains(t, string(text), "<no value>")
}

func TestDepthIsTheScanners(t *testing.T) {
	_, err := jsontext.Check([]byte(strings.Repeat("[", deepest) + strings.Repeat("]", deepest)))
	require.NoError(t, err)
	_, err = jsontext.Check([]byte(strings.Repeat("[", deepest+1) + strings.Repeat("]", deepest+1)))
	require.Error(t, err)
}

// PROTOCOL.md: raw is a length in the requests that have a value, and a flag, if
// anything, in all others; bodies may be left out where it says so.
func TestMarksOfTheTable(t *testing.T) {
	var valued, empty, want []string
	for _, row := range protocol.Commands {
		letters := marks(row)
		if row.Op.Has(kv.MemberValue) && row.ID != protocol.KVRestore || row.ID == protocol.KVLock {
			want = append(want, row.Name)
		}
		require.Equal(t, row.ID.IsState(), strings.Contains(letters, "s"), row.Name)
		if strings.Contains(letters, "v") {
			valued = append(valued, row.Name)
		}
		if strings.Contains(letters, "e") && row.Role == protocol.Served {
			empty = append(empty, row.Name)
		}
	}
	require.Equal(t, want, valued)
	require.Subset(t, valued, []string{"KVPUT", "KVCAS", "KVLOCK"})
	require.Equal(t, []string{"KEEPALIVE", "GETCFGNAME"}, empty)
}
