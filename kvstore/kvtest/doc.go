// Package kvtest is the suite that every engine of the state store passes, and an
// engine made for tests.
//
// [Run] tests an engine against the comments of kv.Store on two levels: Core, which every engine
// passes, and Embedded, of which an engine passes the checks for its Capabilities. An engine's
// own test consists of one call:
//
//	func TestSuite(t *testing.T) { kvtest.Run(t, open) }
//
// where open makes an [Instance] on new data. The suite is tested itself: defects_test.go plants
// one fault after the other in an engine and names the check that finds it. Whether an engine is
// linearizable is judged in integration/linear, where it has to be opened as well.
//
// [Memory] is the other half: a replica over a list instead of a disk, for the
// tests of servers, clients and whatever else needs a kv.Store.
package kvtest
