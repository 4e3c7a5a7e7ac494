// Package decrypt reads TLS connections with the keys that one of their sides has written
// down: TLS 1.3, and 1.2 with the AEAD suites that crypto/tls agrees on.
//
// Start with [Open], which reads a key log in the format of NSS and goes on reading while
// it grows, and a [Conversation] for each connection: what both sides have sent goes in by
// Take and Missing, what they have said comes out at a [Receiver].
//
// keylog.go has the log, conversation.go the handshake and its states, record.go the
// records of one side and how they are found again after a gap, cipher.go the keys.
//
// Nothing is believed that is not authentic, and all memory is bounded. A Conversation is
// not for concurrent use, and neither are those that share a Log.
package decrypt
