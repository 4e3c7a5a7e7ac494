// Package secret encrypts values of documents. A sealed value is a JSON string that says by which
// data key it is encrypted and where it was sealed:
//
//	"$secret:v1:KEY:BASE64:config:NAME"
//
// or, where it is a value of another type than JSON, of the state store, "$secret:v2:…"; the type is
// encrypted, too. It is the mark that everyone sees, in files, history, diffs and backups as well, and it can be
// written back as it is. Because it is a string, merging and key paths treat it as one value. Where
// it was sealed, its origin, is authenticated: a copy in another document is still the origin's, and
// no one can say otherwise.
//
// A writer asks for a value to be sealed by putting the object {"$seal": VALUE} in its place; see
// [Asks] and [Ring.Seal].
//
// Values are encrypted by data keys, with AES-256-GCM. Data keys are random, and kept wrapped by a
// key that comes from outside, see [Wrapping], in the namespace [kv.AccessNamespace], which only the
// server writes and which is backed up with everything else.
//
// [Keys] keeps them. It is a model like those of cluster state: what can be asked of it is a table of
// operations, which every edge offers. Code that seals or reveals takes [Keys.Ring].
package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"confcenter/internal/jsontext"
)

const (
	prefix  = "$secret:v"
	version = "1:" // of JSON
	typed   = "2:" // of a type and what is JSON for the value, see [Ring.SealTyped]
	// the additional data of what is encrypted begins with what it is, so that nothing passes for
	// something else
	valueLabel   = "confcenter value v1\x00"
	typedLabel   = "confcenter value v2\x00"
	dataKeyLabel = "confcenter data key v1\x00"
)

// OfDocument begins the origins of values that were sealed in documents; the name follows.
const OfDocument = "config:"

// ofKey begins the origins of values that were sealed in keys; namespace and key follow.
const ofKey = "kv:"

// A slash in a namespace must not end it.
var (
	escapeNS   = strings.NewReplacer("%", "%25", "/", "%2F")
	unescapeNS = strings.NewReplacer("%25", "%", "%2F", "/")
)

// OfKey is the origin of what is sealed in a key of the state store.
func OfKey(ns, key string) string { return ofKey + escapeNS.Replace(ns) + "/" + key }

// KeyOf is the key that an origin names; false: it names none.
func KeyOf(origin string) (ns, key string, ok bool) {
	name, ok := strings.CutPrefix(origin, ofKey)
	if !ok {
		return "", "", false
	}
	ns, key, ok = strings.Cut(name, "/")
	return unescapeNS.Replace(ns), key, ok
}

// KeyBytes is the length of all keys.
const KeyBytes = 32

// padTo is what the lengths of values are made multiples of before they are encrypted, so that a
// mark tells little of them.
const padTo = 32

var text64 = base64.RawURLEncoding

// The errors of Open. They never have anything of a value or a key in them.
var (
	errForm    = errors.New("it is not a sealed value")
	errKey     = errors.New("its data key is not here; give the server the key by which that is wrapped")
	errChanged = errors.New("it, or where it says it was sealed, was changed")
)

// Ring is a set of data keys, of which the newest seals. It never changes, and any number of
// goroutines may use it. The nil Ring has none.
type Ring struct {
	newest string
	keys   map[string]cipher.AEAD
	digest [KeyBytes]byte
	opens  bool // it does not seal
}

// Key is a data key as it is in memory. Its ID has no colon.
type Key struct {
	ID   string
	Made int64 // ms since 1970
	Key  [KeyBytes]byte
}

// NewRing makes a Ring. There must be one key at least.
func NewRing(keys []Key) *Ring {
	r := &Ring{keys: make(map[string]cipher.AEAD, len(keys))}
	newest, oldest := &keys[0], &keys[0]
	for i := range keys {
		k := &keys[i]
		r.keys[k.ID] = gcm(k.Key[:])
		if k.after(newest) {
			newest = k
		}
		if oldest.after(k) {
			oldest = k
		}
	}
	r.newest = newest.ID
	mac := hmac.New(sha256.New, oldest.Key[:])
	mac.Write([]byte("confcenter digests v1"))
	mac.Sum(r.digest[:0])
	return r
}

// Opening is a Ring that opens what r does, and seals nothing.
func (r *Ring) Opening() *Ring {
	opening := *r
	opening.opens = true
	return &opening
}

// Seals reports whether values can be sealed. It works on the nil Ring.
func (r *Ring) Seals() bool { return r != nil && !r.opens }

// Newest is the id of the data key that seals.
func (r *Ring) Newest() string { return r.newest }

func (k *Key) after(other *Key) bool {
	return k.Made > other.Made || k.Made == other.Made && k.ID > other.ID
}

// gcm panics unless key has KeyBytes bytes.
func gcm(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// Digest identifies data that has secrets in it: no one can find out by it what they are without
// the oldest of the data keys. It stays the same as long as that is there.
func (r *Ring) Digest(data []byte) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, r.digest[:])
	mac.Write(data)
	mac.Sum(sum[:0])
	return sum
}

func additional(label, id, origin string) []byte { return []byte(label + id + "\x00" + origin) }

func labelOf(form string) string {
	if form == typed {
		return typedLabel
	}
	return valueLabel
}

