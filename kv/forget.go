package kv

// Held names an entry of which there is a copy elsewhere.
type Held struct {
	NS, Key string
	Mod     Revision // the one that is meant; an entry that has changed since is another
}

// Forgetter is a Store that can forget entries: they are absent from then on, until they
// are written again, as if they had never been. That is no change: it has no revision, no
// event, no history, and Changes still tells of the entries.
type Forgetter interface {
	Store
	// Forget forgets the entries of the list that it can. It leaves those that have
	// changed since, that a transaction under way changes, that an open View needs in this version or an
	// earlier one, or that
	// expire or have a lease. done is called exactly once, when no read finds them any
	// more, with how many were forgotten; it is called like the function given to Commit.
	// Transactions committed before are applied before. The list belongs to the store.
	//
	// The disk forgets later. After a crash before that an entry is simply there again, as
	// it was, unless its key was written again; a deletion meanwhile found nothing to
	// delete. If done gets an error, that is why no more than n were forgotten. If Forget
	// itself fails, done is not called: codes.NotImplemented if the store cannot forget,
	// codes.Busy, codes.Closed, codes.BadRequest for an entry outside Reserved namespaces.
	Forget(list []Held, done func(n int, err error)) error
}
