package history

import (
	"bytes"
	"strconv"

	"confcenter/codes"
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
// each level's text is read again for each level below it.
const mostRead = 512 << 20

// comparer finds the values in which two documents differ. Objects are compared by key and arrays
// by position; what one of them has and the other has not is told of as a whole.
type comparer struct {
	room *room
	tell func(path string, what Difference, old, new []byte)
	read int
}

// value compares what is at a path; nil stands for nothing.
func (c *comparer) value(path string, old, new []byte) error {
	if c.read += len(old) + len(new); c.read > mostRead {
		return codes.Errorf(codes.TooLarge, "the documents are too long and too deep to be compared by key path; compare them as text")
	}
	before, after := jsontext.KindOf(old), jsontext.KindOf(new)
	switch {
	case old == nil && new == nil, bytes.Equal(old, new):
	case old == nil:
		c.tell(path, Added, nil, new)
	case new == nil:
		c.tell(path, Removed, old, nil)
	case before == jsontext.Object && after == jsontext.Object:
		return c.objects(path, old, new)
	case before == jsontext.Array && after == jsontext.Array:
		return c.arrays(path, old, new)
	case !sameValue(old, new):
		c.tell(path, Changed, old, new)
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

// members are those of an object, the first of duplicates, with their keys in order.
type members struct {
	keys   []string
	values map[string][]byte
}

// perMember is what one of them takes.
const perMember = 128

func (c *comparer) members(object []byte) (m members, err error) {
	m.values = map[string][]byte{}
	jsontext.EachMember(object, func(key, raw []byte, _ jsontext.Kind) bool {
		if _, twice := m.values[string(key)]; twice {
			return true
		}
		if len(m.keys)%64 == 0 {
			if err = c.room.take(64 * perMember); err != nil {
				return false
			}
		}
		name := string(key)
		m.keys, m.values[name] = append(m.keys, name), raw
		return true
	})
	return m, err
}

func (c *comparer) objects(path string, old, new []byte) error {
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
		if err := c.value(path+"/"+escaped.Replace(key), before.values[key], after.values[key]); err != nil {
			return err
		}
	}
	for _, key := range after.keys {
		if _, was := before.values[key]; !was {
			c.tell(path+"/"+escaped.Replace(key), Added, nil, after.values[key])
		}
	}
	c.room.returns((len(before.keys) + len(after.keys)) / 64 * 64 * perMember)
	return nil
}

func (c *comparer) arrays(path string, old, new []byte) error {
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
