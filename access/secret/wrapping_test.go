package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/secret"
	"confcenter/codes"
)

func key(first byte) []byte { return append([]byte{first}, strings.Repeat("w", secret.KeyBytes-1)...) }

func TestKeysAreReadInHexadecimalAndBase64(t *testing.T) {
	want, err := secret.Parse(hex.EncodeToString(key(1)))
	require.NoError(t, err)
	for _, text := range []string{
		base64.StdEncoding.EncodeToString(key(1)), base64.RawURLEncoding.EncodeToString(key(1)),
		"# new\n\n" + strings.ToUpper(hex.EncodeToString(key(1))) + "\r\n" + hex.EncodeToString(key(2)) + "\n",
	} {
		w, err := secret.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want.First(), w.First())
	}
	for _, text := range []string{"", "# nothing\n", "geheim", hex.EncodeToString(key(1))[2:], hex.EncodeToString(key(1)) + " " + hex.EncodeToString(key(1)), strings.Repeat(hex.EncodeToString(key(1))+"\n", 17)} {
		_, err := secret.Parse(text)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "geheim")
		require.NotContains(t, err.Error(), hex.EncodeToString(key(1))[4:20])
	}
}

func TestADataKeyIsUnwrappedByAnyOfTheKeys(t *testing.T) {
	parse := func(keys ...byte) *secret.Wrapping {
		text := ""
		for _, k := range keys {
			text += hex.EncodeToString(key(k)) + "\n"
		}
		w, err := secret.Parse(text)
		require.NoError(t, err)
		return w
	}
	old, both, other := parse(1), parse(2, 1), parse(3)
	k := secret.NewDataKey(time.UnixMilli(5))
	wrapped := old.Wrap(&k)
	require.Equal(t, old.First(), wrapped.By)
	for _, w := range []*secret.Wrapping{old, both} {
		got, err := w.Unwrap(k.ID, 5, wrapped)
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	_, err := other.Unwrap(k.ID, 5, wrapped)
	require.Equal(t, codes.Forbidden, codes.Of(err))
	require.ErrorContains(t, err, old.First())
	_, err = old.Unwrap("another", 5, wrapped)
	require.Equal(t, codes.Forbidden, codes.Of(err), "a data key is not to be passed off as another")
	_, err = old.Unwrap(k.ID, 5, secret.Wrapped{By: old.First(), Key: "?"})
	require.Equal(t, codes.Storage, codes.Of(err))
}

func TestKeysComeFromAFileThatOnlyItsOwnerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	from := secret.FromFile(path)
	_, err := from(t.Context())
	require.ErrorContains(t, err, "cannot be read")
	require.NoError(t, os.WriteFile(path, []byte(hex.EncodeToString(key(1))+"\n"), 0o600))
	w, err := from(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(hex.EncodeToString(key(2))+"\n"), 0o600))
	next, err := from(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, w.First(), next.First(), "it is read again each time")

	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o660} {
		require.NoError(t, os.Chmod(path, mode))
		_, err = from(t.Context())
		require.Equal(t, codes.Forbidden, codes.Of(err))
		require.ErrorContains(t, err, "chmod 600")
	}
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("#\n", 4<<10)), 0o600))
	_, err = from(t.Context())
	require.Equal(t, codes.TooLarge, codes.Of(err))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = from(t.Context())
	require.ErrorContains(t, err, path+": there is no secret key")
	_, err = secret.FromText("X", "geheim")(t.Context())
	require.ErrorContains(t, err, "X: the secret key in line 1 is not one")
	_, err = secret.FromFile(filepath.Dir(path))(t.Context())
	require.ErrorContains(t, err, "not a regular file")
}

func TestKeysComeFromACommand(t *testing.T) {
	w, err := secret.FromCommand("echo "+hex.EncodeToString(key(1)), io.Discard)(t.Context())
	require.NoError(t, err)
	same, err := secret.FromText("X", hex.EncodeToString(key(1)))(t.Context())
	require.NoError(t, err)
	require.Equal(t, same.First(), w.First())

	var stderr strings.Builder
	_, err = secret.FromCommand("echo geheim; echo why >&2; exit 3", &stderr)(t.Context())
	require.ErrorContains(t, err, "exit status 3")
	require.NotContains(t, err.Error(), "geheim")
	require.Equal(t, "why\n", stderr.String())
	_, err = secret.FromCommand("echo geheim", io.Discard)(t.Context())
	require.Equal(t, codes.BadRequest, codes.Of(err))
	require.NotContains(t, err.Error(), "geheim")
	_, err = secret.FromCommand("yes", io.Discard)(t.Context())
	require.Error(t, err, "one that prints for ever is stopped")
}
