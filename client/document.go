package client

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// Document is one state of a config, or of the part of it that Query.Path
// names. It is immutable and may be used by any number of goroutines.
//
// The getters take a key path below the document, such as `/database/hosts/0`; "" is
// the document itself. They return the default if there is nothing at the path or
// something of another type.
type Document struct {
	// Name, Path and Merged are the Query's; Name is never empty for a document
	// that exists, also when the Query asked for the main config.
	Name   string
	Path   string
	Merged bool
	// Mtime is the version in whole seconds since 1970. It only ever rises on one
	// server; it is 0 for a file that never was there.
	Mtime int32

	raw    []byte // compact JSON, nil if absent
	gone   bool   // there is no file, as far as is known of it
	broken string // why it is, though there is a file; or ""
	stale  bool
	stored time.Time // when the server sent or confirmed it
	epoch  string    // of that server's data
	clock  clock.Clock

	indexed sync.Once
	index   *jsonpath.Index
}

// indexFrom is the size in bytes from which the first getter indexes the
// document instead of scanning it for each path.
const indexFrom = 16 << 10

// Exists is false if the server said that there is no such file or nothing at
// the path. A file that was deleted does not exist.
func (d *Document) Exists() bool { return d.raw != nil }

// Stale reports whether the document is the last one known, because no server
// answered in time.
func (d *Document) Stale() bool { return d.stale }

// StoredAt is when the server sent or last confirmed the document.
func (d *Document) StoredAt() time.Time { return d.stored }

// Age is the time since StoredAt. A stale document may have changed on the server at
// any time since then.
func (d *Document) Age() time.Duration { return max(0, d.clock.Now().Sub(d.stored)) }

// Raw is the document as compact JSON, numbers and strings as they are in the file;
// nil if it does not exist. It must not be modified.
func (d *Document) Raw() []byte { return d.raw }

// Lookup returns the JSON text at path, or false if there is nothing. The text must
// not be modified.
func (d *Document) Lookup(path string) ([]byte, bool) {
	if d.raw == nil {
		return nil, false
	}
	if len(d.raw) < indexFrom {
		return jsonpath.Lookup(d.raw, []byte(path))
	}
	d.indexed.Do(func() { d.index = jsonpath.NewIndex(d.raw) })
	return d.index.Lookup([]byte(path))
}

// String is the string at path. A number or a boolean is given as its text, a
// number exactly as it is written in the file.
func (d *Document) String(path, def string) string {
	raw, ok := d.Lookup(path)
	if !ok {
		return def
	}
	switch jsontext.KindOf(raw) {
	case jsontext.String:
		return string(jsontext.Unquote(raw))
	case jsontext.Number, jsontext.Bool:
		return string(raw)
	}
	return def
}

// Int is the integer at path. A number with a fraction or an exponent, and one
// that does not fit, is not an integer.
func (d *Document) Int(path string, def int) int {
	n, err := strconv.Atoi(d.number(path))
	return valueOr(def, n, err)
}

// Int64 is the integer at path, as Int takes it.
func (d *Document) Int64(path string, def int64) int64 {
	n, err := strconv.ParseInt(d.number(path), 10, 64)
	return valueOr(def, n, err)
}

// Float is the number at path, rounded to the nearest float64.
func (d *Document) Float(path string, def float64) float64 {
	f, err := strconv.ParseFloat(d.number(path), 64)
	return valueOr(def, f, err)
}

// Bool is the boolean at path.
func (d *Document) Bool(path string, def bool) bool {
	if raw := d.of(jsontext.Bool, path); raw != nil {
		return raw[0] == 't'
	}
	return def
}

// Duration is the string at path in Go's notation, such as "1m30s". A bare
// number has no unit and is not a duration.
func (d *Document) Duration(path string, def time.Duration) time.Duration {
	v, err := time.ParseDuration(string(jsontext.Unquote(d.of(jsontext.String, path))))
	return valueOr(def, v, err)
}

func valueOr[T any](def, v T, err error) T {
	if err != nil {
		return def
	}
	return v
}

// of returns the text of what is at path, nil if that is not of the kind.
func (d *Document) of(kind jsontext.Kind, path string) []byte {
	if raw, ok := d.Lookup(path); ok && jsontext.KindOf(raw) == kind {
		return raw
	}
	return nil
}

func (d *Document) number(path string) string { return string(d.of(jsontext.Number, path)) }

// Decode decodes what is at path into v as encoding/json would; a number that goes
// into an interface becomes a json.Number. The error is codes.NotFound if nothing is
// at the path and codes.BadRequest if the value does not fit v; it names types and
// places, never contents.
func (d *Document) Decode(path string, v any) error {
	raw, ok := d.Lookup(path)
	if !ok {
		return d.absent(path)
	}
	if err := decodeInto(raw, v); err != nil {
		return codes.Errorf(codes.BadRequest, "%s does not fit %T: %w", d.where(path), v, err)
	}
	return nil
}

func (d *Document) where(path string) string {
	at := d.Name
	for _, p := range []string{d.Path, path} {
		if p != "" && p[0] != '/' {
			at += "/"
		}
		at += p
	}
	return at
}

// Format implements fmt.Formatter: for every verb, a document prints its name,
// version and size. Its contents may be secret; to print them, print Raw.
func (d *Document) Format(f fmt.State, _ rune) {
	if d == nil {
		io.WriteString(f, "no document")
		return
	}
	size, stale := strconv.Itoa(len(d.raw))+" bytes", ""
	if !d.Exists() {
		size = "absent"
	}
	if d.stale {
		stale = ", stale"
	}
	fmt.Fprintf(f, "%s (version %d, %s%s)", d.where(""), d.Mtime, size, stale)
}

func (d *Document) absent(path string) error {
	where := d.Path + path
	switch {
	case d.Name == "":
		return codes.Errorf(codes.NotFound, "the server assigns no main config to this program; see app_profile in _meta.json")
	case d.broken != "":
		return &codes.Error{Code: codes.NotFound, Text: d.broken, Err: ErrNeverGood}
	case d.raw == nil && d.Path == "", where == "":
		return codes.Errorf(codes.NotFound, "there is no file %s", d.Name)
	case d.gone && d.Merged:
		return codes.Errorf(codes.NotFound, "there is no file %s, and nothing at %s in what it inherits", d.Name, where)
	case d.gone:
		return codes.Errorf(codes.NotFound, "there is no file %s", d.Name)
	}
	return codes.Errorf(codes.NotFound, "there is nothing at %s in %s", where, d.Name)
}

// confirmed is d after the server has confirmed that it is the newest.
func (d *Document) confirmed(at time.Time) *Document {
	return &Document{
		Name: d.Name, Path: d.Path, Merged: d.Merged, Mtime: d.Mtime,
		raw: d.raw, gone: d.gone, broken: d.broken, stored: at, epoch: d.epoch, clock: d.clock,
	}
}

// aged is d where the server cannot confirm that it is the newest.
func (d *Document) aged() *Document {
	old := d.confirmed(d.stored)
	old.stale = true
	return old
}

// sameContents compares two states except for their version, age and name.
func sameContents(a, b *Document) bool {
	return a != nil && b != nil && a.Exists() == b.Exists() && bytes.Equal(a.raw, b.raw)
}
