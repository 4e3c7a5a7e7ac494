package kv

import "context"

// Archive is a Store that also reads Archived namespaces.
type Archive interface {
	Store
	// ListArchive lists the entries of an Archived namespace as List does, but without
	// CountOnly. What a transaction wrote is found as soon as it is committed, and possibly
	// somewhat earlier. It may wait for a disk or a network: not for event loops.
	// codes.BadRequest for any other namespace.
	ListArchive(ctx context.Context, l List) (Page, error)
	// Identity tells stores apart: random text that is made with the store and never changes.
	// Revisions of different stores cannot be compared.
	Identity() string
}
