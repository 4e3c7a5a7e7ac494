// Package disk is the state store on a disk ([Open]): kvstore over a log that is kept with Pebble.
//
// The log is the truth: [Disk.Append] writes one group of transactions as one
// record and returns when it is durable. Everything else is derived from the log
// in the background, by the keeper: current values, older versions, leases and
// request tokens, in sorted tables that are added to the database whole. A crash
// at any moment leaves the tables as of one revision and the log behind it, from
// which [OpenLog] goes on.
//
// Two retentions limit what is kept: the log is contiguous above one floor, and versions
// are complete above the other, except for keys with very many versions, which have a
// floor of their own. A question that cannot be answered for certain fails with
// codes.Compacted.
//
// A file beside the database, the mark, says how far acknowledged writes reach. A
// database that ends before it has lost something, and is refused.
//
// Between the database and the disk stands the fence: what a sick disk does ends neither the
// process nor the reads. After a write that failed an opening of the store writes nothing
// more ([Disk.Failed]) until the process is restarted; reads go on.
//
// Three types build on each other: the open database; the log, with the groups that are
// not in tables yet and the gate that refuses writes for lack of space; and the keeper,
// which works in the background. [Disk] is their public face.
//
// A newcomer reads keys.go (what lies where), append.go (the way in),
// materialise.go (how tables are made), open.go (the way back), read.go.
package disk
