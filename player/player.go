// Package player keeps the fields of owners, such as the data of players, in the state
// store and says which of them a database has not got yet.
//
// An [Owner] has fields, which are bytes under a name. A field is one entry of the state
// store: its namespace is @storage/TABLE, its key is what the database's table TABLE has as
// primary_key ([field.Ref.Key]). So value and dirty mark are one write: a field is dirty as long as
// its entry is newer than the cursor of its dirty table (ledger.go).
//
// What must stay true:
//
//   - A field's version never falls and never stands for two values. It is the revision of
//     its entry plus a base, which is the time at which this data directory wrote its first
//     field, in µs since 1970: revisions rise slower, so what a later data directory writes
//     is newer still.
//   - The cursor of a dirty table passes a field only when the field is in the database or in
//     the list of errors, by a transaction that is fenced by the table's lock.
//   - A removed field is an entry of type kv.Removed. No value of a user's is a mark.
//   - Writes to one owner take effect in the order in which they are handed over.
//   - Memory wins over the database: what is loaded never replaces an entry, and is forgotten
//     once there is one (cold.go).
//   - Nothing is read from a database, or landed in it, that is not the one that the data
//     directory remembers, or that another store lands in (identity.go).
//
// A newcomer begins with [field.Owner], [field.Write] and [Storage.Do], then reads write.go.
package player
