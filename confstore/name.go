package confstore

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"confcenter/codes"
)

const (
	suffix         = ".json"
	maxNameBytes   = 1024
	maxSegment     = 255
	maxNameInError = 80
)

// CheckName returns an error with codes.BadName if name cannot be a document's. A name is the path
// relative to the directory with '/' between its segments, and ends in ".json". No segment is empty,
// begins with a dot or is longer than 255 bytes; there are no backslashes and no control characters;
// the name is UTF-8, has at most 31 directories and is at most 1024 bytes long.
func CheckName(name string) error {
	if reason := nameFault(name); reason != "" {
		return codes.Errorf(codes.BadName, "filename %q: %s", shorten(name), reason)
	}
	return nil
}

func shorten(name string) string {
	if len(name) <= maxNameInError {
		return name
	}
	return name[:maxNameInError] + "..."
}

// nameFault returns what is wrong with a name and what to do about it, or "".
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty; give the path of a file below the configuration directory"
	case len(name) > maxNameBytes:
		return "is longer than 1024 bytes; shorten it"
	case !strings.HasSuffix(name, suffix):
		return "does not end in .json; add it"
	case !utf8.ValidString(name):
		return "is not UTF-8; rename it"
	case name[0] == '/':
		return "begins with '/'; names are relative to the configuration directory"
	case strings.Count(name, "/") >= maxDepth: // the walk would not find it
		return fmt.Sprintf("lies in more than %d directories; move it up", maxDepth-1)
	}
	if i := strings.IndexFunc(name, hostileRune); i >= 0 {
		return "contains a backslash or a control character; use '/' and printable characters"
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return "has an empty segment; write one '/' between segments"
		case segment[0] == '.':
			return "has a segment that begins with a dot; such files are not configuration"
		case len(segment) > maxSegment:
			return "has a segment longer than 255 bytes; shorten it"
		}
	}
	return ""
}

func notServed(fault string) string { return "is not served: its name " + fault }

// shownName returns any name in a form that is safe for people and JSON.
func shownName(name string) string {
	return strings.Map(func(r rune) rune {
		if r != '\\' && hostileRune(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(path.Clean(name), "?"))
}

func hostileRune(r rune) bool {
	return r == '\\' || r < ' ' || r >= 0x7f && r < 0xa0
}

// hidden reports whether a segment of a relative path begins with a dot.
func hidden(rel string) bool {
	return strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.")
}

// below reports whether name is in directory dir or deeper.
func below(name, dir string) bool {
	return dir == "." || len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}

// join is path.Join for a clean directory that may be ".".
func join(dir, base string) string {
	if dir == "." {
		return base
	}
	return path.Join(dir, base)
}
