package http

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"confcenter/codes"
	"confcenter/confstore"
)

// condition is what a write's headers require of the stored version. The zero value
// requires nothing.
type condition struct {
	kind  conditionKind
	value int64 // of ifIs

	file *confstore.Digest // of ifIs: of the bytes that are there; nil: any with this version, in service
}

type conditionKind uint8

const (
	ifAnything conditionKind = iota
	ifIs                     // If-Match: "5", or "5-" and a digest
	ifThere                  // If-Match: *
	ifAbsent                 // If-None-Match: *
	ifNever                  // If-Match with a tag that never matches
)

// conditionOf reads If-Match and If-None-Match of a write. It refuses what it does
// not understand, because silently ignoring a condition does harm.
func conditionOf(r *http.Request) (condition, error) {
	match, err := soleHeader(r, "If-Match")
	if err != nil {
		return condition{}, err
	}
	none, err := soleHeader(r, "If-None-Match")
	switch {
	case err != nil:
		return condition{}, err
	case match != "" && none != "":
		return condition{}, codes.Errorf(codes.BadRequest, "If-Match and If-None-Match exclude each other")
	case none == "*":
		return condition{kind: ifAbsent}, nil
	case none != "":
		return condition{}, codes.Errorf(codes.BadRequest, "a write accepts only If-None-Match: *, which requires that nothing is there yet")
	case match == "":
		return condition{}, nil
	case match == "*":
		return condition{kind: ifThere}, nil
	}
	tag, strong := entityTag(match)
	if tag == "" {
		return condition{}, codes.Errorf(codes.BadRequest, "If-Match %.40q is not a single entity tag; send it exactly as in the header ETag, with its quotes", match)
	}
	version, digest, broken := strings.Cut(tag, "-")
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || !strong || n < 0 {
		return condition{kind: ifNever}, nil
	}
	c := condition{kind: ifIs, value: n}
	if broken {
		c.file = new(confstore.Digest)
		if c.file.UnmarshalText([]byte(digest)) != nil || *c.file == (confstore.Digest{}) { // which stands for no file
			return condition{kind: ifNever}, nil
		}
	}
	return c, nil
}

func soleHeader(r *http.Request, name string) (string, error) {
	switch values := r.Header[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return strings.TrimSpace(values[0]), nil
	}
	return "", codes.Errorf(codes.BadRequest, "the header %s is given more than once", name)
}

// entityTag returns the text between the quotes of a tag, or "" if text is not a
// tag.
func entityTag(text string) (tag string, strong bool) {
	rest, weak := strings.CutPrefix(text, "W/")
	if len(rest) < len(`"x"`) || rest[0] != '"' || strings.IndexByte(rest[1:], '"') != len(rest)-len(`""`) {
		return "", false
	}
	return rest[1 : len(rest)-1], !weak
}

// unchanged reports whether If-None-Match names this tag, or with any everything there is.
func unchanged(r *http.Request, want string, any bool) bool {
	values := r.Header["If-None-Match"]
	if len(values) == 0 {
		return false
	}
	for _, text := range strings.Split(strings.Join(values, ","), ",") {
		text = strings.TrimSpace(text)
		if tag, _ := entityTag(text); tag == want || any && text == "*" {
			return true
		}
	}
	return false
}

func (w *reply) setETag(version int64) { w.setTag(versionTag(version)) }

func versionTag(version int64) string { return strconv.FormatInt(version, 10) }

// digestTag is of the bytes of a file, too.
func digestTag(version int64, bytes confstore.Digest) string {
	return versionTag(version) + "-" + hex.EncodeToString(bytes[:])
}

func (w *reply) setTag(tag string) { w.Header()["Etag"] = []string{`"` + tag + `"`} }

// tag is what If-Match is compared with, of a file that was looked at: the version that is served and,
// while the file on disk is a broken one, the digest of what that holds. If no one can know that, no
// write has this tag.
func (f *fileState) tag() string {
	switch tag := versionTag(f.version()); {
	case f.broken == nil:
		return tag
	case f.broken.Text == nil:
		return tag + "-unreadable"
	}
	return digestTag(f.version(), f.broken.Hash)
}
