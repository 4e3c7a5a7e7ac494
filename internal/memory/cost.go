package memory

// What each kind of thing takes in memory besides its texts and values, in bytes, with its places in
// maps and lists: one cost for each kind that peers can make many of. Maps and slices have room to grow;
// the costs have the mean of it. What is rare, or small beside its texts, has none of its own and is
// counted as the kind next to it. Tests compare them with the heap, and allow for a fifth.
const (
	TCPCost    = 3 << 10  // a connection that does nothing
	HTTPCost   = 9 << 10  // likewise, with net/http's buffers
	TLSCost    = 12 << 10 // what TLS adds to either
	StreamCost = 13 << 10 // what a stream of events adds to HTTP that tells nothing: stacks, buffers, what it follows

	EntryCost    = 240 // the newest version of a key, whether it expires or not
	VersionCost  = 180 // an older version that someone needs, an event or its encoding, a subscription, a row of a list
	LeaseCost    = 140 // a lease; as much again for the keys of one that has some, and a quarter for each of them
	TokenCost    = 190 // the result of a transaction that may be sent again
	WatchCost    = 512 // a watch with its topic, a client in a list
	WaiterCost   = 400 // a request that waits, an operation of one that is carried out over HTTP
	OwnerCost    = 450 // what has things of its own: a namespace, an owner of rows
	DocumentCost = 384 // a configuration file
)
