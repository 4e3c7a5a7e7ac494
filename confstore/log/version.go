package log

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	jsoniter "github.com/json-iterator/go"

	"confcenter/codes"
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

var errMissing = errors.New("it is missing")

// lookUp reads one entry; nil: there is none.
func lookUp(ctx context.Context, store kv.Archive, ns, key string) (*kv.Entry, error) {
	page, err := store.ListArchive(ctx, kv.List{NS: ns, Prefix: key, Limit: 1})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].Key != key {
		return nil, err
	}
	return page.Entries[0], nil
}

// archived reads one entry that there must be.
func (l *Log) archived(ctx context.Context, ns, key string) (*kv.Entry, error) {
	e, err := lookUp(ctx, l.store, ns, key)
	if e == nil && err == nil {
		err = damaged(key, errMissing)
	}
	return e, err
}

// Versions lists at most limit versions of a name that are older than version before, newest
// first; before 0: from the newest on. Long files are not read.
func (l *Log) Versions(ctx context.Context, name string, before int64, limit int) (list []Version, err error) {
	d, err := l.Document(name)
	if err != nil {
		return nil, err
	}
	if before <= 0 || before > d.N {
		before = d.N + 1
	}
	first := max(1, before-int64(limit))
	for from := first; from < before; {
		page, err := l.listVersions(ctx, name, from, int(before-from))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		list = append(list, page...)
		from = page[len(page)-1].N + 1
	}
	for len(list) > 0 && list[len(list)-1].N >= before { // versions of a change that does not count
		list = list[:len(list)-1]
	}
	slices.Reverse(list)
	return list, nil
}

// listVersions lists some versions from number from on, oldest first.
func (l *Log) listVersions(ctx context.Context, name string, from int64, limit int) ([]Version, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: versions, Prefix: name + "//", After: versionKey(name, from-1), Limit: limit})
	if err != nil {
		return nil, err
	}
	list := make([]Version, len(page.Entries))
	for i, e := range page.Entries {
		if list[i], err = decodeVersion(e); err != nil {
			return nil, err
		}
		if v := &list[i]; v.Staged {
			if i > 0 && list[i-1].Seq == v.Seq {
				v.Revision = list[i-1].Revision
			} else if change, err := l.Change(ctx, v.Seq); err == nil {
				v.Revision = change.Revision
			} else {
				return nil, err
			}
		}
	}
	return list, nil
}

// Version returns a version with its file. codes.Compacted: it is no longer kept;
// codes.NotFound: there has been none.
func (l *Log) Version(ctx context.Context, name string, n int64) (Version, error) {
	d, err := l.Document(name)
	if err != nil {
		return Version{}, err
	}
	v, err := l.Find(ctx, &d, n)
	if err != nil {
		return v, err
	}
	err = l.Fill(ctx, &v)
	return v, err
}

// Find is Version without the file, if that is long.
func (l *Log) Find(ctx context.Context, d *Document, n int64) (Version, error) {
	if n < 1 || n > d.N {
		return Version{}, codes.Errorf(codes.NotFound, "%s has no version %d; the newest is %d", d.Name, n, d.N)
	}
	list, err := l.listVersions(ctx, d.Name, n, 1)
	switch {
	case err != nil:
		return Version{}, err
	case len(list) == 0 || list[0].N != n:
		oldest := ""
		if len(list) > 0 {
			oldest = fmt.Sprintf("; the oldest that is was made by revision %d", list[0].Revision)
		}
		return Version{}, codes.Errorf(codes.Compacted, "version %d of %s is no longer kept%s", n, d.Name, oldest)
	}
	return list[0], nil
}

// Revision is that of the newest change of anything in the store.
func (l *Log) Revision() kv.Revision { return l.store.Revision() }

// Fill reads the file of a version that was listed or found.
func (l *Log) Fill(ctx context.Context, v *Version) error {
	if v.Deleted {
		return nil
	}
	if len(v.Chunks) > 0 {
		v.File = make([]byte, 0, v.Size)
	}
	for _, digest := range v.Chunks {
		e, err := l.archived(ctx, chunks, digest.String())
		if errors.Is(err, errMissing) { // the version may have been removed since it was found
			if _, gone := l.Find(ctx, &Document{Name: v.Name, N: v.N}, v.N); gone != nil {
				return gone
			}
		}
		if err != nil {
			return err
		}
		v.File = append(v.File, e.Value.Data...)
	}
	if DigestOf(v.File) != v.Hash {
		return damaged(versionKey(v.Name, v.N), errors.New("the file is not what was written"))
	}
	return nil
}

// Later returns the number of the first version of a document that was made after a revision; one
// more than the newest if there is none. Versions that are gone were made before any that is there.
func (l *Log) Later(ctx context.Context, d *Document, rev kv.Revision) (n int64, err error) {
	found := sort.Search(int(d.N), func(i int) bool {
		list, e := l.listVersions(ctx, d.Name, int64(i)+1, 1)
		if e != nil || len(list) == 0 {
			err = errors.Join(err, e)
			return true
		}
		return list[0].N == int64(i)+1 && list[0].Revision > rev
	})
	return int64(found) + 1, err
}

// Around returns the version of a name that was current at a revision, as At does, and those that came
// next, oldest first, of which there are more if there is not the newest: mostly with one look. Long
// files of these are not read.
func (l *Log) Around(ctx context.Context, name string, rev kv.Revision) (at Version, next []Version, err error) {
	const look = 8
	d, err := l.Document(name)
	if err != nil || d.N == 0 {
		return at, nil, err
	}
	from := max(1, d.N-look+1)
	page, err := l.listVersions(ctx, name, from, int(d.N-from+1))
	if err != nil {
		return at, nil, err
	}
	if i := slices.IndexFunc(page, func(v Version) bool { return v.N > d.N }); i >= 0 { // of a change that does not count
		page = page[:i]
	}
	i := sort.Search(len(page), func(i int) bool { return page[i].Revision > rev })
	switch {
	case i > 0:
		at = page[i-1]
		err := l.Fill(ctx, &at)
		return at, page[i:], err
	case from == 1 && len(page) > 0 && page[0].N == 1:
		return at, page, nil
	}
	if at, err = l.At(ctx, name, rev); err == nil {
		next, err = l.After(ctx, name, at.N, look)
	}
	return at, next, err
}

// After lists at most limit versions of a name that are newer than version n, oldest first. Long
// files are not read.
func (l *Log) After(ctx context.Context, name string, n int64, limit int) ([]Version, error) {
	d, err := l.Document(name)
	if err != nil || n >= d.N {
		return nil, err
	}
	list, err := l.listVersions(ctx, name, n+1, int(min(int64(limit), d.N-n)))
	if err == nil && (len(list) == 0 || list[0].N != n+1) {
		err = codes.Errorf(codes.Compacted, "version %d of %s is no longer kept", n+1, name)
	}
	return list, err
}

// At returns the version of a name that was current at a revision, with its file. N is 0 if
// there was none. codes.Compacted: it is no longer kept.
func (l *Log) At(ctx context.Context, name string, rev kv.Revision) (v Version, err error) {
	d, err := l.Document(name)
	if err != nil || d.N == 0 {
		return v, err
	}
	later, err := l.Later(ctx, &d, rev)
	if err != nil || later == 1 {
		return Version{}, err
	}
	return l.Version(ctx, name, later-1)
}
