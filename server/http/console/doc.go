// Package console holds the pages that people use in a browser: configurations,
// the state store, the programs that are connected, the server's state.
//
// The pages in assets are written by hand, as browsers read them: ES modules and
// style sheets without a framework, built by nothing. They use the server's own
// REST and its streams and nothing else, so whatever they show and do a program
// can do as well.
//
// Three rules keep what someone stored from being run: everything from outside
// becomes a text node, never HTML; the content security policy allows no inline
// script or style and nothing from elsewhere; and every reply says nosniff.
package console
