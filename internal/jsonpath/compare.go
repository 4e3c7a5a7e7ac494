package jsonpath

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
)

// Difference says how a value differs.
type Difference string

// The differences.
const (
	Added   Difference = "added"
	Removed Difference = "removed"
	Changed Difference = "changed"
)

// mostRead bounds what comparing two documents reads: in text that is both long and deeply nested
// each level's text is read again for each level below it, and each path has all keys above it.
const mostRead = 512 << 20

// ErrTooDeep is why documents that are both long and deeply nested cannot be compared.
var ErrTooDeep = errors.New("the documents are too long and too deep to be compared by key path; compare them as text")

// Escaped writes a key as a part of a path in which keys may have slashes, as a JSON pointer does.
var Escaped = strings.NewReplacer("~", "~0", "/", "~1")

// Comparer finds the values in which two documents differ. Objects are compared by key and arrays
// by position; what one of them has and the other has not is told of as a whole.
type Comparer struct {
	// Tell is called for each, in the order of the documents. Slashes in keys are escaped.
	Tell func(path string, what Difference, old, new []byte)
	// Take, unless nil, reserves memory for the comparison, or says why there is none; Returns
	// gives some back.
	Take    func(bytes int) error
	Returns func(bytes int)

	read int
}

// Compare compares compact text; nil stands for nothing.
func (c *Comparer) Compare(old, new []byte) error { return c.value("", old, new) }

// value compares what is at a path.
func (c *Comparer) value(path string, old, new []byte) error {
	if c.read += len(path) + len(old) + len(new); c.read > mostRead {
		return ErrTooDeep
	}
	before, after := jsontext.KindOf(old), jsontext.KindOf(new)
	switch {
	case old == nil && new == nil, bytes.Equal(old, new):
	case old == nil:
		c.Tell(path, Added, nil, new)
	case new == nil:
		c.Tell(path, Removed, old, nil)
	case before == jsontext.Object && after == jsontext.Object:
		return c.objects(path, old, new)
	case before == jsontext.Array && after == jsontext.Array:
		return c.arrays(path, old, new)
	case !sameValue(old, new):
		c.Tell(path, Changed, old, new)
	}
	return nil
}

// sameValue compares values of which not both are objects or arrays.
func sameValue(a, b []byte) bool {
	if jsontext.KindOf(a) == jsontext.String && jsontext.KindOf(b) == jsontext.String {
		return bytes.Equal(jsontext.Unquote(a), jsontext.Unquote(b))
	}
	return bytes.Equal(a, b)
}

func (c *Comparer) take(bytes int) error {
	if c.Take == nil {
		return nil
	}
	return c.Take(bytes)
}

// members are those of an object, the first of duplicates, with their keys in order.
type members struct {
	keys   []string
	values map[string][]byte
}

// perMember is what one of them takes.
const perMember = 128

func (c *Comparer) members(object []byte) (m members, err error) {
	m.values = map[string][]byte{}
	jsontext.EachMember(object, func(key, raw []byte, _ jsontext.Kind) bool {
		if _, twice := m.values[string(key)]; twice {
			return true
		}
		if len(m.keys)%64 == 0 {
			if err = c.take(64 * perMember); err != nil {
				return false
			}
		}
		name := string(key)
		m.keys, m.values[name] = append(m.keys, name), raw
		return true
	})
	return m, err
}

func (c *Comparer) objects(path string, old, new []byte) error {
	before, err := c.members(old)
	if err != nil {
		return err
	}
	after, err := c.members(new)
	if err != nil {
		return err
	}
	for _, key := range before.keys {
		if is, stays := after.values[key]; stays && bytes.Equal(is, before.values[key]) {
			continue // without its path
		}
		if err := c.value(path+"/"+Escaped.Replace(key), before.values[key], after.values[key]); err != nil {
			return err
		}
	}
	for _, key := range after.keys {
		if _, was := before.values[key]; !was {
			c.Tell(path+"/"+Escaped.Replace(key), Added, nil, after.values[key])
		}
	}
	if c.Returns != nil {
		c.Returns((len(before.keys) + len(after.keys)) / 64 * 64 * perMember)
	}
	return nil
}

func (c *Comparer) arrays(path string, old, new []byte) error {
	before, after := jsontext.Iterate(old), jsontext.Iterate(new)
	for i := 0; ; i++ {
		var was, is []byte
		if before.Next() {
			was = before.Raw()
		}
		if after.Next() {
			is = after.Raw()
		}
		if was == nil && is == nil {
			return nil
		}
		if err := c.value(path+"/"+strconv.Itoa(i), was, is); err != nil {
			return err
		}
	}
}
