package op

import (
	"unsafe"

	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/player/field"
)

// Extent says which things of a class a name stands for.
type Extent uint8

// The extents.
const (
	One   Extent = iota // the thing of that name
	Every               // all whose names begin so, whether or not they are there
	Any                 // those of Every that the caller may see: the answer leaves out the rest
)

// Thing is something that a question reads, changes or learns of, or many such things. Its texts may be
// those of the question: neither may be kept.
type Thing struct {
	Do     policy.Verb // one
	Class  policy.Class
	Extent Extent
	// Unpaid: no namespace pays for it. Who could not do it would lose more than a request.
	Unpaid bool
	parts  [4]string // of the name, as many as given
	n      uint8
}

// text is b as long as no one changes that.
func text[T string | []byte](b T) string {
	if b, is := any(b).([]byte); is {
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	return string(b)
}

// Key is v with a key.
func Key[T string | []byte](v policy.Verb, ns, key T) Thing {
	return Thing{Do: v, Class: policy.KV, parts: [4]string{text(ns), text(key)}, n: 2}
}

// Keys is v with keys of a namespace that begin with prefix.
func Keys(v policy.Verb, e Extent, ns, prefix string) Thing {
	return Thing{Do: v, Class: policy.KV, Extent: e, parts: [4]string{ns, prefix}, n: 2}
}

// AllKeys is v with the keys of all namespaces, the server's own included.
func AllKeys(v policy.Verb) Thing { return Thing{Do: v, Class: policy.KV, Extent: Every} }

// Leases is the use of a lease, whosever; ns, which may be empty, pays for it.
func Leases(ns string) Thing {
	return Thing{Do: policy.Lease, Class: policy.KV, Extent: Any, parts: [4]string{ns}, n: 1}
}

// Document is v with a document, whose name may lack its ".json".
func Document[T string | []byte](v policy.Verb, name T) Thing {
	return Thing{Do: v, Class: policy.Config, parts: [4]string{text(name)}, n: 1}
}

// Documents is v with all documents whose names begin with prefix.
func Documents(v policy.Verb, prefix string) Thing {
	return Thing{Do: v, Class: policy.Config, Extent: Every, parts: [4]string{prefix}, n: 1}
}

// Owner is v with the fields of an owner in player storage.
func Owner[T string | []byte](v policy.Verb, app, region, logic, id T) Thing {
	return Thing{Do: v, Class: policy.Storage, parts: [4]string{text(app), text(region), text(logic), text(id)}, n: 4}
}

// Owners is v with all owners of a table, or if logic is not empty with those of that type.
func Owners(v policy.Verb, app, region, logic string) Thing {
	t := Thing{Do: v, Class: policy.Storage, Extent: Every, parts: [4]string{app, region, logic}, n: 3}
	if logic != "" {
		t.n = 4
	}
	return t
}

// Scope is v with a scope of cluster state.
func Scope(v policy.Verb, scope string) Thing {
	return Thing{Do: v, Class: policy.Flow, parts: [4]string{scope}, n: 1}
}

// Client is v with a connected program, by the name that it gave.
func Client(v policy.Verb, name string) Thing {
	return Thing{Do: v, Class: policy.Clients, parts: [4]string{name}, n: 1}
}

// Whole is v with everything in a class. All documents include the roles.
func Whole(v policy.Verb, c policy.Class) Thing { return Thing{Do: v, Class: c, Extent: Every} }

// ButRoles is v with all documents but the roles, which what is done to all documents at once leaves alone.
func ButRoles(v policy.Verb) Thing { return Thing{Do: v, Class: policy.Config, Extent: Any} }

// Part is a part of the name, from 0; empty if it is not given.
func (t *Thing) Part(i int) string { return t.parts[i] }

// Parts is how many parts of the name are given. The last of those of Every and Any is a beginning.
func (t *Thing) Parts() int { return int(t.n) }

// Changes reports whether the thing is changed or taken hold of, not only read.
func (t *Thing) Changes() bool {
	return t.Do&(policy.Write|policy.Delete|policy.Lock|policy.Lease|policy.Land|policy.Grant) != 0
}

// AppendName appends the name, or the beginning of names, as [policy.Permits] take it.
func (t *Thing) AppendName(dst []byte) []byte { return policy.AppendName(dst, t.parts[:t.n]...) }

// AppendNamespace appends the namespace that pays for what is done with the thing, and nothing if there is
// none.
func (t *Thing) AppendNamespace(dst []byte) []byte {
	switch t.Class {
	case policy.KV:
		return append(dst, t.parts[0]...)
	case policy.Storage:
		return field.AppendTable(append(dst, field.Prefix...), t.parts[0], t.parts[1])
	case policy.Flow:
		return append(append(dst, kv.FlowPrefix...), t.parts[0]...)
	case policy.Bench:
		return append(dst, kv.BenchNamespace...)
	}
	return dst
}

// SameNamespace reports whether the namespace that pays is another thing's, too.
func (t *Thing) SameNamespace(other *Thing) bool {
	return t.Class == other.Class && t.parts[0] == other.parts[0] && (t.Class != policy.Storage || t.parts[1] == other.parts[1])
}
