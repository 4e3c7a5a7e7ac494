package doclog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsoniter "github.com/json-iterator/go"

	"confcenter/kv"
)

// Digest identifies a text: its SHA-256.
type Digest [sha256.Size]byte

// DigestOf is the digest of text.
func DigestOf(text []byte) Digest { return sha256.Sum256(text) }

// MarshalText is the digest in hexadecimal; of the zero digest, which stands for no text,
// nothing.
func (d Digest) MarshalText() ([]byte, error) {
	if d == (Digest{}) {
		return nil, nil
	}
	return hex.AppendEncode(nil, d[:]), nil
}

// UnmarshalText reverses MarshalText.
func (d *Digest) UnmarshalText(text []byte) error {
	*d = Digest{}
	if len(text) == 0 {
		return nil
	}
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest of %d characters", len(text))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Document is what is known of a document now.
type Document struct {
	Name     string      `json:"-"`
	N        int64       `json:"n"`             // its newest version
	Revision kv.Revision `json:"rev,omitempty"` // that made it
	Seq      uint64      `json:"seq"`           // of the change that made it
	Served   int32       `json:"served"`        // the version clients see
	Given    int32       `json:"given"`         // what the writer or the file said
	Deleted  bool        `json:"deleted,omitempty"`
	Size     int         `json:"size,omitempty"`  // of the file
	Hash     Digest      `json:"hash,omitempty"`  // likewise
	Floor    int32       `json:"floor,omitempty"` // the resolved version is not below it
	Bases    Digest      `json:"bases,omitempty"` // of the list that it is served with, and of the way to merge; zero: it has none
}

// Version is one version of a document.
//
// wide: it is a record of the log, member for member.
type Version struct {
	Name     string      `json:"-"`
	N        int64       `json:"-"` // counts the versions of the name, from 1
	Revision kv.Revision `json:"-"` // of the transaction that made it
	Seq      uint64      `json:"seq"`
	Staged   bool        `json:"staged,omitempty"` // its change has the revision: of builds that wrote large changes in parts
	New      bool        `json:"new,omitempty"`    // there was no document before it, or it was deleted
	Served   int32       `json:"served"`
	Given    int32       `json:"given"`
	Deleted  bool        `json:"deleted,omitempty"`
	Size     int         `json:"size,omitempty"` // of the file
	Hash     Digest      `json:"hash,omitempty"`
	Chunks   []Digest    `json:"chunks,omitempty"`   // the file, if it is not with the version
	Replaces Digest      `json:"replaces,omitempty"` // the file before; zero: there was none, or it could not be read
	By       *By         `json:"by,omitempty"`       // nil: as its change; see Log.Who
	Resealed bool        `json:"resealed,omitempty"` // what is in the file is as before, sealed by another key

	// File is the exact bytes of the file; nil of a deletion, and of a long one in a list.
	File []byte `json:"-"`
}

// Kind says what became of the document.
func (v *Version) Kind() Kind {
	switch {
	case v.Deleted:
		return Deleted
	case v.New:
		return Created
	}
	return Changed
}

const (
	// chunkBytes is the length of a chunk.
	chunkBytes = 512 << 10
	// shortFile is how long a file is that goes with its version. Of a change that would have more
	// than mostInline bytes of these, it is shortOfMany.
	shortFile   = 4 << 10
	shortOfMany = 512
	mostInline  = 8 << 20
)

func versionKey(name string, n int64) string { return fmt.Sprintf("%s//%010d", name, n) }

func splitVersionKey(key string) (name string, n int64, ok bool) {
	at := strings.LastIndex(key, "//")
	if at < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(key[at+2:], 10, 64)
	return key[:at], n, err == nil
}

func changeKey(seq uint64) string { return fmt.Sprintf("%016x", ^seq) } // the newest is the first

// encodeVersion makes the value of a version: JSON and, behind a line feed, a short file.
func encodeVersion(v *Version) []byte {
	text := encode(v)
	if len(v.Chunks) == 0 && !v.Deleted {
		text = append(append(text, '\n'), v.File...)
	}
	return text
}

func decodeVersion(e *kv.Entry) (v Version, err error) {
	text, file, short := bytes.Cut(e.Value.Data, []byte{'\n'})
	if err := decode(e.Key, text, &v); err != nil {
		return v, err
	}
	ok := false
	if v.Name, v.N, ok = splitVersionKey(e.Key); !ok {
		return v, damaged(e.Key, errors.New("it has no number"))
	}
	if !v.Staged {
		v.Revision = e.Mod
	}
	if short {
		v.File = file
	}
	return v, nil
}

var plainJSON = jsoniter.ConfigFastest

func encode(what any) []byte {
	text, err := plainJSON.Marshal(what)
	if err != nil {
		panic("what cannot be said in JSON: " + err.Error())
	}
	return text
}

func decode(key string, text []byte, into any) error {
	if err := plainJSON.Unmarshal(text, into); err != nil {
		return damaged(key, err)
	}
	return nil
}
