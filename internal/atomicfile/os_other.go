//go:build !linux

package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// StatOf is what the system knows of a file; false if it says nothing.
func StatOf(info fs.FileInfo) (Stat, bool) {
	if stat, ok := info.Sys().(*Stat); ok {
		return *stat, true
	}
	return Stat{}, false
}

func flock(*os.File) error   { return fmt.Errorf("only Linux locks it: %w", errors.ErrUnsupported) }
func unflock(*os.File) error { return errors.ErrUnsupported }
func allocate(File, int)     {}
