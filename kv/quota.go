package kv

import "confcenter/access"

// Stock is what a namespace has.
type Stock struct {
	Keys   int64
	Bytes  int64 // of keys and values
	Leased int64 // keys that end with a lease
}

// Quotas judge what transactions would take, besides the limits of the store as a whole. A store
// calls them while it commits: they must not wait. What its server writes for itself is not asked
// about.
type Quotas interface {
	// Namespace refuses a transaction with which a namespace would have has instead of had. What
	// is not more than it was is not refused.
	Namespace(ns string, had, has Stock) error
	// Lease refuses a lease to who, nil if that is not known, who has so many.
	Lease(who *access.Identity, have int) error
}
