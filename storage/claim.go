package storage

import "confcenter/kv"

// Claim is what came of asking for a dirty table.
type Claim struct {
	// Fence is not 0 if the lander has the table now: it goes with Landed and Release.
	Fence kv.Revision
	// Idle says that nothing in the table is to be landed, so that nobody needs a claim.
	Idle bool
	// Holder is the lander that has the table.
	Holder string
}
