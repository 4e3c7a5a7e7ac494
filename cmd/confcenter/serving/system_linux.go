package serving

import (
	"fmt"
	"syscall"
)

// raiseFileLimit raises the process's limit on open files as far as allowed and returns
// it.
func raiseFileLimit() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("the limit on open files cannot be read: %w", err)
	}
	if limit.Cur < limit.Max {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return 0, fmt.Errorf("the limit on open files cannot be raised to %d: %w", limit.Max, err)
		}
	}
	return int(min(limit.Cur, 1<<30)), nil
}
