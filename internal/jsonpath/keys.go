package jsonpath

import (
	"strconv"
	"strings"

	"confcenter/internal/jsontext"
)

// unescaped reads a key that Escaped has written.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// Split takes a path apart, into keys without escapes: also one that Join has written.
func Split(path string) (keys []string) {
	for key := range strings.SplitSeq(path, "/") {
		if key != "" && key != " " {
			keys = append(keys, unescaped.Replace(key))
		}
	}
	return keys
}

// Join is the path of keys.
func Join(keys []string) string {
	var path strings.Builder
	for _, key := range keys {
		path.WriteString("/" + Escaped.Replace(key))
	}
	return path.String()
}

// Child is the value of a key of an object, or of a position in an array; nil if there is none.
func Child(value []byte, key string) []byte {
	it := jsontext.Iterate(value)
	switch it.Container() {
	case jsontext.Object:
		for it.Next() {
			if it.KeyIs([]byte(key)) {
				return it.Raw()
			}
		}
	case jsontext.Array:
		n, err := strconv.Atoi(key)
		for i := 0; err == nil && i <= n && it.Next(); i++ {
			if i == n {
				return it.Raw()
			}
		}
	}
	return nil
}

// At is the value at keys; nil if there is none.
func At(value []byte, keys []string) []byte {
	for _, key := range keys {
		if value == nil {
			return nil
		}
		value = Child(value, key)
	}
	return value
}

// Set is paths, with those above them.
type Set struct {
	paths, above map[string]struct{}
}

// SetOf returns the set of paths.
func SetOf(paths map[string]struct{}) Set {
	above := map[string]struct{}{}
	for path := range paths {
		for at := len(path); at >= 0; at = strings.LastIndexByte(path[:at], '/') {
			above[path[:at]] = struct{}{}
		}
	}
	return Set{paths, above}
}

// Touches reports whether a path is in the set, or above or below one that is: what is below a value that
// changed has changed, and so has what is above one in a list.
func (s Set) Touches(path string) bool {
	if _, is := s.above[path]; is {
		return true
	}
	for at := len(path); at >= 0; at = strings.LastIndexByte(path[:at], '/') {
		if _, is := s.paths[path[:at]]; is {
			return true
		}
	}
	return false
}
