// Package siege attacks the real binary with everything that an outsider can do to
// it, under limits small enough to be met: floods of connections, storms of reconnects,
// peers that do not read, do not finish or stand still, and whatever fills memory.
//
// The tests hold the server to the same promises each time: it does not end, who was there
// before is answered throughout, who was known gets in, and its resident memory stays
// within the budget. Most are built with the tag soak only, as `make soak` runs them; without it there
// are five seconds of everything together.
package siege
