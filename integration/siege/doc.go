// Package siege attacks the real binary with everything that somebody outside can do to
// it, under limits small enough to be met: floods of connections, storms of reconnects,
// peers that do not read, do not finish or stand still, and whatever fills memory.
//
// The tests hold the server to the same promises each time: it does not end, who was there
// before is answered throughout, who was known gets in, and its resident memory stays
// within the budget. With CONFCENTER_SOAK=1 they are as large and as long as `make soak`
// wants them.
package siege
