package token

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Whether a token or a session may be made is judged by all that there are: how many, and whose names
// they have. Other servers on the same state make them, too. So each making writes one key, and is done only
// if that is as it was before it was judged.

// madeKey is that key: the id of what was made last.
const madeKey = "made"

// makings are what is made in a store.
type makings struct {
	store embedded.Store // set at open
}

// Unmade is the condition that no token and no session has been made since. Who judges by those that there
// are takes it before, and has it in the transaction that makes one, with [Tokens.Ops]. codes.Conflict then
// means to judge again.
func (m makings) Unmade() kv.Compare { return m.same(madeKey) }

// same is the condition that a key is as it is now.
func (m makings) same(key string) kv.Compare {
	c := kv.Compare{NS: kv.AccessNamespace, Key: key, Target: kv.CompareMod, Relation: kv.Equal}
	if e := m.store.Get(c.NS, c.Key); e != nil {
		c.Number = int64(e.Mod)
	}
	return c
}

// putMade writes that something with that id is made.
func putMade(id string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: madeKey, Value: kv.StringValue(id)}
}

// judged does what is judged and then written, again if another server has written meanwhile: codes.Conflict.
func judged[T any](do func() (T, error)) (T, error) {
	for {
		done, err := do()
		if codes.Of(err) != codes.Conflict {
			return done, err
		}
	}
}
