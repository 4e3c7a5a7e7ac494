package protocol_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// fenced is the contents of the code blocks of a language, in order.
func fenced(text, language string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}

// bytesOf reads a dump: two digits a byte, what follows two blanks is a remark.
func bytesOf(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for _, line := range strings.Split(dump, "\n") {
		digits, _, _ := strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		require.NoError(t, err, line)
		out = append(out, b...)
	}
	return out
}

// Each dump in PROTOCOL.md is followed by what the printer makes of it.
func TestSpecificationExamplesAreTrueBytes(t *testing.T) {
	text := readSpecification(t)
	dumps, lines := fenced(text, "hex"), fenced(text, "frames")
	require.GreaterOrEqual(t, len(dumps), 4)
	require.Len(t, lines, len(dumps))
	for i, dump := range dumps {
		printed := protocol.Printer{Style: protocol.BodyWhole}.AppendStream(nil, bytesOf(t, dump))
		require.Equal(t, lines[i]+"\n", string(printed))
		require.NotContains(t, string(printed), "! ", "whole frames")
	}
}

// Bodies shown in PROTOCOL.md are JSON.
func TestSpecificationBodiesAreJSON(t *testing.T) {
	bodies := fenced(readSpecification(t), "json")
	require.NotEmpty(t, bodies)
	for _, block := range bodies {
		for _, body := range strings.Split(block, "\n") {
			_, err := jsontext.Check([]byte(body))
			require.NoError(t, err, body)
		}
	}
}

func TestSpecificationNamesTheLimits(t *testing.T) {
	text := readSpecification(t)
	for name, limit := range map[string]int{
		"body before WHOAMI":     protocol.MaxAnonymousBody,
		"body after WHOAMI":      protocol.MaxBody,
		"nesting of a body":      jsontext.MaxDepth,
		"properties in one body": protocol.MaxProperties,
	} {
		require.Contains(t, text, fmt.Sprintf("| %s | %s ", name, thousands(limit)))
	}
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
