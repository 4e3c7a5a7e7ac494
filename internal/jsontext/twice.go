package jsontext

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
)

// key is where a key of an object begins, with a hash of what it stands for.
type key struct {
	hash uint64
	at   int
}

var keySeed = maphash.MakeSeed()

// Twice returns an error if valid JSON has an object, in any depth, of which two members have the same
// name, however that is spelled: readers of JSON do not agree on which of them counts.
func Twice(valid []byte) error {
	var keys []key  // of the objects that are open, those of the innermost last
	var opens []int // how many there were when each of these began
	for i := 0; i < len(valid); i++ {
		switch valid[i] {
		case '{':
			opens = append(opens, len(keys))
		case '}':
			from := opens[len(opens)-1]
			if at := twice(valid, keys[from:]); at >= 0 {
				return &SyntaxError{Offset: at, Reason: fmt.Sprintf("the member %.60q stands twice in an object", Unquote(stringAt(valid, at)))}
			}
			keys, opens = keys[:from], opens[:len(opens)-1]
		case '"':
			text := stringAt(valid, i)
			if after := skipBlanks(valid, i+len(text)); at(valid, after) == ':' {
				keys = append(keys, key{maphash.Bytes(keySeed, Unquote(text)), i})
			}
			i += len(text) - 1
		}
	}
	return nil
}

// twice is where the second of two keys begins that are the same; -1 if there are none.
func twice(valid []byte, keys []key) int {
	const few = 8
	if len(keys) > few {
		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	}
	for i := range keys {
		for k := i + 1; k < len(keys); k++ {
			if keys[i].hash != keys[k].hash {
				if len(keys) > few {
					break
				}
				continue
			}
			if bytes.Equal(Unquote(stringAt(valid, keys[i].at)), Unquote(stringAt(valid, keys[k].at))) {
				return keys[k].at
			}
		}
	}
	return -1
}

// stringAt is the string token that begins at i.
func stringAt(valid []byte, i int) []byte {
	end := i + 1
	for valid[end] != '"' {
		if valid[end] == '\\' {
			end++
		}
		end++
	}
	return valid[i : end+1]
}
