package talk

import (
	"strings"

	"github.com/tidwall/gjson"

	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// maxSubjects is how many keys of one message are considered.
const maxSubjects = 64

// subjects returns the files or keys a message is about, at most maxSubjects: a file as
// it was written, a key after its namespace and a slash, a prefix with a star.
func subjects(cmd protocol.Command, r *protocol.Request) []string {
	switch {
	case cmd.IsState():
		return stateSubjects(r)
	case cmd.IsStorage():
		return storageSubjects(r)
	}
	for _, name := range []string{"file_pattern", "filename"} {
		if text := r.Text(name); text != nil {
			return []string{clip(text)}
		}
	}
	return nil
}

// storageSubjects are the fields that a message names, each after its owner and a slash, or
// the owner if it names none.
func storageSubjects(r *protocol.Request) []string {
	if r.Text("ownerId") == nil {
		return nil
	}
	owner := clip(r.Text("logicType")) + ":" + clip(r.Text("ownerId"))
	var list []string
	add := func(name []byte) bool {
		list = append(list, owner+"/"+clip(name))
		return len(list) < maxSubjects
	}
	for _, m := range r.Members() {
		switch string(m.Key) {
		case "names":
			jsontext.EachElement(m.Raw, func(raw []byte, kind jsontext.Kind) bool {
				return len(list) < maxSubjects && (kind != jsontext.String || add(jsontext.Unquote(raw)))
			})
		case "fields", "bytes", "deltas":
			jsontext.EachMember(m.Raw, func(key, _ []byte, _ jsontext.Kind) bool { return len(list) < maxSubjects && add(key) })
		}
	}
	if list == nil {
		list = []string{owner}
	}
	return list
}

func stateSubjects(r *protocol.Request) []string {
	ns := clip(r.Text("ns"))
	var list []string
	add := func(ns, key string) {
		if len(list) < maxSubjects {
			list = append(list, ns+"/"+key)
		}
	}
	for _, m := range r.Members() {
		switch string(m.Key) {
		case "key":
			if m.Kind == jsontext.String {
				add(ns, clip(jsontext.Unquote(m.Raw)))
			}
		case "prefix":
			if m.Kind == jsontext.String {
				add(ns, clip(jsontext.Unquote(m.Raw))+"*")
			}
		case "keys":
			jsontext.EachElement(m.Raw, func(raw []byte, kind jsontext.Kind) bool {
				if kind == jsontext.String {
					add(ns, clip(jsontext.Unquote(raw)))
				}
				return len(list) < maxSubjects
			})
		case "events", "then", "else":
			jsontext.EachElement(m.Raw, func(raw []byte, kind jsontext.Kind) bool {
				if kind != jsontext.Object {
					return true
				}
				if key := gjson.GetBytes(raw, "key"); key.Type == gjson.String {
					of := ns
					if own := gjson.GetBytes(raw, "ns"); own.Type == gjson.String {
						of = clip(own.Str)
					}
					add(of, clip(key.Str))
				}
				return len(list) < maxSubjects
			})
		}
	}
	if len(list) == 0 && ns != "" {
		list = []string{ns + "/*"}
	}
	return list
}

func join(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list, " ")
}

// clip cuts a name given by a peer to maxName.
func clip[T string | []byte](name T) string { return string(name[:min(len(name), maxName)]) }
