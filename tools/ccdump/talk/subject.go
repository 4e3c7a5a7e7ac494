package talk

import (
	"cmp"

	"github.com/tidwall/gjson"

	"confcenter/protocol"
)

// maxSubjects is how many keys of one message are considered.
const maxSubjects = 64

// subjects returns the files or keys a message is about, at most maxSubjects: a file as
// it was written, a key after its namespace and a slash, a prefix with a star.
func subjects(cmd protocol.Command, r *protocol.Request) []string {
	switch {
	case cmd.IsState():
		return stateSubjects(gjson.ParseBytes(r.Body()))
	case cmd.IsStorage():
		return storageSubjects(gjson.ParseBytes(r.Body()))
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
func storageSubjects(body gjson.Result) (list []string) {
	if body.Get("ownerId").Type != gjson.String {
		return nil
	}
	owner := clip(body.Get("logicType").Str) + ":" + clip(body.Get("ownerId").Str)
	add := func(name gjson.Result) bool {
		if name.Type == gjson.String && len(list) < maxSubjects {
			list = append(list, owner+"/"+clip(name.Str))
		}
		return len(list) < maxSubjects
	}
	body.Get("names").ForEach(func(_, name gjson.Result) bool { return add(name) })
	for _, fields := range []string{"fields", "bytes", "deltas"} {
		body.Get(fields).ForEach(func(name, _ gjson.Result) bool { return add(name) })
	}
	if list == nil {
		list = []string{owner}
	}
	return list
}

func stateSubjects(body gjson.Result) (list []string) {
	ns := body.Get("ns").Str
	add := func(ns string, key gjson.Result, any string) bool {
		if key.Type == gjson.String && len(list) < maxSubjects {
			list = append(list, clip(ns)+"/"+clip(key.Str)+any)
		}
		return len(list) < maxSubjects
	}
	add(ns, body.Get("key"), "")
	add(ns, body.Get("prefix"), "*")
	body.Get("keys").ForEach(func(_, key gjson.Result) bool { return add(ns, key, "") })
	for _, several := range []string{"events", "then", "else"} {
		body.Get(several).ForEach(func(_, one gjson.Result) bool {
			return add(cmp.Or(one.Get("ns").Str, ns), one.Get("key"), "")
		})
	}
	if len(list) == 0 && ns != "" {
		list = []string{clip(ns) + "/*"}
	}
	return list
}

// clip cuts a name given by a peer to maxName.
func clip[T string | []byte](name T) string { return string(name[:min(len(name), maxName)]) }
