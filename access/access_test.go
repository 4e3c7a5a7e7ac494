package access_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/access"
)

func TestActorsAreNamedAsTheOperationLogDoes(t *testing.T) {
	for want, actor := range map[string]*access.Actor{
		"":                         nil,
		"file":                     {Origin: access.OnDisk},
		"http 10.0.0.1:5":          {Origin: access.OverHTTP, Address: "10.0.0.1:5"},
		"10.0.0.1:5@2001-20@fleet": {Name: "2001-20@fleet", Origin: access.OverTCP, Address: "10.0.0.1:5", Comment: "why"},
	} {
		require.Equal(t, want, actor.String())
	}
}

func TestWhoMadeAChangeIsWhatWasProved(t *testing.T) {
	game := &access.Identity{Name: "token:game"}
	for want, actor := range map[string]*access.Actor{
		"":              nil,
		"2001-20@fleet": {Name: "2001-20@fleet"},
		"Zoë":           {Name: "2001-20@fleet", Author: "Zoë"},
		"token:game":    {Name: "root", Identity: game},
		"token:game (root), approved by token:zoe":              {Author: "root", Identity: game, Approver: "token:zoe"},
		`token:game ("zoe (token:zoe), approved by token:max")`: {Author: "zoe (token:zoe), approved by token:max", Identity: game},
		"token:game (root)": {Name: "2001-20@fleet", Author: "root", Identity: game},
	} {
		require.Equal(t, want, actor.By())
	}
}

func TestOnlyWhoIsOfTheirGroupIsAnAdministrator(t *testing.T) {
	for _, nobody := range []*access.Actor{nil, {Name: access.Administrators}, {Identity: &access.Identity{Name: "token:administrators", Groups: []string{"game"}}}} {
		require.False(t, nobody.Administrator(), nobody)
	}
	require.True(t, (&access.Actor{Identity: &access.Identity{Name: "token:zoe", Groups: []string{"game", access.Administrators}}}).Administrator())
}

func TestEveryRightHasANameOfItsOwn(t *testing.T) {
	require.False(t, access.Right(0).Known())
	require.Equal(t, "right 0", access.Right(0).String())
	seen := map[string]bool{}
	for r := access.Anyone; r <= access.StatusProfile; r++ {
		require.True(t, r.Known(), r)
		require.False(t, seen[r.String()], r)
		seen[r.String()] = true
	}
	require.False(t, (access.StatusProfile + 1).Known())
	require.Equal(t, "right 255", access.Right(255).String())
}

func TestWhatARequestSaysIsKeptOrRefused(t *testing.T) {
	a := &access.Actor{Name: "2001-20@fleet", Origin: access.OverTCP, Address: "10.0.0.1:5"}
	same, err := a.Says(access.Said{})
	require.NoError(t, err)
	require.Same(t, a, same)

	said, err := a.Says(access.Said{Author: "Zoë", Comment: "line\n\tline", Token: "t1"})
	require.NoError(t, err)
	require.Equal(t, &access.Actor{Name: "2001-20@fleet", Origin: access.OverTCP, Address: "10.0.0.1:5", Author: "Zoë", Comment: "line\n\tline", Token: "t1"}, said)
	require.Empty(t, a.Author, "other requests share it")

	unknown, err := (*access.Actor)(nil).Says(access.Said{Author: strings.Repeat("a", access.MaxAuthor), Comment: strings.Repeat("c", access.MaxComment)})
	require.NoError(t, err)
	require.Len(t, unknown.Author, access.MaxAuthor)

	for want, said := range map[string]access.Said{
		"the author has 257 bytes, and the limit is 256":    {Author: strings.Repeat("a", access.MaxAuthor+1)},
		"the comment has 4097 bytes, and the limit is 4096": {Comment: strings.Repeat("c", access.MaxComment+1)},
		"the token has 129 bytes, and the limit is 128":     {Token: strings.Repeat("t", access.MaxToken+1)},
		"the author is not UTF-8":                           {Author: "\xff"},
		"the author has control characters":                 {Author: "a\nb"},
		"the comment has control characters":                {Comment: "\x1b[31mred"},
		"the token has control characters":                  {Token: "\x00"},
	} {
		_, err := a.Says(said)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "nothing was written")
	}
}

func TestForeignTextIsMadeToFit(t *testing.T) {
	require.Equal(t, "a b�c", access.Fitted(" a\x1bb\xffc\n", access.MaxAuthor))
	long := access.Fitted(strings.Repeat("é", access.MaxAuthor), access.MaxAuthor)
	require.LessOrEqual(t, len(long), access.MaxAuthor)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, "é…"))
}
