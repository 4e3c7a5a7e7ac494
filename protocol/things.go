package protocol

import (
	"confcenter/access/policy"
	"confcenter/op"
	"confcenter/player/field"
)

// The methods below append to things what a request is about, see package op. They keep nothing.

// Things of KVGET are the key, or its past.
func (q *KVRead) Things(things []op.Thing) []op.Thing {
	if q.Rev > 0 {
		return op.Past(things, q.NS, q.Key)
	}
	return append(things, op.Key(policy.Read, q.NS, q.Key))
}

// Things of KVMGET are the keys.
func (q *KVMGetQuery) Things(things []op.Thing) []op.Thing {
	for _, key := range q.Keys {
		things = append(things, op.Key(policy.Read, q.NS, key))
	}
	return things
}

// Things of KVLIST are the keys that may be read of those with the prefix.
func (q *KVListQuery) Things(things []op.Thing) []op.Thing {
	return append(things, op.Keys(policy.Read, op.Any, q.NS, q.Prefix))
}

// Things of KVHISTORY are the key's past.
func (q *KVHistoryQuery) Things(things []op.Thing) []op.Thing { return op.Past(things, q.NS, q.Key) }

// Things of KVRESTORE are the key's past, and what the put of it is about.
func (q *KVRestoration) Things(things []op.Thing) []op.Thing {
	return q.write.Things(op.Past(things, q.NS, q.Key))
}

// Things of a transaction are all that it reads and changes, in either branch.
func (w *KVWrite) Things(things []op.Thing) []op.Thing { return op.Txn(things, w.Txn) }

// Things of KVLOCK are the lock.
func (q *KVLockRequest) Things(things []op.Thing) []op.Thing { return op.Lock(things, q.NS, q.Key) }

// Things of KVUNLOCK are the lock. No one is to keep a lock for want of a request.
func (q *KVUnlockRequest) Things(things []op.Thing) []op.Thing {
	things = op.Lock(things, q.NS, q.Key)
	for i := len(things) - 2; i < len(things); i++ {
		things[i].Unpaid = true
	}
	return things
}

// Things of KVWATCH are what its events tell.
func (q *KVWatchRequest) Things(things []op.Thing) []op.Thing { return op.Watch(things, q.Filter) }

// Things of GETCONFIG are the document.
func (q ConfigQuery) Things(things []op.Thing) []op.Thing {
	return append(things, op.Document(policy.Read, q.File))
}

// Things of SETCONFIG are the document, which a request without contents deletes.
func (u *ConfigUpdate) Things(things []op.Thing) []op.Thing {
	return op.Change(things, u.Name, u.Contents == nil)
}

// Things of BOOKCFGCHANGE are the document, unless it ends a subscription.
func (s *Subscription) Things(things []op.Thing) []op.Thing {
	if s.Unsubscribe {
		return things
	}
	return append(things, op.Document(policy.Read, s.File), op.Document(policy.Watch, s.File))
}

// Things of STGET are the owner.
func (q *StorageRead) Things(things []op.Thing) []op.Thing {
	return append(things, op.Owner(policy.Read, q.App, q.Region, q.Logic, q.ID))
}

// Things of STALL are the owner.
func (q *StorageQuery) Things(things []op.Thing) []op.Thing {
	return append(things, op.Owner(policy.Read, q.Owner.App, q.Owner.Region, q.Owner.Logic, q.Owner.ID))
}

// Things of STOWNERS are the owners of a table, or those of one type.
func (q *StorageOwnersQuery) Things(things []op.Thing) []op.Thing {
	return append(things, op.Owners(policy.Read, q.App, q.Region, q.Logic))
}

// fieldsWritten are the things of a write of fields, a *field.Write.
func fieldsWritten(request any, things []op.Thing) []op.Thing {
	return op.Fields(things, request.(*field.Write))
}

// documentsWatched are the things of a *ConfigWatch.
func documentsWatched(request any, things []op.Thing) []op.Thing {
	return op.WatchDocuments(things, request.(*ConfigWatch).Filter)
}
