package codes_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
)

// The golden list has no switch that rewrites it: to add a code is to add a line
// by hand, and no one changes one by accident.
func TestNobodyRenumbers(t *testing.T) {
	golden, err := os.ReadFile("testdata/codes.golden")
	require.NoError(t, err)
	var got strings.Builder
	for _, row := range codes.All() {
		fmt.Fprintf(&got, "%d %s %d\n", int(row.Code), row.Name, row.HTTPStatus)
	}
	require.Equal(t, string(golden), got.String())
}

func TestRowsAreWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	names := map[string]bool{}
	last := codes.Code(-1)
	for _, row := range codes.All() {
		require.Greater(t, row.Code, last, "ascending, so no number twice")
		last = row.Code
		require.Regexp(t, name, row.Name)
		require.False(t, names[row.Name], row.Name)
		names[row.Name] = true
		require.NotEmpty(t, row.Text)
		require.Equal(t, row.Code == codes.OK, row.HTTPStatus < 400, row.Name)
		require.True(t, row.Code < 600 || row.Code >= 1001, "numbers of our own start at 1001")
		require.Equal(t, row.Name, row.Code.Name())
		require.Equal(t, row.Name, row.Code.String())
		require.Equal(t, row.HTTPStatus, row.Code.HTTPStatus())
		require.Equal(t, row.Text, row.Code.Error())
	}
}

func TestAllIsACopy(t *testing.T) {
	codes.All()[0].Name = "changed"
	require.Equal(t, "ok", codes.All()[0].Name)
}

func TestUnknownNumber(t *testing.T) {
	require.Equal(t, "code_-49", codes.Code(-49).Name())
	require.Equal(t, 500, codes.Code(-49).HTTPStatus())
	require.Equal(t, "error code -49", codes.Code(-49).Error())
}

func TestCodeOfAnError(t *testing.T) {
	older := codes.Errorf(codes.Older, "app1.json is of %d", 7)
	for name, test := range map[string]struct {
		err     error
		code    codes.Code
		message string
	}{
		"nil":                 {nil, codes.OK, "success"},
		"no code":             {io.EOF, codes.Internal, codes.Internal.Error()},
		"error":               {older, codes.Older, "app1.json is of 7"},
		"wrapped":             {fmt.Errorf("set: %w", older), codes.Older, "app1.json is of 7"},
		"joined":              {errors.Join(io.EOF, older), codes.Older, "app1.json is of 7"},
		"bare code":           {codes.Busy, codes.Busy, codes.Busy.Error()},
		"wrapped bare code":   {fmt.Errorf("set: %w", codes.Busy), codes.Busy, codes.Busy.Error()},
		"outermost wins":      {codes.Errorf(codes.Storage, "not written: %w", older), codes.Storage, "not written: app1.json is of 7"},
		"code around error":   {errors.Join(codes.Busy, older), codes.Busy, codes.Busy.Error()},
		"no text":             {&codes.Error{Code: codes.BadName}, codes.BadName, codes.BadName.Error()},
		"internal is private": {codes.Errorf(codes.Internal, "secret path"), codes.Internal, codes.Internal.Error()},
		"hidden cause":        {&codes.Error{Code: codes.Storage, Text: "disk full", Err: io.EOF}, codes.Storage, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.code, codes.Of(test.err))
			require.Equal(t, test.message, codes.Message(test.err))
			if test.err != nil && test.code != codes.Internal {
				require.ErrorIs(t, test.err, test.code)
			}
			require.NotErrorIs(t, test.err, codes.TooLarge)
		})
	}
}

func TestErrorfKeepsTheCause(t *testing.T) {
	one := codes.Errorf(codes.Storage, "write app1.json: %w", fs.ErrPermission)
	require.ErrorIs(t, one, fs.ErrPermission)
	require.Equal(t, fs.ErrPermission, one.Err)
	require.EqualError(t, one, "write app1.json: permission denied")

	two := codes.Errorf(codes.Storage, "%w after %w", fs.ErrPermission, io.EOF)
	require.ErrorIs(t, two, fs.ErrPermission)
	require.ErrorIs(t, two, io.EOF)
	require.ErrorIs(t, two, codes.Storage)

	require.NoError(t, codes.Errorf(codes.Storage, "disk full").Err)
}

func TestCauseWithACodeIsBoth(t *testing.T) {
	err := codes.Errorf(codes.Unreachable, "gave up: %w", codes.Errorf(codes.Busy, "queue full"))
	require.ErrorIs(t, err, codes.Unreachable)
	require.ErrorIs(t, err, codes.Busy)
	require.Equal(t, codes.Unreachable, codes.Of(err))
}

// However an error is wrapped, its code stays visible.
func TestCodeSurvivesWrapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SampledFrom(codes.All()[1:]).Draw(t, "row").Code
		var err error = codes.Errorf(want, "%s", rapid.String().Draw(t, "text"))
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			err = fmt.Errorf("%s: %w", rapid.String().Draw(t, "around"), err)
		}
		require.Equal(t, want, codes.Of(err))
		require.ErrorIs(t, err, want)
	})
}
