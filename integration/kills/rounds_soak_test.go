//go:build soak && !race

package kills

// whole is many in `make soak` and few otherwise.
func whole(many, _ int) int { return many }
