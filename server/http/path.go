package http

import (
	"net/http"
	"net/url"
	"strings"

	"confcenter/codes"
)

// paths finds the place of a path as it was sent. net/http's ServeMux alone would redirect one with
// empty segments or dots to the path that is left without them, which is of another key, or another
// owner; and clients repeat a PUT or a DELETE there.
type paths struct {
	*http.ServeMux
	keys           *place // below Plum's root, where empty segments are the key's; nil: there is none
	unknown, plain *place // below /v1, and elsewhere
}

// ServeHTTP implements http.Handler.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := sentPath(r.URL)
	switch {
	case p.keys != nil && strings.HasPrefix(path, plumRoot+"/"):
		p.keys.ServeHTTP(w, r)
	case !dotted(path) && !strings.Contains(path, "//"):
		if path != r.URL.EscapedPath() {
			r.URL.RawPath = path
		}
		p.ServeMux.ServeHTTP(w, r)
	case strings.HasPrefix(path, "/v1/"):
		p.unknown.ServeHTTP(w, r)
	default:
		p.plain.ServeHTTP(w, r)
	}
}

// sentPath is the path of u as it was sent, where url.URL decodes and encodes all of it again, %2F
// included, if it has a character that should have been encoded.
func sentPath(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawPath == "" || u.RawPath == path {
		return path
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		if c := u.RawPath[i : i+1]; c == "/" || c == "%" {
			b.WriteString(c)
		} else {
			b.WriteString(url.PathEscape(c))
		}
	}
	return b.String()
}

// dotted reports whether a path has a segment that programs on the way resolve.
func dotted(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// unknownPath is why a path has no place.
func unknownPath(path string) error {
	switch {
	case dotted(path):
		return codes.Errorf(codes.BadRequest, "the path has a segment that is . or .., which would lead elsewhere: send it without; in a name write a dot as %%2E")
	case strings.Contains(path, "//"):
		return codes.Errorf(codes.NotFound, "there is nothing at this path: it has //, as if the base address ended in a slash too many")
	}
	return errUnknownPath
}