// value seals a compact value, and returns what stands for it, without quotes.
func (r *Ring) value(form, origin string, compact []byte) string {
	padded := append(bytes.Clone(compact), bytes.Repeat([]byte(" "), (padTo-len(compact)%padTo)%padTo)...)
	sealed := r.keys[r.newest].Seal(nil, nil, padded, additional(labelOf(form), r.newest, origin))
	clear(padded)
	return prefix + form + r.newest + ":" + text64.EncodeToString(sealed) + ":" + origin
}

// SealTyped seals a value of a type that JSON does not have: value is compact JSON for it, and typ is
// its name, without blanks. What it returns is JSON, too. [Unable].
func (r *Ring) SealTyped(origin, typ string, value []byte) ([]byte, error) {
	if !r.Seals() {
		return nil, Unable
	}
	both := append(append([]byte(typ), ' '), value...)
	defer clear(both)
	return jsontext.AppendQuote(nil, r.value(typed, origin, both)), nil
}

// Opened is what a mark stands for.
type Opened struct {
	Type   string // as it was given to SealTyped; "": the value was JSON
	Value  []byte // compact JSON
	Origin string // proved only if there is no error
}

// Open returns what a mark stands for.
func (r *Ring) Open(mark string) (o Opened, err error) {
	m, ok := parts(mark)
	if !ok {
		return o, errForm
	}
	o.Origin = m.origin
	if o.Value, err = r.open(m); err == nil && m.form == typed {
		typ, rest, _ := bytes.Cut(o.Value, []byte(" "))
		o.Type, o.Value = string(typ), rest
	}
	return o, err
}

// open returns what is within a mark: for what SealTyped has sealed the type, too.
func (r *Ring) open(m marked) ([]byte, error) {
	if r == nil || r.keys[m.id] == nil {
		return nil, errKey
	}
	raw, err := text64.Strict().DecodeString(m.sealed)
	if err != nil {
		return nil, errForm
	}
	value, err := r.keys[m.id].Open(nil, nil, raw, additional(labelOf(m.form), m.id, m.origin))
	if err != nil {
		return nil, errChanged
	}
	return bytes.TrimRight(value, " "), nil
}

// OpenWhole is Open for valid JSON that is nothing but a mark; false: it is something else, or may,
// which is asked with the origin, does not allow it, or it cannot be opened.
func (r *Ring) OpenWhole(valid []byte, may func(origin string) bool) (Opened, bool) {
	if !bytes.HasPrefix(valid, quotedPrefix) || jsontext.Skip(valid, 0) != len(valid) {
		return Opened{}, false
	}
	mark := string(jsontext.Unquote(valid))
	if m, ok := parts(mark); !ok || !may(m.origin) {
		return Opened{}, false
	}
	o, err := r.Open(mark)
	return o, err == nil
}

// marked is a mark, taken apart.
type marked struct{ form, id, sealed, origin string }

func parts(mark string) (m marked, ok bool) {
	rest, ok := strings.CutPrefix(mark, prefix)
	if !ok || len(rest) < len(version) {
		return m, false
	}
	if m.form = rest[:len(version)]; m.form != version && m.form != typed {
		return m, false
	}
	m.id, rest, _ = strings.Cut(rest[len(version):], ":")
	m.sealed, m.origin, _ = strings.Cut(rest, ":")
	return m, m.id != "" && m.sealed != "" && m.origin != ""
}

var quotedPrefix = []byte(`"` + prefix)

// Has reports whether valid JSON may have a sealed value.
func Has(valid []byte) bool { return bytes.Contains(valid, quotedPrefix) }

// AppendRevealed appends valid with its marks replaced by what they stand for, as far as the data
// keys are there and may, which is asked with the origin of each, allows it. The rest is left as it
// is. A mark that is the key of a member is none.
func (r *Ring) AppendRevealed(dst, valid []byte, may func(origin string) bool) []byte {
	done := 0
	eachMark(valid, func(begin, end int, mark string) {
		if m, ok := parts(mark); !ok || !may(m.origin) {
			return
		}
		opened, err := r.Open(mark)
		if err != nil {
			return
		}
		dst = append(append(dst, valid[done:begin]...), opened.Value...)
		clear(opened.Value)
		done = end
	})
	return append(dst, valid[done:]...)
}

// eachMark calls fn for each string in valid JSON that may be a mark, with where it begins and ends.
func eachMark(valid []byte, fn func(begin, end int, mark string)) {
	for at := 0; ; {
		next := bytes.Index(valid[at:], quotedPrefix)
		if next < 0 {
			return
		}
		begin := at + next
		at = begin + len(quotedPrefix)
		if escaped(valid, begin) {
			continue // of a text that has a quote in it
		}
		end := jsontext.Skip(valid, begin)
		at = end
		if behind := skipBlanks(valid, end); behind < len(valid) && valid[behind] == ':' {
			continue
		}
		fn(begin, end, string(jsontext.Unquote(valid[begin:end])))
	}
}

// escaped reports whether the byte at i has an odd number of backslashes in front of it, which it
// can have within strings only.
func escaped(text []byte, i int) bool {
	n := 0
	for i > n && text[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

func skipBlanks(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// newID is that of a new data key.
func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never fails
	return text64.EncodeToString(b[:])
}
