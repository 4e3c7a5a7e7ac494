package op

import (
	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/player/field"
)

// Of is what a question is about, a *Q that knows it: what a row of a table has.
func Of[Q interface{ Things([]Thing) []Thing }](question any, things []Thing) []Thing {
	return question.(Q).Things(things)
}

// The functions below append to things what a question is about, in the order in which it is refused.

// Past is about what the versions of a key tell.
func Past[T string | []byte](things []Thing, ns, key T) []Thing {
	return append(things, Key(policy.History, ns, key), Key(policy.Read, ns, key))
}

// Lock is about a lock: a request that is refused is told what the holder has written there.
func Lock(things []Thing, ns, key string) []Thing {
	return append(things, Key(policy.Lock, ns, key), Key(policy.Read, ns, key))
}

// Watch is about what a watch on keys tells: events have the values, and the entries those before.
func Watch(things []Thing, f kv.Filter) []Thing {
	for _, v := range [...]policy.Verb{policy.Watch, policy.Read} {
		switch {
		case f.NS == "":
			things = append(things, AllKeys(v))
		case f.Exact:
			things = append(things, Key(v, f.NS, f.Text))
		default:
			things = append(things, Keys(v, Every, f.NS, f.Text))
		}
	}
	return things
}

// Txn is about what a transaction reads and changes, whichever of its branches is taken: each compare tells
// something of a value, so does an operation that makes one of another, by what it refuses, and an operation that returns what was before.
func Txn(things []Thing, t *kv.Txn) []Thing {
	for i := range t.Fences { // whether one holds tells that there is a lock
		things = Lock(things, t.Fences[i].NS, t.Fences[i].Key)
	}
	for i := range t.If {
		things = append(things, Key(policy.Read, t.If[i].NS, t.If[i].Key))
	}
	for _, ops := range [...][]kv.Op{t.Then, t.Else} {
		for i := range ops {
			things = change(things, &ops[i])
		}
	}
	return things
}

func change(things []Thing, o *kv.Op) []Thing {
	does := policy.Write // a kind that is not known here is no read
	switch has := o.Kind.Members(); {
	case has&(kv.MemberTTL|kv.MemberLease) != 0:
		return append(things, Leases(o.NS))
	case has&kv.MemberPrefix != 0:
		return append(things, Keys(policy.Delete, Every, o.NS, o.Key))
	case o.Kind == kv.OpGet:
		does = policy.Read
	case has != 0 && !o.Kind.Sets():
		does = policy.Delete
	}
	things = append(things, Key(does, o.NS, o.Key))
	if o.Lease != 0 {
		things = append(things, Key(policy.Lease, o.NS, o.Key))
	}
	if does != policy.Read && (o.WantPrev || o.Kind.Updates()) {
		things = append(things, Key(policy.Read, o.NS, o.Key))
	}
	return things
}

// PastOf is about what the versions of a document tell.
func PastOf(things []Thing, name string) []Thing {
	return append(things, Document(policy.History, name), Document(policy.Read, name))
}

// Change is about changing a document, or with deletes deleting it: the answer tells what was there.
func Change(things []Thing, name string, deletes bool) []Thing {
	does := policy.Write
	if deletes {
		does = policy.Delete
	}
	return append(things, Document(does, name), Document(policy.Read, name))
}

// WatchDocuments is about what a watch on documents tells, which is their contents.
func WatchDocuments(things []Thing, f kv.Filter) []Thing {
	for _, v := range [...]policy.Verb{policy.Watch, policy.Read} {
		if f.Exact {
			things = append(things, Document(v, f.Text))
		} else {
			things = append(things, Documents(v, f.Text))
		}
	}
	return things
}

// Fields is about what a write of fields changes and tells. An increment and a restoration tell values, a
// condition tells versions by failing, and prev what was there before.
func Fields(things []Thing, w *field.Write) []Thing {
	things = append(things, owner(policy.Write, w.Owner))
	if w.Kind == field.Incr || w.Kind == field.Restore || w.WantPrev || len(w.Expect) > 0 {
		things = append(things, owner(policy.Read, w.Owner))
	}
	return things
}

func owner(v policy.Verb, o field.Owner) Thing { return Owner(v, o.App, o.Region, o.Logic, o.ID) }
