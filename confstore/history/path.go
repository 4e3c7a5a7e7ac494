package history

import (
	"strconv"
	"strings"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// unescaped reads a key that jsonpath.Escaped has written.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// splitPath takes a path apart, as get does; the paths of answers are read as they were written.
func splitPath(path string) (keys []string) {
	for key := range strings.SplitSeq(path, "/") {
		if key != "" && key != " " {
			keys = append(keys, unescaped.Replace(key))
		}
	}
	return keys
}

// joinPath is the path of keys.
func joinPath(keys []string) string {
	var path strings.Builder
	for _, key := range keys {
		path.WriteString("/" + jsonpath.Escaped.Replace(key))
	}
	return path.String()
}

// child is the value of a key of an object, or of a position in an array; nil if there is none.
func child(value []byte, key string) []byte {
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

// at is the value at keys; nil if there is none.
func at(value []byte, keys []string) []byte {
	for _, key := range keys {
		if value == nil {
			return nil
		}
		value = child(value, key)
	}
	return value
}
