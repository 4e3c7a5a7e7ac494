//go:build !soak || race

package kills

// whole is many in `make soak` and few otherwise.
func whole(_, few int) int { return few }
