package secret

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
)

// Limits of what keys come from.
const (
	maxKeys       = 16
	maxKeyText    = 4 << 10
	commandWaits  = 30 * time.Second
	worldReadable = 0o077
)

// Wrapping is a list of keys that wrap data keys: the first wraps, and all unwrap. It never changes.
type Wrapping struct {
	keys []wrappingKey
}

type wrappingKey struct {
	name string // tells it from others, and nothing of it
	aead cipher.AEAD
}

// Parse reads keys, one on a line, in hexadecimal or base64. Empty lines and what follows a # at the
// beginning of one are ignored. Errors have nothing of the text.
func Parse(text string) (*Wrapping, error) {
	w := &Wrapping{}
	line := 0
	for row := range strings.Lines(text) {
		line++
		if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
			continue
		}
		key := decoded(row)
		switch {
		case key == nil:
			return nil, codes.Errorf(codes.BadRequest, "the secret key in line %d is not one: it must be 32 random bytes in hexadecimal or base64, as `openssl rand -hex 32` prints them", line)
		case len(w.keys) == maxKeys:
			return nil, codes.Errorf(codes.Limit, "there are more than %d secret keys; remove those that no data key needs", maxKeys)
		}
		sum := sha256.Sum256(append([]byte("confcenter wrapping key v1\x00"), key...))
		w.keys = append(w.keys, wrappingKey{hex.EncodeToString(sum[:4]), gcm(key)})
		clear(key)
	}
	if len(w.keys) == 0 {
		return nil, codes.Errorf(codes.BadRequest, "there is no secret key: it must be 32 random bytes in hexadecimal or base64, as `openssl rand -hex 32` prints them")
	}
	return w, nil
}

// decoded is nil if text is no key.
func decoded(text string) []byte {
	if key, err := hex.DecodeString(text); err == nil && len(key) == KeyBytes {
		return key
	}
	text = strings.TrimRight(text, "=")
	for _, form := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := form.Strict().DecodeString(text); err == nil && len(key) == KeyBytes {
			return key
		}
	}
	return nil
}

// First is the name of the key that wraps.
func (w *Wrapping) First() string { return w.keys[0].name }

// Equal reports whether both are the same keys in the same order.
func (w *Wrapping) Equal(other *Wrapping) bool {
	return slices.EqualFunc(w.keys, other.keys, func(a, b wrappingKey) bool { return a.name == b.name })
}

// Wrapped is a data key as it is kept.
type Wrapped struct {
	By  string `json:"by"`  // the name of the key that wraps it
	Key string `json:"key"` // base64
}

func dataAdditional(id string) []byte { return []byte(dataKeyLabel + id) }

// Wrap wraps a data key.
func (w *Wrapping) Wrap(k *Key) Wrapped {
	return Wrapped{w.First(), text64.EncodeToString(w.keys[0].aead.Seal(nil, nil, k.Key[:], dataAdditional(k.ID)))}
}

// Unwrap returns a data key. codes.Forbidden: none of the keys wraps it.
func (w *Wrapping) Unwrap(id string, made int64, wrapped Wrapped) (Key, error) {
	k := Key{ID: id, Made: made}
	raw, err := text64.DecodeString(wrapped.Key)
	if err != nil {
		return k, codes.Errorf(codes.Storage, "the data key %.40q is damaged; restore a backup", id)
	}
	for i := range w.keys {
		if key, err := w.keys[i].aead.Open(nil, nil, raw, dataAdditional(id)); err == nil && len(key) == KeyBytes {
			copy(k.Key[:], key)
			clear(key)
			return k, nil
		}
	}
	return k, codes.Errorf(codes.Forbidden, "the data key %.40q is wrapped by the secret key %.40q, which was not given; add that one behind the new one", id, wrapped.By)
}

// NewDataKey makes a data key.
func NewDataKey(now time.Time) Key {
	k := Key{ID: newID(), Made: now.UnixMilli()}
	_, _ = rand.Read(k.Key[:]) // it never fails
	return k
}

// Source is where keys come from. It may be asked again, for others that have come in their place.
type Source func(ctx context.Context) (*Wrapping, error)

// FromText is a Source of the same keys for ever; where is what errors call it.
func FromText(where, text string) Source {
	return func(context.Context) (*Wrapping, error) { return parse(where, text) }
}

// parse is Parse with errors that say where the text is from.
func parse(where, text string) (*Wrapping, error) {
	w, err := Parse(text)
	if err != nil {
		return nil, codes.Errorf(codes.Of(err), "%s: %s", where, codes.Message(err))
	}
	return w, nil
}

// FromFile is a Source that reads a file, which only its owner may read.
func FromFile(path string) Source {
	return func(context.Context) (*Wrapping, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, codes.Errorf(codes.Storage, "the secret key cannot be read: %w", err)
		}
		defer f.Close()
		info, err := f.Stat()
		switch {
		case err != nil:
			return nil, codes.Errorf(codes.Storage, "the secret key cannot be read: %w", err)
		case !info.Mode().IsRegular():
			return nil, codes.Errorf(codes.BadRequest, "the secret key %s is not a regular file", path)
		case info.Mode().Perm()&worldReadable != 0:
			return nil, codes.Errorf(codes.Forbidden, "the secret key %s may be read by others than its owner (mode %04o): chmod 600 it, and if others have read it, use a new one", path, info.Mode().Perm())
		}
		text, err := io.ReadAll(io.LimitReader(f, maxKeyText+1))
		switch {
		case err != nil:
			return nil, codes.Errorf(codes.Storage, "the secret key cannot be read: %w", err)
		case len(text) > maxKeyText:
			return nil, codes.Errorf(codes.TooLarge, "the secret key %s has more than %d bytes; it must be 32 random bytes in hexadecimal or base64", path, maxKeyText)
		}
		return parse(path, string(text))
	}
}

// FromCommand is a Source that runs a command by the shell and takes what it prints. What it prints
// to standard error goes to stderr.
func FromCommand(command string, stderr io.Writer) Source {
	return func(ctx context.Context) (*Wrapping, error) {
		ctx, cancel := context.WithTimeout(ctx, commandWaits)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		out := &bounded{}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, stderr, time.Second
		if err := cmd.Run(); err != nil {
			return nil, codes.Errorf(codes.Storage, "the command for the secret key failed: %w", err)
		}
		return parse("what the command for the secret key prints", out.text.String())
	}
}

// bounded takes no more than a key has.
type bounded struct {
	text strings.Builder
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxKeyText {
		return 0, codes.Errorf(codes.TooLarge, "it prints more than %d bytes", maxKeyText)
	}
	return b.text.Write(p)
}
