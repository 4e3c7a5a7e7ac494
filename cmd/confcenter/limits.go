package main

import (
	"fmt"
	"syscall"
)

// reservedFiles is how many open files are kept for other things than connections
// with a place: files of the configuration being read, the state store's, the journal,
// the watcher, the loops, and connections on their way in or out.
const reservedFiles = 512

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

// connectionLimit returns how many TCP connections the server may hold, given the
// number asked for (0: as many as possible), the limit on open files, and the files
// reserved for other things.
func connectionLimit(asked, files, reserved int) (int, error) {
	most := files - reserved
	if most < 1 {
		return 0, fmt.Errorf("the limit of %d open files leaves none for connections; raise it (ulimit -n) above %d", files, reserved)
	}
	if asked > most {
		return 0, fmt.Errorf("max-connections = %d: the limit of %d open files allows %d; raise it (ulimit -n) to %d or ask for fewer",
			asked, files, most, asked+reserved)
	}
	if asked == 0 {
		return most, nil
	}
	return asked, nil
}

// connections is the limit on HTTP connections, which are open files too: the configured
// one, or else a share of all files, capped at more than anybody needs.
func (o *httpOptions) connections(files int) int {
	const share, enough = 4, 8192
	switch {
	case o.listen == "":
		return 0
	case o.maxConnections > 0:
		return o.maxConnections
	}
	return min(files/share, enough)
}
