//go:build !linux || nognet

package netio

// newTransport makes a transport that does nothing before start: without the event-loop
// library there is one for everything.
func newTransport(cfg *Config, _ bool) transport { return newStd(cfg) }
